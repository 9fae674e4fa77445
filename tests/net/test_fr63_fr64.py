"""Other loops: uvloop (FR-63), and asyncio with eager tasks (FR-64, Python 3.12).

The same races and the same conformance suite as everywhere; and what these loops are known to
spoil: cancellations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from outlast.core.report import Report
from outlast.net.address import Address
from outlast.net.dial import DialRequest
from outlast.net.race_driver import dial
from outlast.net.run import run_async
from tests.guards import open_sockets
from tests.net.conformance import SeamConformance
from tests.net.conformance_cancel import (
    Way,
    anyio_cancel,
    anyio_timeout,
    asyncio_cancel,
    asyncio_timeout,
    named,
)
from tests.net.drivers import Driver, run_in_loop
from tests.net.kernel_races import DELAY, LONG, KernelRaces
from tests.net.kernel_world import KernelWorld
from tests.net.racing import request as wanted

EAGER = pytest.mark.skipif(
    not hasattr(asyncio, "eager_task_factory"),
    reason="asyncio.eager_task_factory came with Python 3.12",
)
LOOPS = [
    pytest.param("uvloop", marks=pytest.mark.incident("FR-63")),
    pytest.param("eager", marks=[pytest.mark.incident("FR-64"), EAGER]),
]


def ways(loop: str) -> list[Way]:
    return [(loop, way) for way in (asyncio_cancel, asyncio_timeout, anyio_cancel, anyio_timeout)]


@pytest.fixture
def world() -> Iterator[KernelWorld]:
    """The kernel network and a far side on loopback."""
    made = KernelWorld()
    yield made
    made.close()


@pytest.mark.incident("FR-63")
class TestFr63SeamOnUvloop(SeamConformance):
    """The whole seam."""

    @pytest.fixture
    def drive(self, world: KernelWorld) -> Driver:
        """Runs engine code on uvloop."""
        return Driver("uvloop", world.network)

    @pytest.fixture(params=ways("uvloop"), ids=named)
    def way(self, request: pytest.FixtureRequest) -> Way:
        """How to cancel on uvloop."""
        found: Way = request.param
        return found

    @pytest.fixture
    def loop(self) -> str:
        """uvloop."""
        return "uvloop"


@pytest.mark.incident("FR-63")
class TestFr63RacesOnUvloop(KernelRaces):
    """The dialler relies on nothing of the loop's own create_connection."""

    @pytest.fixture
    def drive(self, world: KernelWorld) -> Driver:
        """Runs engine code on uvloop."""
        return Driver("uvloop", world.network)


@EAGER
@pytest.mark.incident("FR-64")
class TestFr64SeamWithEagerTasks(SeamConformance):
    """The whole seam."""

    @pytest.fixture
    def drive(self, world: KernelWorld) -> Driver:
        """Runs engine code in eager tasks."""
        return Driver("eager", world.network)

    @pytest.fixture(params=ways("eager"), ids=named)
    def way(self, request: pytest.FixtureRequest) -> Way:
        """How to cancel where tasks are eager."""
        found: Way = request.param
        return found

    @pytest.fixture
    def loop(self) -> str:
        """asyncio with eager tasks."""
        return "eager"


@EAGER
@pytest.mark.incident("FR-64")
class TestFr64RacesWithEagerTasks(KernelRaces):
    """No crash, no leak, the same winners."""

    @pytest.fixture
    def drive(self, world: KernelWorld) -> Driver:
        """Runs engine code in eager tasks."""
        return Driver("eager", world.network)


@pytest.mark.parametrize("loop", ["asyncio", *LOOPS])
@pytest.mark.incident("FR-64")
def test_the_cancellation_of_a_loser_never_reaches_the_caller(
    world: KernelWorld, loop: str
) -> None:
    """Losers are given up inside; the caller's task is not cancelled, nor marked as such."""
    live = world.listen()
    addresses = [world.silent(), world.silent(), live.address]

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        for _ in range(5):
            work = dial(world.network, dials(), Report(0.0))
            won = await run_async(world.network, work)
            assert won.stream.address == live.address
            won.stream.close()
            assert not getattr(task, "cancelling", int)()
            await asyncio.sleep(0)  # a stray cancellation would come out here

    def dials() -> DialRequest:
        return wanted(world.network, addresses=addresses, timeout=LONG, delay=DELAY)

    run_in_loop(loop, main)


@pytest.mark.parametrize("loop", ["asyncio", *LOOPS])
@pytest.mark.incident("FR-64")
def test_a_cancelled_caller_is_cancelled_once_and_leaves_nothing(
    world: KernelWorld, loop: str
) -> None:
    """Several races in one loop, one of them cancelled: the others win."""
    live = world.listen()
    silent = world.silent()
    before = len(open_sockets())

    async def race(*addresses: Address) -> str:
        dials = wanted(world.network, addresses=addresses, timeout=LONG, delay=DELAY)
        won = await run_async(world.network, dial(world.network, dials, Report(0.0)))
        won.stream.close()
        return str(won.stream.address)

    async def main() -> None:
        base = len(open_sockets())
        hopeless = asyncio.ensure_future(race(silent))
        others = [asyncio.ensure_future(race(silent, live.address)) for _ in range(3)]
        await asyncio.sleep(0)
        hopeless.cancel()
        found = await asyncio.gather(hopeless, *others, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert found[1:] == [str(live.address)] * 3
        assert len(open_sockets()) == base

    run_in_loop(loop, main)
    assert len(open_sockets()) == before
