"""Wakes a poll from any thread: something to poll for reading, that others may ring.

A wait borrows one and gives it back, because making one takes several system calls, and every
request over HTTP/2 waits so. On Linux it is an eventfd(2), elsewhere a pair of sockets. A ring that
comes late, for the wait before, wakes the next one for nothing: whoever polls looks again. Refuses
to close a descriptor that another thread is about to write to: it may by then be a connection of
somebody else's. So the last one who holds a bell closes it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Protocol

__all__ = ["Bell", "EventBell", "PairBell", "borrowed", "give_back"]

KEPT = 16  # that nobody uses now


class Bell(Protocol):
    """One borrower at a time; anybody may ring."""

    @property
    def foreign(self) -> bool:
        """Whether a fork has left it here: it is another process's too, and so are its rings."""

    def fileno(self) -> int:
        """What to poll for reading."""

    def ring(self) -> None:
        """Wake the poll. Thread-safe; never blocks."""

    def hush(self) -> None:
        """Forget the rings that have come, if they are not another process's."""


class _Made:
    """By which process."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def foreign(self) -> bool:
        """See `Bell.foreign`."""
        return os.getpid() != self._process


class EventBell(_Made):
    """Where there is eventfd(2)."""

    __slots__ = ("_number",)

    def __init__(self) -> None:
        super().__init__()
        self._number = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """See `Bell.fileno`."""
        return self._number

    def ring(self) -> None:
        """See `Bell.ring`."""
        with contextlib.suppress(BlockingIOError):  # full: it has been rung before
            os.eventfd_write(self._number, 1)

    def hush(self) -> None:
        """See `Bell.hush`."""
        if not self.foreign:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._number)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        number = getattr(self, "_number", -1)
        if number >= 0:
            close(number)


class PairBell(_Made):
    """Anywhere else."""

    __slots__ = ("_mouth", "_rope")

    def __init__(self) -> None:
        super().__init__()
        self._mouth, self._rope = socket.socketpair()
        self._mouth.setblocking(False)
        self._rope.setblocking(False)

    def fileno(self) -> int:
        """See `Bell.fileno`."""
        return self._mouth.fileno()

    def ring(self) -> None:
        """See `Bell.ring`."""
        with contextlib.suppress(BlockingIOError):
            self._rope.send(b"!")

    def hush(self) -> None:
        """See `Bell.hush`."""
        if not self.foreign:
            with contextlib.suppress(BlockingIOError):
                while self._mouth.recv(4096):
                    pass

    def __del__(self) -> None:
        for sock in (getattr(self, "_mouth", None), getattr(self, "_rope", None)):
            if sock is not None:
                sock.close()


_kept: list[Bell] = []  # at rest; not one for each thread: a wait may interrupt another one


def _made() -> Bell:
    try:
        return EventBell()
    except (AttributeError, OSError):  # no such call here, or it is forbidden
        return PairBell()


def borrowed() -> Bell:
    """A bell for one wait: `give_back`. Raises OSError if there is no descriptor for it.
    Thread-safe."""
    try:
        return _kept.pop()
    except IndexError:
        return _made()


def give_back(bell: Bell) -> None:
    """The wait is over. Thread-safe."""
    if len(_kept) < KEPT and not bell.foreign:  # a handler may have forked in the middle of it
        _kept.append(bell)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_kept.clear)  # they are the parent's too
