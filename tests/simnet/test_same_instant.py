"""What happens in one instant happens in the same order to threads and to tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import anyio
import httpx
import pytest
from exceptiongroup import BaseExceptionGroup

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
    names: Sequence[str] = ("w1", "w2"),
) -> None:
    """Workers at the same time: functions in threads, or tasks."""
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


def test_a_sleep_that_ends_when_an_answer_comes(backend: str) -> None:
    """The older of the two is first: here the sleep, whoever rests meanwhile (w3)."""
    net, trail = SimNet(), list[str]()
    url, ends = net.node("a").pod().url, 1.0003  # the dial's round trip, and the request's
    sleeps = {"w1": ends, "w3": 1.00027}

    def work(name: str) -> None:
        if name in sleeps:
            net.sleep(sleeps[name])
            assert net.now() == sleeps[name]
        else:
            with httpx.Client(transport=outlast.Transport(network=net)) as client:
                client.get(f"{url}?delay=1")
                assert net.elapsed() == ends
        trail.append(name)

    async def task(name: str) -> None:
        if name in sleeps:
            await anyio.sleep(sleeps[name])
            assert net.now() == sleeps[name]
        else:
            async with httpx.AsyncClient(transport=outlast.AsyncTransport(network=net)) as client:
                await client.get(f"{url}?delay=1")
                assert net.elapsed() == ends
        trail.append(name)

    side_by_side(net, backend, work, task, names=("w1", "w2", "w3"))
    assert trail == ["w3", "w1", "w2"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_timers_that_are_left_behind_trouble_no_later_run(backend: str) -> None:
    net = SimNet()

    async def fails() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 3)
            raise ValueError("now")

    async def sleeps() -> float:
        with anyio.move_on_after(100):
            await anyio.sleep(5)
        return net.elapsed()

    for _ in range(3):
        with pytest.raises(BaseExceptionGroup):
            net.run(fails, backend=backend)
        assert net.run(sleeps, backend=backend) == 5
