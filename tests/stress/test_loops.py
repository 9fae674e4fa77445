"""Several event loops in threads, asyncio and trio, over one transport; a server that misbehaves.

Held to what `test_threads` is, and no task is left behind in any loop.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import httpx
import pytest
import trio

import outlast
from tests.stress.chaos import Chaos
from tests.stress.load import PATIENT, TIMEOUT, Tally, async_calls, at_rest, in_threads

LOOPS, TASKS, CALLS = 4, 12, 10
LIMITS = httpx.Limits(max_connections=24, max_keepalive_connections=16)
SECONDS = 50.0
KINDS: dict[str, dict[str, Any]] = {"HTTP/1.1": {}, "HTTP/2": {"http1": False, "http2": True}}

# httpx's own generators around bodies, and the uploads' own: trio remarks on those that end early.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


@pytest.fixture
def seed() -> int:
    """Other ones each time; printed with a failure."""
    return random.randrange(1 << 30)


def loop_with(
    work: Callable[[], Coroutine[Any, Any, None]], number: int, tally: Tally
) -> Callable[[], None]:
    """A thread's work: a loop of its own, until `work` has ended."""

    async def watched() -> None:
        await work()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    def run() -> None:
        try:
            asyncio.run(watched()) if number % 2 else trio.run(work)
        except BaseException as error:
            tally.fail(error)
            raise

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_several_loops_share_a_transport(kind: str, seed: int) -> None:
    tally = Tally()
    with Chaos(seed) as chaos:
        transport = outlast.AsyncTransport(
            limits=LIMITS, targets={"http://orders.test": chaos.target}, **KINDS[kind]
        )
        urls = [*chaos.urls, "http://orders.test"]

        async def crowd(number: int) -> None:
            client = httpx.AsyncClient(transport=transport, timeout=TIMEOUT)
            async with anyio.create_task_group() as group:
                for task in range(TASKS):
                    rng = random.Random(f"{seed} {number} {task}")
                    group.start_soon(async_calls, client, urls, rng, tally, CALLS)

        async def after() -> None:
            async with httpx.AsyncClient(transport=transport, timeout=PATIENT) as client:
                for url in urls * 3:
                    assert (await client.get(url + "/after")).status_code == 200

        chaos.tell("mood wild")
        works = [functools.partial(crowd, number) for number in range(LOOPS)]
        in_threads([loop_with(work, n, tally) for n, work in enumerate(works)], SECONDS)
        assert not tally.wrong, tally.wrong[0]
        assert list(at_rest(transport)) == []
        seen = chaos.tell("mood calm")
        assert seen.get("twice POST", 0) == 0, seen
        assert not [name for name in seen if name.startswith("protocol error")], seen
        assert tally.counts["answered"] > LOOPS * TASKS
        assert tally.counts["cancelled"] > 0
        asyncio.run(after())
        assert transport._engine.pool.counts()["places"] == 0
