"""Both ends of a forwarder on loopback, held by the test's own thread; every wait is bounded."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outlast.net.kernel import kernel
from outlast.net.moving import abort
from outlast.net.seam import READ, Wait
from outlast.shims.forward import Forwarder

PATIENCE = 10.0  # seconds; a bound for what should take milliseconds
RESET = (ConnectionResetError, BrokenPipeError)


@contextlib.contextmanager
def upstream() -> Iterator[socket.socket]:
    """Somebody who listens."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        server.settimeout(PATIENCE)
        yield server


def target_of(server: socket.socket) -> str:
    """As a target."""
    return f"static://127.0.0.1:{server.getsockname()[1]}"


def connect(forwarder: Forwarder, number: int = 0) -> socket.socket:
    """A client of the forwarder."""
    address = forwarder.addresses[number]
    if isinstance(address, str):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(PATIENCE)
        client.connect(address)
        return client
    return socket.create_connection(address, PATIENCE)


def accepted(server: socket.socket) -> socket.socket:
    """The forwarder's connection to upstream."""
    sock, _ = server.accept()
    sock.settimeout(PATIENCE)
    return sock


class Ends:
    """A forwarder, and one connection through it."""

    def __init__(self, forwarder: Forwarder, server: socket.socket) -> None:
        self.forwarder = forwarder
        self.server = server
        self.client = connect(forwarder)
        self.far = accepted(server)

    def close(self) -> None:
        """Both ends."""
        self.client.close()
        self.far.close()


@contextlib.contextmanager
def ends(**options: Any) -> Iterator[Ends]:
    """A connection through a forwarder of its own."""
    with upstream() as server, Forwarder("127.0.0.1:0", target_of(server), **options) as forwarder:
        with contextlib.closing(Ends(forwarder, server)) as both:
            yield both


def read(sock: socket.socket, count: int) -> bytes:
    """Exactly so many bytes."""
    data = bytearray()
    while len(data) < count:
        part = sock.recv(count - len(data))
        assert part, f"the end after {len(data)} bytes of {count}"
        data += part
    return bytes(data)


def rest(sock: socket.socket) -> bytes:
    """Up to an orderly end."""
    data = bytearray()
    while part := sock.recv(1 << 18):
        data += part
    return bytes(data)


def is_reset(sock: socket.socket) -> bool:
    """Whether it ends with a reset, and not in good order."""
    with pytest.raises(RESET):
        assert rest(sock) is None, "an orderly end"
    return True


def is_turned_away(forwarder: Forwarder) -> bool:
    """Whether a new client is reset, be it before its own connect returns."""
    try:
        with contextlib.closing(connect(forwarder)) as client:
            return is_reset(client)
    except ConnectionResetError:
        return True


def refuses(forwarder: Forwarder) -> bool:
    """Whether it does not listen any more."""
    try:
        abort(connect(forwarder))  # one that was in time is gone at once
    except OSError:
        return True
    return False


def until(met: Callable[[], bool]) -> None:
    """Look again every few milliseconds."""
    end = kernel().now() + PATIENCE
    while not met():
        assert kernel().now() < end, "has not come about"
        pause(0.005)


def pause(seconds: float) -> None:
    """Nothing happens for so long, by poll(2) on a socket that is silent."""
    silent, other = socket.socketpair()
    with silent, other:
        look: Any = ((silent, READ),)
        kernel().wait(Wait(look, kernel().now() + seconds))


@contextlib.contextmanager
def deaf_server() -> Iterator[str]:
    """A target whose kernel drops every SYN: its queue is full."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(2):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        yield target_of(server)
