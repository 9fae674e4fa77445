"""Which programs may be kept waiting in a non-blocking connect, and which may not.

While the call waits the descriptor can be replaced without the program noticing anything. Once it
is answered EINPROGRESS, a program can be woken only by an error on the old socket, before it asks
for the outcome; most ask at once, but some take the mere sight of the error for the outcome: curl
(lib/cf-socket.c) and the JDK (Net.c, pollConnect). So a program without an event loop waits in the
call, for a second at most; it would have waited in poll(2) anyway. One with an event loop, which is
told by its epoll, has others to serve meanwhile, and is answered at once.

Refuses to keep an event loop waiting, except the JDK's, which would take an exception out of it.
"""

from __future__ import annotations

import os

from outlast.shims.run.processes import Processes, Task

__all__ = ["LONGEST", "Patience"]

LONGEST = 1.0  # seconds in one call
STRICT = {"java"}


class Patience:
    """Knows the processes by what they do. One owner. Raises OSError for one that has ended."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def loops(self, task: Task) -> None:
        """A process makes itself an epoll."""
        self._processes.whole(task).loops = True

    def of(self, task: Task) -> bool:
        """Whether this program may wait in a non-blocking connect."""
        return not self._processes.whole(task).loops or _program(task.process) in STRICT


def _program(process: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/{process}/exe"))
    except OSError:
        return ""
