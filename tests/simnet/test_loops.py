"""asyncio and trio in virtual time: sleeps, waits, cancellation, and what cannot be."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread
import pytest
import trio
import trio.testing

from outlast.net.seam import WAKE, Wait
from outlast.testing.simnet.simulation import Simulation
from outlast.testing.simnet.stall import SimStalled

HOUR = 3600.0
NAPS: dict[str, list[Callable[[float], Awaitable[Any]]]] = {
    "asyncio": [anyio.sleep, asyncio.sleep],
    "trio": [anyio.sleep, trio.sleep],
}


@pytest.fixture
def sim() -> Simulation:
    return Simulation(patience=0.4)


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(sim: Simulation, main: Callable[[], Coroutine[Any, Any, Any]], backend: str) -> Any:
    return sim.run(main, backend, debug=True)


def test_sleeps_are_virtual(sim: Simulation, backend: str) -> None:
    async def main() -> str:
        nap: Any
        for nap in NAPS[backend]:
            await nap(HOUR)
        await sim.wait_async(Wait((), sim.now() + HOUR))
        return "slept"

    assert run(sim, main, backend) == "slept"
    assert sim.now() == pytest.approx(3 * HOUR)


def test_timeouts_are_virtual(sim: Simulation, backend: str) -> None:
    async def main() -> None:
        with anyio.move_on_after(5) as scope:
            await sim.wait_async(Wait(()))
        assert scope.cancelled_caught
        assert sim.now() == 5

    run(sim, main, backend)


def test_tasks_wake_each_other(sim: Simulation, backend: str) -> None:
    trail: list[str] = []

    async def main() -> None:
        waiter = sim.waiter()

        async def sleeper() -> None:
            assert list(await sim.wait_async(Wait(((waiter, WAKE),)))) == [waiter]
            trail.append(f"woken {sim.now():g}")

        async with anyio.create_task_group() as group:
            group.start_soon(sleeper)
            await anyio.sleep(3)
            trail.append("wakes")
            waiter.wake()

    run(sim, main, backend)
    assert trail == ["wakes", "woken 3"]


def test_a_sleep_after_a_wake_is_as_long_as_it_says(sim: Simulation, backend: str) -> None:
    """What has woken a loop is done with before it rests again, and wakes it no second time."""
    slept: list[float] = []

    async def main() -> None:
        waiter = sim.waiter()

        async def sleeper() -> None:
            await sim.wait_async(Wait(((waiter, WAKE),)))
            begun = sim.timeline.now
            await anyio.sleep(3)
            slept.append((sim.timeline.now - begun) / 1e6)

        async with anyio.create_task_group() as group:
            group.start_soon(sleeper)
            await anyio.sleep(1)
            waiter.wake()
            await anyio.sleep(HOUR)

    run(sim, main, backend)
    assert slept == [3]


def test_tasks_of_one_instant_run_in_the_order_of_their_making(
    sim: Simulation, backend: str
) -> None:
    trail: list[int] = []

    async def main() -> None:
        async def work(number: int) -> None:
            for _ in range(5):
                await anyio.sleep(1)
                trail.append(number)

        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(work, number)

    run(sim, main, backend)
    assert trail == list(range(6)) * 5


def test_a_cancelled_group_is_cancelled_in_order(sim: Simulation, backend: str) -> None:
    trail: list[int] = []

    async def main() -> None:
        async def work(number: int) -> None:
            try:
                await anyio.sleep(HOUR)
            finally:
                trail.append(number)

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(work, number)
            await anyio.sleep(1)
            group.cancel_scope.cancel()

    run(sim, main, backend)
    assert trail == list(range(20))


def test_workers_have_names(sim: Simulation, backend: str) -> None:
    names: list[str] = []

    async def main() -> None:
        async def work() -> None:
            names.append(sim.worker())
            await anyio.sleep(1)
            names.append(sim.worker())

        async with anyio.create_task_group() as group:
            group.start_soon(work, name="w1")
            group.start_soon(work, name="w2")
            group.start_soon(work, name="w2")

    run(sim, main, backend)
    assert names == ["w1", "w2", "w2#2"] * 2


def test_a_loop_and_threads_share_the_time(sim: Simulation, backend: str) -> None:
    trail: list[str] = []

    def work() -> str:
        for _ in range(3):
            sim.sleep(1)
            trail.append(f"thread {sim.now():g}")
        return "done"

    async def main() -> None:
        thread = sim.thread(work, "a")
        for _ in range(3):
            await anyio.sleep(1)
            trail.append(f"task {sim.now():g}")
        assert thread.result() == "done"

    run(sim, main, backend)
    assert sorted(trail) == sorted(f"{who} {n}" for who in ("thread", "task") for n in (1, 2, 3))
    assert [line[-1] for line in trail] == list("112233")


def test_a_busy_task_lets_others_have_their_turn(sim: Simulation, backend: str) -> None:
    async def main() -> int:
        thread = sim.thread(lambda: None, "b")
        for count in range(1000):
            if thread.done:
                return count
            await anyio.lowlevel.checkpoint()
        return 1000

    assert run(sim, main, backend) < 10


def test_work_in_plain_threads_holds_time_back(sim: Simulation, backend: str) -> None:
    async def main() -> int:
        with anyio.fail_after(1):
            total = await anyio.to_thread.run_sync(lambda: sum(range(300_000)))
        assert sim.now() == 0
        return total

    assert run(sim, main, backend) == sum(range(300_000))


def test_asyncio_executors_hold_time_back(sim: Simulation) -> None:
    async def main() -> None:
        await asyncio.wait_for(asyncio.to_thread(sum, range(300_000)), 1)
        assert sim.now() == 0

    run(sim, main, "asyncio")


def test_trio_s_idleness_comes_before_time_goes_on(sim: Simulation) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, HOUR)
            await trio.testing.wait_all_tasks_blocked()
            assert sim.now() == 0
            nursery.cancel_scope.cancel()

    run(sim, main, "trio")


# -- what cannot be ------------------------------------------------------------------------


def test_an_unknown_backend_is_refused(sim: Simulation) -> None:
    async def main() -> None:
        pass

    with pytest.raises(ValueError, match="'asyncio' or 'trio'"):
        run(sim, main, "curio")


@pytest.mark.anyio
async def test_a_loop_of_another_is_refused_by_name(sim: Simulation) -> None:
    with pytest.raises(RuntimeError, match=r"net\.run\(main"):
        async with sim.running():
            pytest.fail("entered")
    with pytest.raises(RuntimeError, match=r"net\.run\(main"):
        with sim.running():
            pytest.fail("entered")
    with pytest.raises(RuntimeError, match=r"net\.run\(main"):
        await sim.wait_async(Wait((), 1.0))


def test_inside_its_own_loop_running_is_nothing(sim: Simulation, backend: str) -> None:
    async def main() -> float:
        async with sim.running():
            await anyio.sleep(1)
        return sim.now()

    assert run(sim, main, backend) == 1


def test_a_failure_of_main_comes_out(sim: Simulation, backend: str) -> None:
    async def main() -> None:
        await anyio.sleep(1)
        raise ValueError("main")

    with pytest.raises(ValueError, match="main"):
        run(sim, main, backend)


def test_a_loop_that_waits_for_nothing_is_told(sim: Simulation, backend: str) -> None:
    trail: list[str] = []

    async def main() -> None:
        try:
            await sim.wait_async(Wait(((sim.waiter(), WAKE),)))
        finally:
            trail.append("cleaned up")
            with anyio.CancelScope(shield=True):
                await anyio.sleep(5)
            trail.append("wholly")

    with pytest.raises(SimStalled, match="nothing is going to happen") as told:
        run(sim, main, backend)
    assert "waits for" in str(told.value)
    assert trail == ["cleaned up", "wholly"]


def test_a_busy_loop_in_a_task_is_caught_and_named(sim: Simulation, backend: str) -> None:
    async def main() -> None:
        while sim.now() < 1:
            pass

    with pytest.raises(SimStalled, match="main is busy, asleep or waiting") as told:
        run(sim, main, backend)
    assert "test_loops.py" in str(told.value)


def test_a_loop_of_checkpoints_is_caught(sim: Simulation, backend: str) -> None:
    async def main() -> None:
        while sim.now() < 1:
            await anyio.lowlevel.checkpoint()

    with pytest.raises(SimStalled, match="main is busy, asleep or waiting"):
        run(sim, main, backend)


async def connects() -> None:
    await asyncio.open_connection("127.0.0.1", 80)


async def looks_up() -> None:
    await anyio.getaddrinfo("localhost", 80)


@pytest.mark.parametrize("work", [connects, looks_up])
def test_asyncio_does_not_reach_the_real_network(
    sim: Simulation, work: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    with pytest.raises(RuntimeError, match=r"AsyncTransport\(network=net\)"):
        run(sim, work, "asyncio")


def test_loops_of_two_simulations_run_at_once_and_leave_nothing_behind(backend: str) -> None:
    run_module = importlib.import_module("trio._core._run")
    scopes = importlib.import_module("anyio._backends._asyncio").CancelScope
    before = run_module._r, scopes.__init__

    def play(sim: Simulation) -> list[int]:
        trail: list[int] = []

        async def main() -> None:
            async def work(number: int) -> None:
                for _ in range(20):
                    await anyio.sleep(1)
                    trail.append(number)

            async with anyio.create_task_group() as group:
                for number in range(5):
                    group.start_soon(work, number)

        sim.run(main, backend, debug=False)
        return trail

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(play, [Simulation(), Simulation()])) == [list(range(5)) * 20] * 2
    assert (run_module._r, scopes.__init__) == before
