"""Waiting on the real kernel: what the conformance suite cannot see from outside."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import select
import threading
import time
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
import trio

from outlast.net import kernel_wait
from outlast.net.kernel_wait import KernelWaiter, wait_in_loop, wait_in_thread
from outlast.net.run import run_async
from outlast.net.seam import READ, WAKE, WRITE, Interest, Wait
from tests.guards import open_sockets
from tests.net.drivers import Driver, run_in_loop
from tests.net.far_side import MOMENT, PATIENCE, connection
from tests.net.kernel_world import KernelWorld


@pytest.fixture
def world() -> Iterator[KernelWorld]:
    """The kernel network and a far side on loopback."""
    made = KernelWorld()
    yield made
    made.close()


def test_waiters_alone_need_no_descriptor() -> None:
    """As the background thread waits, for hours."""
    waiters = [KernelWaiter() for _ in range(3)]
    before = open_sockets()
    seen: list[dict[str, int]] = []

    def wake() -> None:
        seen.append(open_sockets())
        for waiter in waiters[1:]:
            waiter.wake()

    timer = threading.Timer(MOMENT, wake)
    timer.start()
    interests = [(waiter, WAKE) for waiter in [*waiters, waiters[1]]]
    ready = wait_in_thread(Wait(interests, time.monotonic() + PATIENCE))
    timer.join()
    assert ready
    assert set(ready) <= set(waiters[1:])
    assert seen == [before]
    assert set(wait_in_thread(Wait(interests))) == set(waiters[1:])
    assert not wait_in_thread(Wait(interests[:1] * 2, time.monotonic() + MOMENT))
    assert not wait_in_thread(Wait(interests[:1] * 2, 0.0))


@pytest.mark.parametrize("rung", [False, True])
def test_without_descriptors_a_wait_goes_on(
    world: KernelWorld, monkeypatch: pytest.MonkeyPatch, rung: bool
) -> None:
    def none_left(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    net = world.network
    waiter = net.waiter()

    async def engine() -> None:
        stream, peer = await connection(world)
        monkeypatch.setattr(kernel_wait, "borrowed", none_left)
        until = net.now() + 4 * kernel_wait.SLICE
        if rung:
            world.beside(wake_after)
            until = net.now() + PATIENCE
        ready = await Wait(((stream, READ), (waiter, WAKE)), until)
        assert list(ready) == ([waiter] if rung else [])
        assert rung or net.now() >= until
        stream.close()
        peer.close()

    async def wake_after() -> None:
        await Wait((), net.now() + MOMENT)
        waiter.wake()

    Driver("sync", net)(engine)


# --- where there is no poll(2) ----------------------------------------------------------------


def test_select_does_what_poll_does(world: KernelWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_wait, "_poll", kernel_wait._by_select)
    net = world.network
    waiter = net.waiter()

    async def engine() -> None:
        stream, peer = await connection(world)
        other, other_peer = await connection(world)
        assert not await Wait((), net.now() + MOMENT / 10)
        assert not await Wait(((stream, READ), (other, READ)), net.now() + MOMENT / 10)
        assert list(await Wait(((stream, READ | WRITE),), net.now() + PATIENCE)) == [stream]
        await other_peer.send(b"x")
        assert list(await Wait(((stream, READ), (other, READ)), net.now() + PATIENCE)) == [other]
        world.beside(wake_after)
        interests = ((stream, READ), (waiter, WAKE))
        assert list(await Wait(interests, net.now() + PATIENCE)) == [waiter]
        for end in (stream, peer, other, other_peer):
            end.close()

    async def wake_after() -> None:
        await Wait((), net.now() + MOMENT)
        waiter.wake()

    Driver("sync", net)(engine)


# --- timers that are not exact ----------------------------------------------------------------


class EarlyPoll:
    """A poll that ends at once, without an event, the first times."""

    early = 0

    def __init__(self) -> None:
        self.real = real_poll()

    def register(self, number: int, events: int) -> None:
        self.real.register(number, events)

    def poll(self, milliseconds: int) -> list[tuple[int, int]]:
        EarlyPoll.early += 1
        return [] if EarlyPoll.early < 4 else list(self.real.poll(milliseconds))


real_poll = select.poll


def test_a_poll_that_ends_early_is_begun_again(
    world: KernelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "poll", EarlyPoll)
    until = world.network.now() + MOMENT
    assert not wait_in_thread(Wait((), until))
    assert world.network.now() >= until


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("waiters", [0, 1, 2])
def test_a_loop_whose_timers_are_early_waits_on(
    world: KernelWorld, monkeypatch: pytest.MonkeyPatch, loop: str, waiters: int
) -> None:
    """uvloop's clock has whole milliseconds and may be behind."""
    real = anyio.move_on_after
    monkeypatch.setattr(anyio, "move_on_after", lambda delay: real(delay / 3))
    interests = [(world.network.waiter(), WAKE) for _ in range(waiters)]

    async def main() -> None:
        until = world.network.now() + MOMENT
        assert not await wait_in_loop(Wait(interests, until))
        assert world.network.now() >= until

    run_in_loop(loop, main)


# --- wakes from elsewhere ---------------------------------------------------------------------


def test_a_wake_while_the_loop_stands_still() -> None:
    """The same thread, but not its loop: a task would not notice a plain `Event.set`."""
    waiter = KernelWaiter()
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(wait_in_loop(Wait(((waiter, WAKE),))))
        for _ in range(3):
            loop.run_until_complete(asyncio.sleep(0))
        assert not task.done()
        waiter.wake()
        assert list(loop.run_until_complete(asyncio.wait_for(task, PATIENCE))) == [waiter]
    finally:
        loop.close()


def test_a_wake_from_the_host_of_a_guest_loop() -> None:
    """trio as asyncio's guest: two loops in one thread."""
    waiter = KernelWaiter()

    async def guest() -> list[Any]:
        with trio.fail_after(PATIENCE):
            host.call_later(MOMENT, waiter.wake)
            return list(await wait_in_loop(Wait(((waiter, WAKE),))))

    async def main() -> list[Any]:
        done: asyncio.Future[Any] = host.create_future()
        trio.lowlevel.start_guest_run(
            guest,
            run_sync_soon_threadsafe=host.call_soon_threadsafe,
            done_callback=done.set_result,
        )
        return list((await done).unwrap())

    host = asyncio.new_event_loop()
    try:
        assert host.run_until_complete(main()) == [waiter]
    finally:
        host.close()


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_wake_after_the_loop_has_ended(loop: str) -> None:
    waiter = KernelWaiter()
    armed: list[Any] = []

    async def main() -> None:
        real = waiter.arm
        waiter_class = KernelWaiter

        def keep(self: KernelWaiter, notify: Any) -> bool:
            armed.append(notify)
            return real(notify)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(waiter_class, "arm", keep)
            assert not await wait_in_loop(Wait(((waiter, WAKE),), 0.0))
            with anyio.move_on_after(MOMENT / 3):
                await wait_in_loop(Wait(((waiter, WAKE),)))

    run_in_loop(loop, main)
    notify = next(each for each in armed if each is not None)
    notify()  # a wake that was under way when the loop ended: nobody is there, nothing is raised
    thread = threading.Thread(target=notify)
    thread.start()
    thread.join(PATIENCE)


def test_a_look_asks_for_no_time(world: KernelWorld) -> None:
    """A wait whose time has come says what is ready, in a thread as in a loop."""
    net = world.network

    async def engine() -> None:
        stream, peer = await connection(world)
        waiter = net.waiter()
        both = ((stream, READ), (waiter, WAKE))
        assert not await Wait(both, -math.inf)
        waiter.wake()
        assert list(await Wait(both, -math.inf)) == [waiter]
        await peer.send(b"x")
        assert list(await Wait(((stream, READ),), net.now() + PATIENCE)) == [stream]
        assert set(await Wait(both, -math.inf)) == {stream, waiter}
        stream.close()
        peer.close()

    for kind in ("sync", "asyncio", "trio"):
        Driver(kind, net)(engine)
        net = world.network


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_tasks_of_one_loop_wake_each_other(world: KernelWorld, loop: str) -> None:
    waiters = [world.network.waiter() for _ in range(50)]
    woken: list[int] = []

    async def one(number: int) -> None:
        with anyio.fail_after(PATIENCE):
            assert await wait_in_loop(Wait(((waiters[number], WAKE),)))
        woken.append(number)
        if number:
            waiters[number - 1].wake()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(len(waiters)):
                group.start_soon(one, number)
            waiters[-1].wake()

    run_in_loop(loop, main)
    assert woken == list(range(len(waiters) - 1, -1, -1))


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_an_error_of_a_wait_comes_out_as_it_is(world: KernelWorld, loop: str) -> None:
    """Two things are waited for at once, and yet no group of exceptions comes out."""

    async def main() -> None:
        stream, peer = await run_async(world.network, connection(world))
        both: list[Interest] = [(stream, READ), (world.network.waiter(), WAKE)]
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(wait_in_loop, Wait([(stream, READ)]))
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()
                with pytest.raises(anyio.BusyResourceError):  # two owners: a mistake
                    await wait_in_loop(Wait(both))
                group.cancel_scope.cancel()
        stream.close()
        peer.close()

    run_in_loop(loop, main)


def test_a_closed_stream_is_ready_for_select_too(
    world: KernelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_wait, "_poll", kernel_wait._by_select)

    async def engine() -> None:
        stream, peer = await connection(world)
        stream.close()
        assert list(await Wait(((stream, READ),))) == [stream]
        peer.close()

    Driver("sync", world.network)(engine)
