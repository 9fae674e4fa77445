"""Whether the supervisor may dial for a program: only what the program could dial itself.

The first dial of a connect is made on the program's own socket: its network namespace, marks,
bound address and owner are the program's. Further dials come from sockets of the supervisor's, so
they are made only where these are like the program's: same network namespace and user (what packet
filters go by), same control group and security label, no packet filter of its own on the socket.
A process that has restricted itself by Landlock may not dial what the supervisor may; neither may
what it starts. It is left to the kernel, and so is every process that began after it did so, since
who descends from whom cannot be told once a parent has ended.

Source: socket(7), landlock(7), cgroups(7), proc(5). What cannot be told counts as unlike.
"""

from __future__ import annotations

import os
import socket

from outlast.shims.run.machine import Unsupported
from outlast.shims.run.processes import Task

__all__ = ["Likeness"]

SO_NETNS_COOKIE = 71  # Linux 5.14
SO_GET_FILTER = 26
STARTED = 19  # place of a process's start in /proc/PID/stat, counted behind its name


class Likeness:
    """What this process is like, and which of the supervised are not. One owner. Raises
    Unsupported where the kernel cannot tell."""

    def __init__(self) -> None:
        with socket.socket() as ours:
            try:
                self._network = _network(ours)
            except OSError as error:
                raise Unsupported(
                    f"this kernel does not name network namespaces ({error.strerror}); "
                    "Linux 5.14 or later is needed"
                ) from error
            self._user = os.fstat(ours.fileno()).st_uid
        self._label = _text("/proc/self/attr/current")
        self._groups = _text("/proc/self/cgroup")
        self._restricted: set[int] = set()
        self._since: int | None = None  # when the first of them did so, in ticks since boot

    def unlike(self, task: Task, sock: socket.socket) -> str:
        """Why a program's socket is left to the kernel altogether; "" if it is not."""
        if _network(sock) != self._network:
            return "another network namespace"
        if os.fstat(sock.fileno()).st_uid != self._user:
            return "another user's socket"
        if self._since is not None and self._restricts(task.process):
            return "the program has restricted itself (Landlock)"
        if self._label and _text(f"/proc/{task.pid}/attr/current") != self._label:
            return "another security label"
        return ""

    def apart(self, task: Task, sock: socket.socket) -> str:
        """Why there are no further dials for a socket that `unlike` has let pass; "" if there
        are."""
        if _text(f"/proc/{task.pid}/cgroup") != self._groups:
            return "another control group"
        if _has_filter(sock):
            return "a packet filter on the socket"
        return ""

    def restricts(self, process: int) -> None:
        """A process is about to restrict itself."""
        self._restricted.add(process)
        if self._since is None:
            self._since = _ticks("/proc/uptime")

    def _restricts(self, process: int) -> bool:
        if process in self._restricted:
            return True
        assert self._since is not None
        return _began(process) >= self._since


def _network(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8)


def _has_filter(sock: socket.socket) -> bool:
    """A filter of more than one step does not fit, and the kernel says so."""
    try:
        return bool(sock.getsockopt(socket.SOL_SOCKET, SO_GET_FILTER, 1))
    except OSError:
        return True


def _text(path: str) -> bytes:
    try:
        with open(path, "rb") as told:
            return told.read()
    except OSError:  # no such security module, or the process has ended
        return b""


def _ticks(path: str) -> int:
    """The clock by which the kernel tells when processes began."""
    uptime = float(_text(path).split()[0])
    return int(uptime * os.sysconf("SC_CLK_TCK"))


def _began(process: int) -> int:
    """Ticks since boot; a large number if it cannot be told."""
    told = _text(f"/proc/{process}/stat").rpartition(b")")[2].split()
    return int(told[STARTED]) if len(told) > STARTED else 2**62
