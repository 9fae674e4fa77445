"""A waiter that is woken when the loop of its owner stands still, or is over."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import anyio
import pytest
import trio

from outlast.net.kernel_wait import KernelWaiter, wait_in_loop
from outlast.net.seam import WAKE, Wait
from tests.net.far_side import PATIENCE


def parked(loop: asyncio.AbstractEventLoop, waiter: KernelWaiter) -> asyncio.Task[Any]:
    """A task that waits for `waiter` in a loop which then stands still."""

    async def park() -> asyncio.Task[Any]:
        task = loop.create_task(wait_in_loop(Wait(((waiter, WAKE),))))
        await anyio.wait_all_tasks_blocked()
        return task

    return loop.run_until_complete(park())


@pytest.mark.parametrize("caller", ["a thread", "asyncio", "trio"])
@pytest.mark.parametrize("over", [False, True], ids=["stands still", "is closed"])
def test_a_wake_from_the_thread_of_a_loop_that(over: bool, caller: str) -> None:
    """It reaches whoever waits if its loop goes on, and never harms the one who wakes."""
    loop, waiter = asyncio.new_event_loop(), KernelWaiter()
    task = parked(loop, waiter)
    if over:
        loop.close()

    async def wake() -> None:
        waiter.wake()

    if caller == "a thread":
        waiter.wake()
    elif caller == "asyncio":
        asyncio.run(wake())
    else:
        trio.run(wake)
    if not over:
        assert loop.run_until_complete(asyncio.wait_for(task, PATIENCE)) == [waiter]
        loop.close()
    else:
        with contextlib.suppress(RuntimeError):  # anyio's scope asks for the loop
            task.get_coro().close()
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # nobody will end it
