"""gevent under the patch, whichever was first: greenlets go on while another one races."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.house.sources import ROOT

pytest.importorskip("gevent", reason="gevent is not installed here")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_silent_dial_is_overtaken_while_other_greenlets_run(when: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.shims.patch.green_program", when],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        check=False,
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert done.returncode == 0, done.stderr
    first, second, last = done.stdout.splitlines()
    assert first == "gevent._socket3 True True True"
    assert second == "HELLO"
    assert last.startswith("2 True")
    assert ("greenlets" in last) is (when == "before")
