"""What the seam's conformance suite asks of a world: a network, and a far side to talk to.

Coroutines here are engine code, and times are the network's own, so that they may be virtual.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from outlast.net.address import Address
from outlast.net.options import SocketPlan
from outlast.net.seam import READ, WRITE, Network, Stream, Wait
from tests.net.drivers import Driver, Main

T = TypeVar("T")

PATIENCE = 10.0  # seconds; a bound for what should take milliseconds
MOMENT = 0.03  # seconds; long enough to be seen, short enough to wait for


class Peer(Protocol):
    """The far end of one connection. Its coroutines are engine code."""

    async def recv(self, size: int) -> bytes:
        """Up to `size` bytes; b"" at the end. Raises OSError on a reset."""

    async def send(self, data: bytes) -> None:
        """Send all of it."""

    def close(self) -> None:
        """Send FIN."""

    def reset(self) -> None:
        """Send RST."""


class Listener(Protocol):
    """A far side that accepts connections."""

    @property
    def address(self) -> Address:
        """What to dial."""

    async def accept(self) -> Peer:
        """The next connection."""


class World(Protocol):
    """A network under test, and what lies on the other side of it."""

    @property
    def network(self) -> Network:
        """The implementation under test."""

    def listen(self) -> Listener:
        """A new listening address."""

    def refusing(self) -> Address:
        """An address where nobody listens."""

    def silent(self) -> Address:
        """An address that never answers a dial."""

    def name(
        self, host: str, answer: Sequence[Address] | OSError, *, held: bool = False
    ) -> Callable[[], None]:
        """Teach the resolver a name; `held`: it hangs until what is returned is called."""

    def asked(self, host: str) -> int:
        """How often the resolver was asked for `host`."""

    def driver(self, kind: str) -> Driver:
        """Runs engine code: kind is sync, asyncio or trio."""

    def run_in_loop(self, loop: str, main: Main[T]) -> T:
        """Run `main()` in an event loop of that kind."""

    def beside(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run engine code in another thread, from now on, beside the test."""


async def connection(world: World) -> tuple[Stream, Peer]:
    """A connection that stands, both ends."""
    listener = world.listen()
    stream = world.network.dial(listener.address, SocketPlan())
    await arrival(world.network, stream, WRITE)
    stream.connected()
    return stream, await listener.accept()


async def arrival(network: Network, stream: Stream, mask: int = READ) -> None:
    """Wait until `stream` is ready, with a bound."""
    assert list(await Wait(((stream, mask),), network.now() + PATIENCE)) == [stream]


async def read(network: Network, stream: Stream, size: int = 65536) -> bytes:
    """What comes next."""
    while (data := stream.recv(size)) is None:
        await arrival(network, stream)
    return data


async def write(network: Network, stream: Stream, data: bytes) -> None:
    """Send all of it."""
    rest = memoryview(data)
    while rest:
        count = stream.send(rest)
        rest = rest[count:]
        if not count:
            await arrival(network, stream, WRITE)
