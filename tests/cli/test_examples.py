"""The examples run as they are, and do what they say."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house.sources import ROOT

SAID = {
    "create_connection": ["connected: ('127.0.0.1', ", "answered:  HTTP/1.0 200 OK"],
    "drop_in": ["Client:      <Response [200 OK]>", "AsyncClient: <Response [200 OK]>"],
    "override_and_report": [
        "in the block: <Response [200 OK]>",
        "a is gone: <Response [200 OK]>",
        "both are gone: connect failed",
        "ECONNREFUSED",
    ],
    "requests_adapter": ["both are there: {'pod': ", "a is gone:      {'pod': 'b'}"],
    "simulated_outage": ["outlast: 480 answered, 0 errors in 60 virtual seconds"],
    "static_targets": ["both are there: {'pod': ", "a is gone:      {'pod': 'b'}"],
}


def test_every_example_is_tried() -> None:
    found = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert found - {"local_pods", "redis_adapter"} == set(SAID)


@pytest.mark.parametrize("name", sorted(SAID))
def test_an_example_runs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for words in SAID[name]:
        assert words in done.stdout
