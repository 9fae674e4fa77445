"""A short churn, in a process of its own; `make churn` runs the long one."""

from __future__ import annotations

import random
import subprocess
import sys

SECONDS, ROUND = 6, 1.5
BOUND = 55  # seconds; it takes ten


def test_everything_comes_and_goes_and_nothing_is_left() -> None:
    given = [str(SECONDS), str(random.randrange(1 << 30)), str(ROUND)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.stress.churn", *given],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing has grown, nothing went wrong" in done.stdout
