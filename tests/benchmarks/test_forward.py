"""The forwarder's benchmark runs and tells every figure; what they are is not looked at here."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house.sources import ROOT

COMMAND = [sys.executable, "-m", "benchmarks.forward", "--rounds", "1", "--megabytes", "4"]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_it_tells_every_figure() -> None:
    done = subprocess.run(
        [*COMMAND, "--idle", "20"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    for said in (
        *("upload, direct: ", "upload, splice: ", "download, copy: ", "round trip: direct "),
        *("connect and first byte: ", "20 idle connections: ", "each "),
    ):
        assert said in done.stdout, done.stdout + done.stderr
    assert "limit" in done.stdout.splitlines()[-1]
