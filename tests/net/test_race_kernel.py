"""The dialler on loopback, in a thread, on asyncio and on trio; and what a cancellation leaves."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from outlast.core.report import Report
from outlast.net.address import Address
from outlast.net.kernel import KernelStream
from outlast.net.options import SocketPlan
from outlast.net.race_driver import dial
from outlast.net.run import run_async
from outlast.net.seam import READ, Stream, Wait
from tests.net.conformance_cancel import WAYS, Way, named
from tests.net.drivers import run_in_loop
from tests.net.kernel_races import DELAY, LONG, KernelRaces
from tests.net.kernel_world import KernelWorld
from tests.net.racing import request
from tests.net.tls_server import TlsServer, mute


@pytest.fixture
def world() -> Iterator[KernelWorld]:
    """The kernel network and a far side on loopback."""
    made = KernelWorld()
    yield made
    made.close()


class TestRaces(KernelRaces):
    """Every race, in each world."""


@pytest.fixture
def server() -> Iterator[TlsServer]:
    """Accepts one connection, and says nothing."""
    made = TlsServer([mute])
    yield made
    made.close()


@pytest.mark.parametrize("stage", ["look-up", "dials", "handshake"])
@pytest.mark.parametrize("way", WAYS, ids=named)
def test_a_cancelled_race_leaves_no_socket(
    world: KernelWorld, server: TlsServer, monkeypatch: pytest.MonkeyPatch, way: Way, stage: str
) -> None:
    loop, cancel = way
    address = server.address if stage == "handshake" else world.silent()
    release = world.name("db.test", [address], held=stage == "look-up")
    dialled: list[Stream] = []
    at_the_end: list[int] = []
    began: list[anyio.Event] = []
    real = world.network.dial

    def noted(address: Address, plan: SocketPlan) -> KernelStream:
        stream = real(address, plan)
        dialled.append(stream)
        return stream

    async def finish(stream: Stream) -> Stream:
        began[0].set()
        await Wait(((stream, READ),))
        return stream

    async def job() -> None:
        wanted = request(world.network, name="db.test", timeout=LONG, delay=DELAY, finish=finish)
        if stage != "handshake":
            began[0].set()
        try:
            await run_async(world.network, dial(world.network, wanted, Report(0.0)))
        finally:
            at_the_end.extend(stream.fileno() for stream in dialled)

    async def main() -> None:
        began.append(anyio.Event())
        await cancel(job, began[0])

    monkeypatch.setattr(world.network, "dial", noted)
    run_in_loop(loop, main)
    assert at_the_end == [-1] * len(dialled)
    assert dialled or stage != "handshake" or not began[0].is_set()
    release()
