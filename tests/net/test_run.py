"""Engine code is driven the same by a thread and by a loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator

import pytest
import trio

from outlast.net.run import run_async, run_sync, sleep_until
from outlast.net.seam import READ, WAKE, Interest, Ready, Wait
from tests.net.drivers import Driver, run_in_loop
from tests.net.far_side import MOMENT, PATIENCE, connection
from tests.net.kernel_world import KernelWorld
from tests.net.scripted import Scripted

LOOPS = ["asyncio", "trio"]


@pytest.fixture
def net() -> Scripted:
    """A network in virtual time."""
    return Scripted()


@pytest.fixture(params=["sync", *LOOPS])
def drive(request: pytest.FixtureRequest, net: Scripted) -> Driver:
    """Runs engine code in virtual time."""
    return Driver(request.param, net)


class Broken(Scripted):
    """A network whose waits fail."""

    def wait(self, wait: Wait) -> Ready:
        """Fails."""
        raise ConnectionError("the wait has failed")


# --- results and errors -----------------------------------------------------------------------


def test_a_result_comes_back(net: Scripted, drive: Driver) -> None:
    async def engine() -> str:
        await sleep_until(2.5)
        return f"at {net.now()}"

    assert drive(engine) == "at 2.5"


def test_engine_code_that_never_waits(drive: Driver) -> None:
    async def engine() -> int:
        return 42

    assert drive(engine) == 42


def test_an_error_comes_back_as_it_is(drive: Driver) -> None:
    error = OSError(5, "as it is")

    async def engine() -> None:
        await sleep_until(1.0)
        raise error

    with pytest.raises(OSError, match="as it is") as failure:
        drive(engine)
    assert failure.value is error


@pytest.mark.parametrize("world", ["sync", *LOOPS])
def test_an_error_of_the_wait_is_raised_where_engine_code_waits(world: str) -> None:
    trail: list[str] = []

    async def engine() -> str:
        try:
            await sleep_until(1.0)
        except ConnectionError:
            trail.append("caught")
        try:
            await sleep_until(1.0)
        finally:
            trail.append("cleaned up")
        return "went on"

    with pytest.raises(ConnectionError):
        Driver(world, Broken())(engine)
    assert trail == ["caught", "cleaned up"]


# --- what is not the engine's -----------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
def test_what_the_caller_awaits_passes_through_to_the_loop(net: Scripted, loop: str) -> None:
    """An async request body is the caller's own code, and awaits what it likes."""

    async def foreign() -> str:
        if loop == "trio":
            with trio.move_on_after(PATIENCE):
                await trio.lowlevel.checkpoint()
        else:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(future.set_result, None)
            await future
        return "foreign"

    async def engine() -> list[str]:
        first = await foreign()
        await sleep_until(1.0)
        return [first, await foreign()]

    async def main() -> list[str]:
        return await run_async(net, engine())

    assert run_in_loop(loop, main) == ["foreign", "foreign"]


def test_an_error_of_the_loop_is_raised_where_engine_code_waits(net: Scripted) -> None:
    async def engine() -> str:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, LookupError("foreign"))
        with pytest.raises(LookupError):
            await future
        return "went on"

    async def main() -> str:
        return await run_async(net, engine())

    assert run_in_loop("asyncio", main) == "went on"


def test_a_thread_refuses_what_needs_a_loop(net: Scripted) -> None:
    trail: list[str] = []

    async def engine() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            trail.append("cleaned up")

    with pytest.raises(RuntimeError, match="needs an event loop"):
        run_sync(net, engine())
    assert trail == ["cleaned up"]


def test_an_abandoned_coroutine_is_closed(net: Scripted) -> None:
    """What drives the coroutine goes away in the middle: the engine's cleaning up still runs."""
    trail: list[str] = []

    async def engine() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            trail.append("cleaned up")

    async def outer() -> None:
        await run_async(net, engine())

    coroutine = outer()
    coroutine.send(None)
    coroutine.close()
    assert trail == ["cleaned up"]


# --- a thread that is interrupted -------------------------------------------------------------


@pytest.fixture
def world() -> Iterator[KernelWorld]:
    """The kernel network and a far side on loopback."""
    made = KernelWorld()
    yield made
    made.close()


@pytest.mark.parametrize("what", ["time", "stream", "waiter", "stream and waiter"])
def test_an_interrupt_of_a_waiting_thread_cleans_up(world: KernelWorld, what: str) -> None:
    net = world.network
    trail: list[str] = []
    waits = threading.Event()

    async def interrupt() -> None:
        assert waits.wait(PATIENCE)
        await sleep_until(net.now() + MOMENT)  # not in the middle of making ready to wait
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    async def engine() -> None:
        stream, peer = await connection(world)
        interests: list[Interest] = []
        if "stream" in what:
            interests.append((stream, READ))
        if "waiter" in what:
            interests.append((net.waiter(), WAKE))
        try:
            waits.set()
            await Wait(interests, net.now() + PATIENCE)
        finally:
            trail.append("cleaned up")
            stream.close()
            peer.close()

    world.beside(interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_sync(net, engine())
    assert trail == ["cleaned up"]
