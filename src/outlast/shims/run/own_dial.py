"""The dial on the program's own socket: begun as the kernel would, without waiting for it.

A blocking socket is made non-blocking for the microseconds of one system call, so that the
supervisor never waits for a single program. Source: tcp(7), connect(2); TCP states as in
include/net/tcp_states.h.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from typing import NamedTuple

from outlast.net.carry import bound_source
from outlast.net.tcpinfo import TCP_INFO
from outlast.shims.run import calls

__all__ = [
    "CLOSED",
    "GONE",
    "PENDING",
    "REMOTE",
    "Begun",
    "begin_dial",
    "disconnect",
    "patience",
    "state_of",
]

GONE, PENDING, CLOSED = 0, 2, 7  # of these 2 and 7 are the kernel's SYN_SENT and CLOSE
UNSPECIFIED = bytes(16)  # a sockaddr of the family AF_UNSPEC
# What another dial meets that the program's own would meet: its call may end with it.
REMOTE = {
    *(errno.ECONNREFUSED, errno.ECONNRESET, errno.ETIMEDOUT, errno.EHOSTUNREACH),
    *(errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN),
}
TIMEVAL = struct.Struct("@ll")


class Begun(NamedTuple):
    """`code`: what the kernel said. `source`: what the socket was bound to before; None: to
    nothing. `port`: its local port."""

    code: int
    source: tuple[str, int] | None
    port: int


def begin_dial(sock: socket.socket, raw: bytes | None, *, blocking: bool) -> Begun:
    """Begin to connect; with no address, nothing but a look. Raises nothing of the dial's."""
    source = bound_source(sock)
    if raw is None:
        return Begun(errno.EINPROGRESS, source, 0)
    number = sock.fileno()
    if blocking:
        flags = fcntl.fcntl(number, fcntl.F_GETFL)
        fcntl.fcntl(number, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        try:
            code = calls.connect(number, raw)
        finally:
            fcntl.fcntl(number, fcntl.F_SETFL, flags)
    else:
        code = calls.connect(number, raw)
    return Begun(code, source, sock.getsockname()[1] if code == errno.EINPROGRESS else 0)


def state_of(sock: socket.socket) -> int:
    """The TCP state that the kernel tells."""
    assert TCP_INFO is not None  # Linux has it
    return sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 1)[0]


def patience(sock: socket.socket) -> float:
    """Seconds that a blocking connect may take, by SO_SNDTIMEO; 0 for no limit (socket(7))."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, TIMEVAL.size)
    whole, micro = TIMEVAL.unpack(raw)
    return float(whole + micro / 1e6)


def disconnect(sock: socket.socket) -> None:
    """Take a socket back to where it was before it was connected."""
    calls.connect(sock.fileno(), UNSPECIFIED)
    sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # which clears it
