"""The ways to put a program under outlast: nothing, `install()`, `run`, `forward`, an adapter.

The program is the same each time; what differs is the command line, and for `forward` the address.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

from tests.house.sources import ROOT
from tests.lab.legacy import go_client
from tests.lab.legacy.rows import PROGRAMS, Row

__all__ = ["OUTLAST", "command", "environment", "forwarder", "lacking"]

OUTLAST = (sys.executable, "-m", "outlast.cli")
# What a user of install() writes above their own program.
_INSTALL = """\
import runpy, sys
import outlast
outlast.install()
sys.argv[:] = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@functools.cache
def lacking(way: str) -> str | None:
    """Why a way cannot be gone on this machine, or None: `run` needs its kernel's leave."""
    if way != "run":
        return None
    tried = subprocess.run(
        [*OUTLAST, "run", "--", "true"],
        env=environment(Path.home()),
        capture_output=True,
        text=True,
        timeout=20.0,
        check=False,
    )
    return None if tried.returncode == 0 else tried.stderr.strip() or "`outlast run` does not work"


def command(way: str, row: Row, address: tuple[str, int], workers: int, pause: float) -> list[str]:
    """The command line of a row."""
    own = [address[0], str(address[1]), row.mode, str(workers), str(pause)]
    program = str(PROGRAMS / row.program)
    if way == "adapter":
        program = str(PROGRAMS / "adapted" / row.program)
    if row.program.endswith(".go"):
        started = [go_client.binary()]
    elif row.program.endswith(".js"):
        started = ["node", program]
    elif row.program.endswith(".sh"):
        started = ["sh", program]
    else:
        started = [sys.executable, program]
    if way == "install":
        started = [sys.executable, "-c", _INSTALL, program]
    elif way == "run":
        started = [*OUTLAST, "run", "--", *started]
    return [*started, *own]


def forwarder(listen: tuple[str, int], target: tuple[str, int]) -> list[str]:
    """The command line of a forwarder."""
    return [*OUTLAST, "forward", f"{listen[0]}:{listen[1]}", f"{target[0]}:{target[1]}"]


def environment(folder: Path) -> dict[str, str]:
    """The environment of all programs: no proxy and no setting of the machine's."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.startswith(("OUTLAST_", "PYTEST_"))
    }
    return {**kept, "PYTHONPATH": str(ROOT), "HOME": str(folder), "PYTHONUNBUFFERED": "1"}
