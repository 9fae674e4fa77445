"""The command's words: version, help, refusals, and life without the extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import outlast
from outlast.cli.app import app


def test_the_version() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, f"outlast, version {outlast.__version__}\n")


def test_the_help_tells_what_it_does_and_every_option() -> None:
    text = CliRunner().invoke(app, ["demo", "--help"], terminal_width=80).output
    for word in ("loses power", "43 s", "--seconds", "--connections", "--network", "--output"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 80
    assert "demo" in CliRunner().invoke(app, ["--help"]).output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "4"], "'--seconds': 4 is not in the range 5<=x<=100"),
        (["--seconds", "101"], "101 is not in the range"),
        (["--seconds", "1m"], "'1m' is not a valid integer"),
        (["--connections", "all"], "'all' is not one of 'both', 'pooled', 'new'"),
        (["--network", "wifi"], "'wifi' is not one of 'auto', 'kernel', 'simulated', 'loopback'"),
        (["--output", "demo.png"], "demo.png is no .svg file; right: --output outlast-demo.svg"),
        (["--output", "no/such/a.svg"], "no/such is no folder that can be written to"),
        (["--quick"], "No such option"),
        (["now"], "unexpected extra argument"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(
    arguments: list[str], said: str
) -> None:
    done = CliRunner().invoke(app, ["demo", *arguments])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_loopback_refuses_what_it_cannot_show(tmp_path: Path) -> None:
    output = str(tmp_path / "a.svg")
    arguments = ["demo", "--network", "loopback", "--connections", "pooled", "--output", output]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "pooled connections cannot be shown on loopback" in done.output
    assert not Path(output).exists()


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_the_command_says_how_to_get_it(missing: str) -> None:
    text = f"import sys; sys.modules[{missing!r}] = None\nfrom outlast.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=30, check=False
    )
    said = f"outlast: the command needs the library {missing}: pip install 'outlast[cli]'\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "outlast.cli", "--version"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.startswith("outlast, version")
