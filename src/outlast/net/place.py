"""One socket takes another's place under the same descriptor number, for good.

The program keeps its number and its socket object; which file stands behind it changes. Where
somebody may be waiting for the old file, its registrations with epoll are made anew for the new
one (a registration belongs to a file, epoll(7); Linux tells them in /proc/self/fdinfo), and the
old file is shut down, which wakes who waits in poll(2) or select(2): they look at the number again
and meet the new one, connected and without an error.

Refuses to touch a number that does not stand for the same socket any more (SO_COOKIE, Linux 4.12).
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["COOKIES", "Registration", "cookie_of", "copy_of", "take_place", "take_polled_place"]

COOKIES = sys.platform == "linux"  # whether sockets can be told apart by more than their number
_SO_COOKIE = 57  # asm-generic/socket.h
_EPOLL_CTL_ADD, _EPOLL_CTL_DEL = 1, 2  # linux/eventpoll.h
_O_CLOEXEC = getattr(os, "O_CLOEXEC", 0)


def cookie_of(sock: socket.socket) -> bytes:
    """What tells this socket from every other one since the system began. Raises OSError."""
    return sock.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, 8)


def take_place(winner: socket.socket, sock: socket.socket) -> None:
    """Put `winner` behind the number of `sock`, which nobody is waiting for. `winner` is closed.

    Its status flags (whether it blocks) become those of `winner`. Raises OSError.
    """
    with winner:
        number = sock.fileno()
        if number < 0:  # its owner has closed it meanwhile
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        os.dup2(winner.fileno(), number, inheritable=os.get_inheritable(number))


class Registration(NamedTuple):
    """One descriptor as an epoll has it: the epoll's number, the events, the caller's data."""

    epoll: int
    events: int
    data: int


def take_polled_place(
    winner: socket.socket, number: int, cookie: bytes, old: socket.socket
) -> bool:
    """Put `winner` behind `number` though others may be waiting for what is there; `old` is a
    copy of that. False if another socket is there by now. Both are closed. Linux only."""
    library = _library()
    with winner, old:
        try:
            flags = 0 if os.get_inheritable(number) else _O_CLOEXEC
        except OSError:
            return False
        registered = [(each.epoll, _event(each)) for each in _registrations(number)]
        # From here to the last `epoll_ctl` nothing lets another thread of Python's in by itself.
        if not _is_same(number, cookie):
            return False
        for epoll, event in registered:  # else who waits there would hear of either socket
            library.epoll_ctl(epoll, _EPOLL_CTL_DEL, number, event)
        library.dup3(winner.fileno(), number, flags)
        for epoll, event in registered:
            library.epoll_ctl(epoll, _EPOLL_CTL_ADD, number, event)
        with contextlib.suppress(OSError):  # it wakes who waits, though it was not connected
            old.shutdown(socket.SHUT_RDWR)
    return True


def copy_of(number: int, cookie: bytes) -> socket.socket | None:
    """Another descriptor of the same socket; None if the number stands for another by now."""
    try:
        copy = socket.socket(fileno=os.dup(number))
    except OSError:
        return None
    with contextlib.suppress(OSError):
        if cookie_of(copy) == cookie:
            return copy
    copy.close()
    return None


def _is_same(number: int, cookie: bytes) -> bool:
    try:
        sock = socket.socket(fileno=number)
    except OSError:
        return False
    try:
        return cookie_of(sock) == cookie
    except OSError:
        return False
    finally:
        sock.detach()


def _registrations(number: int) -> Iterator[Registration]:
    """Where a descriptor is registered in this process."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.readlink(f"/proc/self/fd/{name}") != "anon_inode:[eventpoll]":
                continue
            with open(f"/proc/self/fdinfo/{name}", encoding="ascii") as told:
                for line in told:
                    words = line.replace(":", ": ").split()
                    if words[:1] == ["tfd:"] and int(words[1]) == number:
                        yield Registration(int(name), int(words[3], 16), int(words[5], 16))


def _library() -> Any:
    """The C library, called without letting another thread of Python's run meanwhile."""
    import ctypes

    return ctypes.PyDLL(None)


def _event(registration: Registration) -> Any:
    """A struct epoll_event, which is packed on x86 (linux/eventpoll.h)."""
    import ctypes
    import platform

    packed = platform.machine() in ("x86_64", "AMD64", "i686")

    class Event(ctypes.Structure):
        _pack_ = 1 if packed else 8
        _fields_ = [("events", ctypes.c_uint32), ("data", ctypes.c_uint64)]

    return ctypes.byref(Event(registration.events, registration.data))
