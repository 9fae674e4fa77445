"""The supervised processes: a hold on each by pidfd, by which their sockets are borrowed.

A pidfd means one thread or process for ever: if its number is given to another one, it says so. So
a hold may be kept from one notice to the next, and a borrowed descriptor is always of the process
that asked. Source: pidfd_open(2), pidfd_getfd(2), proc(5).

Refuses to keep a borrowed descriptor: whoever takes one gives it back within microseconds, unless
the program's own call waits on that very socket; so a program's close stays a close.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import OrderedDict

from outlast.shims.run.calls import get_descriptor

__all__ = ["Processes", "Task"]

PIDFD_THREAD = 0o200  # Linux 6.9
MOST = 512  # tasks whose pidfd is kept, and as many processes
SO_COOKIE = 57


class Task:
    """One thread, or its process where the kernel has no pidfds of threads. Closed when dropped.

    `pid`: of the thread, `process`: of the whole process. `loops`: whether the process has an event
    loop, as far as is known; told and asked of the hold on the whole process.
    """

    __slots__ = ("_number", "loops", "pid", "process", "whole")

    def __init__(self, pid: int, process: int, number: int, *, whole: bool) -> None:
        self.pid = pid
        self.process = process
        self.loops = False
        self.whole = whole  # it stands for the process, and lasts as long
        self._number = number

    def borrow(self, number: int) -> socket.socket:
        """A copy of its descriptor, which is a socket. Raises OSError: EPERM if this process may
        not, EBADF if there is none, ESRCH if it has ended, ENOTSOCK."""
        copy = get_descriptor(self._number, number)
        try:
            return socket.socket(fileno=copy)
        except OSError:
            os.close(copy)
            raise

    def descriptor(self, number: int) -> int:
        """A copy of its descriptor, whatever it is. Raises OSError."""
        return get_descriptor(self._number, number)

    def __del__(self) -> None:
        os.close(self._number)


class Processes:
    """Holds on tasks, by their numbers. One owner."""

    def __init__(self) -> None:
        self._tasks: OrderedDict[int, Task] = OrderedDict()
        self._wholes: OrderedDict[int, Task] = OrderedDict()
        self._threads = True  # until the kernel says it has no pidfds of threads

    def task(self, pid: int) -> Task:
        """The hold on a thread, maybe one that has ended. Raises OSError."""
        known = self._tasks.get(pid)
        if known is None:
            known = self._tasks[pid] = self._opened(pid)
            if len(self._tasks) > MOST:
                self._tasks.popitem(last=False)
        else:
            self._tasks.move_to_end(pid)
        return known

    def live(self, pid: int) -> Task:
        """The hold on a thread that waits in a call just now. Raises OSError."""
        task = self.task(pid)
        if not _lives(task):
            del self._tasks[pid]
            task = self.task(pid)
        return task

    def borrow(self, pid: int, number: int) -> tuple[Task, socket.socket]:
        """A thread's socket, and the hold on the thread. Raises OSError as `Task.borrow`."""
        for attempt in range(2):
            task = self.task(pid)
            try:
                return task, task.borrow(number)
            except OSError as error:
                if attempt or error.errno not in (errno.ESRCH, errno.EBADF):
                    raise
                del self._tasks[pid]  # of one that has ended, whose number is used again
        raise AssertionError("the second attempt returns or raises")

    def whole(self, task: Task) -> Task:
        """The hold on a thread's process, which outlasts the thread. Raises OSError."""
        known = self._wholes.get(task.process)
        if known is None or not _lives(known):
            made = Task(task.process, task.process, os.pidfd_open(task.process), whole=True)
            known = self._wholes[task.process] = made
            if len(self._wholes) > MOST:
                self._wholes.popitem(last=False)
        else:
            self._wholes.move_to_end(task.process)
        return known

    def _opened(self, pid: int) -> Task:
        if self._threads:
            try:
                number = os.pidfd_open(pid, PIDFD_THREAD)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self._threads = False
            else:
                return Task(pid, process_of(pid), number, whole=False)
        process = process_of(pid)
        return Task(pid, process, os.pidfd_open(process), whole=True)


def _lives(task: Task) -> bool:
    try:
        os.close(task.descriptor(0))
    except OSError as error:
        return error.errno != errno.ESRCH
    return True


def process_of(pid: int) -> int:
    """The process that a thread belongs to. Raises OSError."""
    with open(f"/proc/{pid}/status", "rb") as told:
        for line in told:
            if line.startswith(b"Tgid:"):
                return int(line[5:])
    raise OSError(errno.ESRCH, "the thread has ended")


def cookie_of(sock: socket.socket) -> int:
    """What the kernel calls a socket for as long as it lives, in no other's life."""
    return int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8), "little")
