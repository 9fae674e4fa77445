"""Puts another socket in the place of the program's own, in everything that knows of it.

All descriptors of the file in that process get the new one, with their own close-on-exec flag; the
new file has the old one's status flags (O_NONBLOCK and its like); and every epoll of the process
that knew the old file under such a number knows the new one, with the program's events and data,
before the program goes on. Source: seccomp_unotify(2), SECCOMP_ADDFD_FLAG_SETFD; proc(5), fdinfo.

Refuses to follow a file into other processes: a socket that two of them share is replaced in the
one that asks, as docs/run.md says.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from outlast.shims.run.mender import Mender, Registration
from outlast.shims.run.notices import Listener, Notice
from outlast.shims.run.processes import Task

__all__ = ["Placed", "Placer"]

EPOLL = "anon_inode:[eventpoll]"
STATUS = os.O_NONBLOCK | os.O_APPEND | os.O_ASYNC if hasattr(os, "O_ASYNC") else os.O_NONBLOCK
_REGISTERED = re.compile(
    rb"^tfd:\s*(\d+) events:\s*([0-9a-f]+) data:\s*([0-9a-f]+).* ino:([0-9a-f]+)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Placed:
    """`descriptors` were replaced, `mended` of `known` epoll registrations made anew."""

    descriptors: int
    mended: int
    known: int

    def __str__(self) -> str:
        more = f", {self.descriptors} descriptors" if self.descriptors > 1 else ""
        epolls = f", {self.mended} of {self.known} epoll registrations made anew"
        return f"socket replaced{more}{epolls if self.known else ''}"


class Placer:
    """One owner."""

    def __init__(self, listener: Listener, mender: Mender) -> None:
        self._listener = listener
        self._mender = mender

    def place(
        self, notice: Notice, task: Task, number: int, inode: int, new: socket.socket
    ) -> Placed | None:
        """Do it, while the caller waits; None if it waits no longer and nothing was done.

        Raises OSError if the kernel refuses.
        """
        numbers, polls = _descriptors(task.pid, number, inode)
        _take_over_flags(task.pid, number, new)
        with _registered(task, polls, numbers, inode) as wanted:  # gone once the old file is
            for each, cloexec in numbers.items():
                if not self._listener.put(notice, new.fileno(), each, cloexec=cloexec):
                    return None
            mended = sum(
                self._mender.add(new.fileno(), each, there) for each, there in wanted.items()
            )
        known = sum(map(len, wanted.values()))
        return Placed(len(numbers), mended, known)


def _descriptors(pid: int, number: int, inode: int) -> tuple[dict[int, bool], list[int]]:
    """A process's descriptors of the file, with their close-on-exec flags, and its epolls."""
    mine, polls = {number: _is_cloexec(pid, number)}, []
    wanted = f"socket:[{inode}]"
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                kind = os.readlink(entry.path)
                if kind == EPOLL:
                    polls.append(int(entry.name))
                elif kind == wanted and int(entry.name) != number:
                    mine[int(entry.name)] = _is_cloexec(pid, int(entry.name))
    return mine, polls


def _flags(pid: int, number: int) -> int:
    with open(f"/proc/{pid}/fdinfo/{number}", "rb") as told:
        for line in told:
            if line.startswith(b"flags:"):
                return int(line[6:], 8)
    raise OSError("fdinfo tells no flags")


def _is_cloexec(pid: int, number: int) -> bool:
    try:
        return bool(_flags(pid, number) & os.O_CLOEXEC)
    except OSError:
        return False


def _take_over_flags(pid: int, number: int, new: socket.socket) -> None:
    flags = fcntl.fcntl(new, fcntl.F_GETFL) & ~STATUS
    fcntl.fcntl(new, fcntl.F_SETFL, flags | (_flags(pid, number) & STATUS))


@contextlib.contextmanager
def _registered(
    task: Task, polls: list[int], numbers: Collection[int], inode: int
) -> Iterator[dict[int, list[Registration]]]:
    """In which epolls the old file is registered, by its numbers; they are borrowed meanwhile."""
    found: dict[int, list[Registration]] = {}
    opened: dict[int, int] = {}
    try:
        for poll in polls:
            for number, events, data in _entries(task.pid, poll, inode):
                if number not in numbers:
                    continue
                if poll not in opened:
                    opened[poll] = task.descriptor(poll)
                found.setdefault(number, []).append(Registration(opened[poll], events, data))
        yield found
    finally:
        for each in opened.values():
            os.close(each)


def _entries(pid: int, poll: int, inode: int) -> Iterator[tuple[int, int, int]]:
    try:
        with open(f"/proc/{pid}/fdinfo/{poll}", "rb") as told:
            text = told.read()
    except OSError:
        return
    for match in _REGISTERED.finditer(text):
        if int(match[4], 16) == inode:
            yield int(match[1]), int(match[2], 16), int(match[3], 16)
