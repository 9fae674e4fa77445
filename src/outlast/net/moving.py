"""Bytes from one connected socket to another, without keeping any.

Two ways. *Copied*: what has arrived is looked at, offered to the other side, and only what that has
taken is taken (MSG_PEEK, recv(2)); so nothing is ever held for a reader that is slow. *Spliced*:
moved by the kernel through a pipe without passing this program's memory (splice(2), Linux); what
the other side does not take at once stays in the pipe.

Pipes are borrowed and few: each holds at most its size. Never blocks; refuses to say anything of
protocols. Urgent data (TCP's, hardly used) is not carried.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from typing import Final

__all__ = [
    "CAN_SPLICE",
    "CHUNK",
    "CannotSplice",
    "Pipe",
    "Pipes",
    "SinkFailed",
    "SourceFailed",
    "abort",
    "copy",
    "failure",
    "pass_end_on",
]

CHUNK: Final = 1 << 18  # bytes copied at once: larger is hardly faster, 64 KiB is a fifth slower
PIPE_SIZE: Final = 1 << 20  # bytes; what a pipe may have without privileges (pipe(7))
PIPES: Final = 32  # pages of pipes per user are limited to 64 MiB (pipe(7), pipe-user-pages-soft)
KEPT: Final = 8  # empty pipes that are kept
F_SETPIPE_SZ: Final = 1031  # fcntl.h
SPLICE_FLAGS: Final = 3  # SPLICE_F_MOVE | SPLICE_F_NONBLOCK

CAN_SPLICE: Final = sys.platform == "linux" and hasattr(os, "splice")
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close sends RST
_CONSUME = getattr(socket, "MSG_TRUNC", 0) if sys.platform == "linux" else 0  # tcp(7): no copy


class SourceFailed(Exception):
    """Reading has failed: `args[0]` is the OSError."""


class SinkFailed(Exception):
    """Writing has failed: `args[0]` is the OSError."""


class CannotSplice(Exception):
    """This kernel does not splice such a socket. Nothing was moved."""


def copy(source: socket.socket, sink: socket.socket, buffer: memoryview) -> tuple[int | None, bool]:
    """Move what has arrived: how many bytes (0 at the end, None if nothing is there now or nothing
    was taken), and whether the sink is full. Raises SourceFailed or SinkFailed."""
    try:
        there = source.recv_into(buffer, 0, socket.MSG_PEEK)
    except BlockingIOError:
        return None, False
    except OSError as error:
        raise SourceFailed(error) from error
    if not there:
        return 0, False
    try:
        taken = sink.send(buffer[:there])
    except BlockingIOError:
        return None, True
    except OSError as error:
        raise SinkFailed(error) from error
    left = taken
    try:
        while left:
            left -= source.recv_into(buffer, left, _CONSUME)
    except OSError as error:
        raise SourceFailed(error) from error
    return taken, taken < there


class Pipe:
    """A pipe to splice through, and how much is in it."""

    __slots__ = ("_into", "_out", "held", "size")

    def __init__(self) -> None:
        self._out, self._into = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.held = 0
        self.size = _enlarge(self._into)

    def fill(self, source: socket.socket) -> int | None:
        """Take what has arrived into the empty pipe: bytes, 0 at the end, None if there are none.
        Raises SourceFailed, or CannotSplice."""
        try:
            count = _splice(source.fileno(), self._into, self.size)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise CannotSplice from error
            raise SourceFailed(error) from error
        self.held += count
        return count

    def pour(self, sink: socket.socket) -> int:
        """Hand over what the sink takes of it: bytes, maybe 0. Raises SinkFailed."""
        try:
            count = _splice(self._out, sink.fileno(), self.held)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise SinkFailed(error) from error
        self.held -= count
        return count

    def close(self) -> None:
        """With what is in it."""
        os.close(self._out)
        os.close(self._into)


def _splice(source: int, sink: int, count: int) -> int:
    moved: int = os.splice(source, sink, count, flags=SPLICE_FLAGS)  # type: ignore[attr-defined,unused-ignore]  # Linux
    return moved


def _enlarge(number: int) -> int:
    import fcntl

    try:
        return fcntl.fcntl(number, F_SETPIPE_SZ, PIPE_SIZE)
    except OSError:  # the user has many pipes already: as large as it is
        return fcntl.fcntl(number, F_SETPIPE_SZ + 1)


class Pipes:
    """Pipes to borrow. One owner."""

    __slots__ = ("_free", "_lent", "_most")

    def __init__(self, most: int = PIPES) -> None:
        self._most = most if CAN_SPLICE else 0
        self._free: list[Pipe] = []
        self._lent = 0

    def borrow(self) -> Pipe | None:
        """An empty pipe; None if all are lent, or the system gives none."""
        if self._lent >= self._most:
            return None
        if not self._free:
            try:
                self._free.append(Pipe())
            except OSError:  # no descriptors left: copying needs none
                return None
        self._lent += 1
        return self._free.pop()

    def give_back(self, pipe: Pipe) -> None:
        """One that is empty is kept; what is left in another is lost with it."""
        self._lent -= 1
        if pipe.held or len(self._free) >= KEPT:
            pipe.close()
        else:
            self._free.append(pipe)

    def forbid(self) -> None:
        """The kernel does not splice these sockets: lend no more."""
        self._most = 0

    def close(self) -> None:
        """Those that are not lent."""
        while self._free:
            self._free.pop().close()


# -- ends ------------------------------------------------------------------------------------


def pass_end_on(sink: socket.socket) -> None:
    """Say that nothing more will come. Raises SinkFailed."""
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError as error:  # ENOTCONN says only that it has ended
        raise SinkFailed(failure(sink) or error) from error


def failure(sock: socket.socket) -> OSError | None:
    """What the kernel holds against the connection, told once; None if it is nothing."""
    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return OSError(code, os.strerror(code)) if code else None


def abort(sock: socket.socket) -> None:
    """Close with a reset. A Unix socket knows none: it is closed."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    except OSError:  # gone already
        pass
    sock.close()
