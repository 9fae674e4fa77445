"""Ties a lab's process to the lab: whatever becomes of the lab, the process does not outlive it.

The end of standard input is the polite way; this is for a process that is stopped or stuck.

Source: prctl(2), PR_SET_PDEATHSIG. The signal comes when the parent's *thread* ends, so labs start
their processes from a thread that lives as long as they do. Refuses to go on when the parent has
ended already.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent, process `parent`, ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        sys.exit(1)
