"""The seam's conformance: a cancellation goes through engine code and comes out again."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import anyio
import pytest
import trio

from outlast.net.run import give_way, run_async
from outlast.net.seam import READ, WAKE, WRITE, Interest, Wait
from tests.net.conformance_waits import SeamTests
from tests.net.far_side import MOMENT, PATIENCE, World, arrival, connection, read

Job: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


async def asyncio_cancel(job: Job, began: anyio.Event) -> None:
    task = asyncio.ensure_future(job())
    task.add_done_callback(lambda _: began.set())  # should it end before it waits
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def asyncio_timeout(job: Job, began: anyio.Event) -> None:
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(job(), MOMENT)


async def trio_cancel(job: Job, began: anyio.Event) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(job)
        await began.wait()
        nursery.cancel_scope.cancel()
    assert nursery.cancel_scope.cancelled_caught


async def trio_timeout(job: Job, began: anyio.Event) -> None:
    with pytest.raises(trio.TooSlowError):
        with trio.fail_after(MOMENT):
            await job()


async def anyio_cancel(job: Job, began: anyio.Event) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(job)
        await began.wait()
        group.cancel_scope.cancel()
    assert group.cancel_scope.cancelled_caught


async def anyio_timeout(job: Job, began: anyio.Event) -> None:
    with pytest.raises(TimeoutError):
        with anyio.fail_after(MOMENT):
            await job()


WAYS = [
    ("asyncio", asyncio_cancel),
    ("asyncio", asyncio_timeout),
    ("trio", trio_cancel),
    ("trio", trio_timeout),
    ("asyncio", anyio_cancel),
    ("trio", anyio_cancel),
    ("asyncio", anyio_timeout),
    ("trio", anyio_timeout),
]
WAITS = ["nothing", "a time", "a stream", "both ways", "a waiter", "all of it", "one of two"]


Way: TypeAlias = "tuple[str, Callable[[Job, anyio.Event], Coroutine[Any, Any, None]]]"


def named(way: Way) -> str:
    """For the names of tests."""
    return f"{way[0]}-{way[1].__name__}"


class Cancellation(SeamTests):
    """For event loops only: a thread cannot be cancelled."""

    @pytest.fixture(params=WAYS, ids=named)
    def way(self, request: pytest.FixtureRequest) -> Way:
        """An event loop and how to cancel in it."""
        found: Way = request.param
        return found

    @pytest.fixture(params=["asyncio", "trio"])
    def loop(self, request: pytest.FixtureRequest) -> str:
        """An event loop."""
        return str(request.param)

    @pytest.mark.parametrize("what", WAITS)
    def test_a_cancellation_passes_through(self, world: World, way: Way, what: str) -> None:
        net = world.network
        loop, cancel = way
        trail: list[str] = []
        began: list[anyio.Event] = []

        async def engine() -> None:
            stream, peer = await connection(world)
            while stream.send(bytes(65536)):
                pass
            interests, until = self._wait(world, stream, what)
            try:
                trail.append("waits")
                began[0].set()
                await Wait(interests, until)
                trail.append("went on")
            finally:
                trail.append("cleaned up")
                stream.abort()
                peer.close()
            trail.append("swallowed")

        async def job() -> None:
            await run_async(net, engine())
            trail.append("came back")

        async def main() -> None:
            began.append(anyio.Event())
            await cancel(job, began[0])

        world.run_in_loop(loop, main)
        assert trail == ["waits", "cleaned up"]

    @staticmethod
    def _wait(world: World, stream: Any, what: str) -> tuple[list[Interest], float]:
        net = world.network
        waiter = net.waiter()
        interests: dict[str, list[Interest]] = {
            "nothing": [],
            "a time": [],
            "a stream": [(stream, READ)],
            "both ways": [(stream, READ | WRITE)],
            "a waiter": [(waiter, WAKE)],
            "all of it": [(stream, READ | WRITE), (waiter, WAKE)],
            "one of two": [(waiter, WAKE), (net.waiter(), WAKE)],
        }
        return interests[what], math.inf if what != "a time" else net.now() + PATIENCE

    def test_after_a_cancelled_wait_all_can_be_waited_for_again(
        self, world: World, loop: str
    ) -> None:
        net = world.network

        async def main() -> None:
            stream, peer = await run_async(net, connection(world))
            waiter = net.waiter()
            kinds: list[list[Interest]] = [[(stream, READ)], [(stream, READ), (waiter, WAKE)]]
            kinds.append([(waiter, WAKE)])
            for interests in kinds:
                with anyio.move_on_after(MOMENT) as scope:
                    await net.wait_async(Wait(interests))
                assert scope.cancelled_caught
            await run_async(net, peer.send(b"x"))
            await run_async(net, arrival(net, stream))
            assert await run_async(net, read(net, stream)) == b"x"
            waiter.wake()
            assert list(await net.wait_async(Wait([(stream, READ), (waiter, WAKE)]))) == [waiter]
            stream.close()
            peer.close()

        world.run_in_loop(loop, main)

    def test_a_cancelled_scope_cancels_the_next_wait(self, world: World, loop: str) -> None:
        net = world.network

        async def main() -> None:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await net.wait_async(Wait((), net.now() + PATIENCE))
                pytest.fail("the wait went on")
            assert scope.cancelled_caught

        world.run_in_loop(loop, main)

    def test_giving_way_is_a_point_of_cancellation(self, world: World, loop: str) -> None:
        net = world.network

        async def main() -> None:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await run_async(net, give_way())
                pytest.fail("nobody else had a turn")
            assert scope.cancelled_caught

        world.run_in_loop(loop, main)
