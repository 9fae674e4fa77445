"""What happens in one instant happens in the same order to threads and to tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import httpx
import pytest

import outlast
from outlast.net.seam import WAKE, Wait
from outlast.testing import SimNet

AT_ONCE = Wait((), -math.inf)


@pytest.fixture(params=["sync", "asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def side_by_side(
    net: SimNet,
    backend: str,
    work: Callable[[str], object],
    task: Callable[[str], Coroutine[Any, Any, None]],
) -> None:
    """Two workers at the same time: functions in threads, or tasks."""
    names = ["w1", "w2"]
    if backend == "sync":
        with net.running():
            net.gather(*(lambda name=name: work(name) for name in names), names=names)
        return

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(task, name, name=name)

    net.run(main, backend=backend)


async def in_two_pieces(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def test_answers_that_come_in_pieces_at_once(backend: str) -> None:
    """Whoever's answer comes first goes on first, though a loop could see both by then."""
    net, trail = SimNet(), list[str]()
    url = net.node("a").pod(in_two_pieces).url

    def work(name: str) -> None:
        with httpx.Client(transport=outlast.Transport(network=net)) as client:
            client.get(url)
            trail.append(name)

    async def task(name: str) -> None:
        async with httpx.AsyncClient(transport=outlast.AsyncTransport(network=net)) as client:
            await client.get(url)
            trail.append(name)

    side_by_side(net, backend, work, task)
    assert trail == ["w1", "w2"]


@pytest.mark.parametrize("ready", [False, True])
def test_a_wait_for_nothing_lets_others_go_first(backend: str, *, ready: bool) -> None:
    """One that is over at once, too."""
    net, trail = SimNet(), list[str]()
    waiter, woken = net.waiter(), net.waiter()
    woken.wake()
    nothing = Wait(((woken, WAKE),)) if ready else AT_ONCE

    def work(name: str) -> None:
        if name == "w1":
            net.wait(Wait(((waiter, WAKE),)))
        else:
            waiter.wake()
            net.wait(nothing)
        trail.append(name)

    async def task(name: str) -> None:
        if name == "w1":
            await net.wait_async(Wait(((waiter, WAKE),)))
        else:
            waiter.wake()
            await net.wait_async(nothing)
        trail.append(name)

    side_by_side(net, backend, work, task)
    assert trail == ["w1", "w2"]
