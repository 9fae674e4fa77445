"""Running the command, with a bound on everything."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

RUN = (sys.executable, "-m", "outlast.cli", "run")
HERE = Path(__file__).parent
PATIENCE = 30.0  # seconds for a whole program
LOOPBACK = ("--only", "127.0.0.1", "--only", "::1")


def run(
    *options: str, program: Sequence[str], python: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program under supervision to its end; one of this folder's, if it is Python's."""
    words = [sys.executable, *program] if python else list(program)
    return subprocess.run(
        [*RUN, *options, "--", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def started(*options: str, program: Sequence[str]) -> subprocess.Popen[str]:
    """Start a Python program under supervision, in a session of its own."""
    return subprocess.Popen(
        [*RUN, *options, "--", sys.executable, *program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def line(process: subprocess.Popen[str]) -> str:
    """The next line that a program says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def children(pid: int) -> list[int]:
    """Of a process, in the order of their birth."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
