"""Both ends of a TCP connection on loopback, for tests that look at sockets themselves."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

PATIENCE = 10.0  # seconds; a bound for what should take milliseconds
USER_TIMEOUT = 18  # linux/tcp.h


@contextlib.contextmanager
def pair(family: int = socket.AF_INET) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connected socket and its peer; either may be closed inside."""
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.create_server((host, 0), family=socket.AddressFamily(family)) as listener:
        near = socket.create_connection(listener.getsockname()[:2], PATIENCE)
        far, _ = listener.accept()
        far.settimeout(PATIENCE)
        with near, far:
            yield near, far


def at(number: int) -> socket.socket:
    """A new socket under a number that is free."""
    with socket.socket() as made:
        if made.fileno() == number:
            return socket.socket(fileno=made.detach())
        os.dup2(made.fileno(), number, inheritable=False)
    return socket.socket(fileno=number)


def user_timeout(sock: socket.socket) -> int:
    """What stands on a socket, in milliseconds."""
    return sock.getsockopt(socket.IPPROTO_TCP, USER_TIMEOUT)


def keepalive(sock: socket.socket) -> tuple[int, int, int, int]:
    """Whether it is on, idle time, interval, count."""
    on = sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    return on, *(sock.getsockopt(socket.IPPROTO_TCP, number) for number in (4, 5, 6))  # type: ignore[return-value]  # three of them


def fill(sock: socket.socket) -> int:
    """Send until nothing more is taken: the peer's window is closed, or about to be."""
    sock.setblocking(False)
    taken = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            taken += sock.send(bytes(1 << 16))
    return taken
