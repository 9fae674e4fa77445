"""The simulated network with a far side on another simulated host, for the conformance suite."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

from outlast.net.address import Address, literal
from outlast.net.run import run_async, run_sync
from outlast.net.seam import READ, WRITE, Stream, Wait
from outlast.testing.simnet.dns import Zone
from outlast.testing.simnet.network import SimNetwork
from outlast.testing.simnet.rules import Kernel
from outlast.testing.simnet.simulation import Simulation
from outlast.testing.simnet.sockets import Listener, SimSocket
from outlast.testing.simnet.waiting import Attention
from outlast.testing.simnet.world import World
from tests.net.drivers import Driver, Engine, Main
from tests.net.far_side import PATIENCE

T = TypeVar("T")


def at(pair: tuple[str, int]) -> Address:
    """The address of a host and port."""
    address = literal(*pair)
    assert address is not None
    return address


class Watched:
    """Something of the far side that engine code can wait for."""

    def __init__(self, thing: SimSocket | Listener) -> None:
        self.watchers: list[Attention] = []
        thing.on_change = self._changed

    def _changed(self) -> None:
        for attention in tuple(self.watchers):
            attention.notice()

    def ready(self, mask: int) -> bool:
        """Whether something of `mask` is possible now."""
        raise AssertionError("for the children to say")

    async def until(self, sim: Simulation, mask: int) -> None:
        """Wait, with a bound."""
        assert await Wait(((cast(Stream, self), mask),), sim.now() + PATIENCE), "waits in vain"


class SimPeer(Watched):
    """See `Peer`."""

    def __init__(self, sim: Simulation, sock: SimSocket) -> None:
        super().__init__(sock)
        self.sim = sim
        self.sock = sock

    def ready(self, mask: int) -> bool:
        """See `Watched.ready`."""
        return self.sock.readable() if mask == READ else self.sock.writable()

    async def recv(self, size: int) -> bytes:
        """See `Peer.recv`."""
        while (data := self.sock.recv(size)) is None:
            await self.until(self.sim, READ)
        return data

    async def send(self, data: bytes) -> None:
        """See `Peer.send`."""
        rest = memoryview(data)
        while rest:
            await self.until(self.sim, WRITE)
            rest = rest[self.sock.send(rest) :]

    def close(self) -> None:
        """See `Peer.close`."""
        self.sock.close()

    def reset(self) -> None:
        """See `Peer.reset`."""
        self.sock.abort()


class SimListener(Watched):
    """See `Listener`."""

    def __init__(self, sim: Simulation, listener: Listener) -> None:
        super().__init__(listener)
        self.sim = sim
        self.listener = listener
        self.address = at(listener.address)

    def ready(self, mask: int) -> bool:
        """See `Watched.ready`."""
        return bool(self.listener.waiting)

    async def accept(self) -> SimPeer:
        """See `Listener.accept`."""
        while (sock := self.listener.accept()) is None:
            await self.until(self.sim, READ)
        return SimPeer(self.sim, sock)


class SimDriver(Driver):
    """Runs engine code in virtual time."""

    def __init__(self, kind: str, world: SimWorld) -> None:
        super().__init__(kind, world.network)
        self._sim = world.sim

    def __call__(self, engine: Engine[T]) -> T:
        """The result of `engine()`."""
        if self.world == "sync":
            with self._sim.running():
                return run_sync(self.network, engine())

        async def main() -> T:
            return await run_async(self.network, engine())

        return self._sim.run(main, self.world, debug=True)


class SimWorld:
    """See `World`."""

    def __init__(self) -> None:
        self.sim = Simulation()
        self.cluster = World(self.sim.timeline, 1)
        # What fills the sender's buffer at one instant does not all fit into the far side's.
        self.far = self.cluster.node("far", kernel=Kernel(receive_buffer=65_536))
        self.dark = self.cluster.node("dark")
        self.dark.black_hole()
        self.zone = Zone(self.sim.timeline, self.cluster.draws, self.cluster.note)
        client = self.cluster.client.kernel
        self.network = SimNetwork(self.sim, client, self.zone, self.cluster.draws)
        self._ports = 8000

    def listen(self) -> SimListener:
        """See `World.listen`."""
        self._ports += 1
        return SimListener(self.sim, self.far.kernel.listen(self._ports))

    def refusing(self) -> Address:
        """See `World.refusing`."""
        return at((self.far.host, 7999))

    def silent(self) -> Address:
        """See `World.silent`."""
        return at((self.dark.host, 7999))

    def name(
        self, host: str, answer: Sequence[Address] | OSError, *, held: bool = False
    ) -> Callable[[], None]:
        """See `World.name`."""
        told = answer if isinstance(answer, OSError) else [each.host for each in answer]
        self.zone.set(host, told, ttl=0)
        return self.zone.hold(host) if held else lambda: None

    def asked(self, host: str) -> int:
        """See `World.asked`."""
        return self.zone.asked(host)

    def driver(self, kind: str) -> Driver:
        """See `World.driver`."""
        return SimDriver(kind, self)

    def run_in_loop(self, loop: str, main: Main[T]) -> T:
        """See `World.run_in_loop`."""
        return self.sim.run(main, loop, debug=True)

    def beside(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """See `World.beside`."""
        self.sim.thread(lambda: run_sync(self.network, work()), None)
