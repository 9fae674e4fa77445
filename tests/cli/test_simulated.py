"""The demo on the simulated network: the whole incident, the same again every time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from outlast.cli import demo
from outlast.cli.app import app
from outlast.testing import KernelLab


def play(folder: Path, network: str) -> tuple[str, dict[str, list[int]]]:
    """What it prints, and requests, errors and hung ones of each client."""
    picture = folder / "a.svg"
    arguments = ["demo", "--network", network, "--seconds", "6", "--output", str(picture)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert picture.stat().st_size > 10_000
    _, _, table = done.output.partition("client ")
    rows = re.findall(r"^(\w+, \w+) +(\d+) +(\d+) +(\d+) ", table, re.MULTILINE)
    return done.output, {name: [int(number) for number in numbers] for name, *numbers in rows}


def test_where_no_lab_is_possible_the_incident_is_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "enter_namespace", lambda: None)
    monkeypatch.setattr(KernelLab, "missing", lambda: "this is a test")
    told, found = play(tmp_path, "auto")
    assert "No kernel lab is possible here: this is a test." in told
    assert "simulated network" in told
    assert list(found) == ["httpx, pooled", "outlast, pooled", "httpx, new", "outlast, new"]
    for name in ("outlast, pooled", "outlast, new"):
        requests, errors, hung = found[name]
        assert requests > 150
        assert (errors, hung) == (0, 0)
    for name in ("httpx, pooled", "httpx, new"):
        _, errors, hung = found[name]
        assert errors + hung > 0
    assert play(tmp_path, "simulated")[1] == found
