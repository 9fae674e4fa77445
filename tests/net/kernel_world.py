"""The kernel network with a far side on loopback, for the conformance suite and the dialler."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

from outlast.net.address import Address, literal
from outlast.net.kernel import KernelNetwork
from outlast.net.run import run_sync
from outlast.net.seam import READ, WRITE, Stream, Wait
from tests.net.drivers import Driver, Main, run_in_loop
from tests.net.far_side import PATIENCE

T = TypeVar("T")

FULL = 0.05  # seconds without an answer after which an accept queue counts as full


def on_loopback(sock: socket.socket) -> Address:
    """The address of a bound socket."""
    address = literal(*sock.getsockname()[:2])
    assert address is not None
    return address


def silent_listener(family: int = socket.AF_INET) -> list[socket.socket]:
    """A listener whose accept queue is full, first, and what fills it: further SYNs are dropped."""
    listener = socket.socket(family)
    listener.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
    listener.listen(0)
    held = [listener]
    while True:
        filler = socket.socket(family)
        held.append(filler)
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
        poll = select.poll()
        poll.register(filler, select.POLLOUT)
        if not poll.poll(FULL * 1000):
            return held


class KernelPeer:
    """See `Peer`."""

    def __init__(self, network: KernelNetwork, sock: socket.socket) -> None:
        self.network = network
        self.sock = sock
        sock.setblocking(False)

    def fileno(self) -> int:
        """For waiting."""
        return self.sock.fileno()

    async def _ready(self, mask: int) -> None:
        until = self.network.now() + PATIENCE
        assert await Wait(((cast(Stream, self), mask),), until), "the far side waits in vain"

    async def recv(self, size: int) -> bytes:
        """See `Peer.recv`."""
        await self._ready(READ)
        return self.sock.recv(size)

    async def send(self, data: bytes) -> None:
        """See `Peer.send`."""
        rest = memoryview(data)
        while rest:
            await self._ready(WRITE)
            rest = rest[self.sock.send(rest) :]

    def close(self) -> None:
        """See `Peer.close`."""
        self.sock.close()

    def reset(self) -> None:
        """See `Peer.reset`."""
        with contextlib.suppress(OSError):  # already closed
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()


class KernelListener:
    """See `Listener`."""

    def __init__(self, network: KernelNetwork, sock: socket.socket) -> None:
        self.network = network
        self.sock = sock
        self.address = on_loopback(sock)
        sock.setblocking(False)

    def fileno(self) -> int:
        """For waiting."""
        return self.sock.fileno()

    async def accept(self) -> KernelPeer:
        """See `Listener.accept`."""
        until = self.network.now() + PATIENCE
        assert await Wait(((cast(Stream, self), READ),), until), "nobody dials"
        return KernelPeer(self.network, self.sock.accept()[0])


class KernelWorld:
    """See `World`. `close` it: that ends the threads and the sockets of the far side."""

    def __init__(self) -> None:
        self.network = KernelNetwork(self._resolve)
        self._kept: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._names: dict[str, tuple[Sequence[Address] | OSError, threading.Event]] = {}
        self._asked: list[str] = []

    def close(self) -> None:
        """End everything that this world has begun."""
        for _, gate in self._names.values():
            gate.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        for sock in self._kept:
            sock.close()

    def keep(self, *socks: socket.socket) -> None:
        """Have these closed at the end."""
        self._kept.extend(socks)

    # -- the far side ----------------------------------------------------------------------

    def listen(self, family: int = socket.AF_INET) -> KernelListener:
        """See `World.listen`."""
        host = "127.0.0.1" if family == socket.AF_INET else "::1"
        sock = socket.create_server((host, 0), family=socket.AddressFamily(family))
        self.keep(sock)
        return KernelListener(self.network, sock)

    def refusing(self) -> Address:
        """See `World.refusing`: a port that is bound, so that nobody else takes it."""
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        self.keep(sock)
        return on_loopback(sock)

    def silent(self) -> Address:
        """See `World.silent`."""
        socks = silent_listener()
        self.keep(*socks)
        return on_loopback(socks[0])

    # -- names and threads -----------------------------------------------------------------

    def name(
        self, host: str, answer: Sequence[Address] | OSError, *, held: bool = False
    ) -> Callable[[], None]:
        """See `World.name`."""
        gate = threading.Event()
        if not held:
            gate.set()
        self._names[host] = answer, gate
        return gate.set

    def _resolve(self, host: str, port: int) -> Sequence[Address]:
        answer, gate = self._names[host]
        self._asked.append(host)
        assert gate.wait(2 * PATIENCE)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def asked(self, host: str) -> int:
        """See `World.asked`."""
        return self._asked.count(host)

    def driver(self, kind: str) -> Driver:
        """See `World.driver`."""
        return Driver(kind, self.network)

    def run_in_loop(self, loop: str, main: Main[T]) -> T:
        """See `World.run_in_loop`."""
        return run_in_loop(loop, main)

    def beside(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """See `World.beside`."""
        thread = threading.Thread(target=lambda: run_sync(self.network, work()))
        self._threads.append(thread)
        thread.start()
