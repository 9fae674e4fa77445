"""Threads in virtual time: one at a time, in a fixed order, and time jumps when all wait."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from outlast.net.seam import WAKE, Wait
from outlast.testing.simnet.simulation import Simulation
from outlast.testing.simnet.stall import SimStalled

HOUR = 3600.0


@pytest.fixture
def sim() -> Simulation:
    return Simulation(patience=0.3)


def sleeper(sim: Simulation, trail: list[str], name: str, *naps: float) -> Callable[[], str]:
    def work() -> str:
        for nap in naps:
            sim.sleep(nap)
            trail.append(f"{name} {sim.now():g}")
        return name

    return work


def test_time_jumps_when_everybody_waits(sim: Simulation) -> None:
    with sim.running():
        sim.sleep(HOUR)
        assert sim.now() == HOUR
        sim.sleep(0.1)
        sim.sleep(0.2)
        assert sim.now() == HOUR + 0.3


def test_threads_run_one_at_a_time_in_a_fixed_order(sim: Simulation) -> None:
    trail: list[str] = []
    with sim.running():
        a = sim.thread(sleeper(sim, trail, "a", 1, 1, 1), "a")
        b = sim.thread(sleeper(sim, trail, "b", 1, 0.5, 0.5), "b")
        assert trail == []
        assert [a.result(), b.result()] == ["a", "b"]
    assert trail == ["a 1", "b 1", "b 1.5", "a 2", "b 2", "a 3"]


def test_a_thread_has_its_name_and_so_has_the_first(sim: Simulation) -> None:
    with sim.running():
        assert sim.worker() == "main"
        assert sim.thread(sim.worker, "w").result() == "w"
        assert sim.thread(sim.worker, None).result() == "thread-2"
    assert sim.worker() == "outside"


def test_a_join_may_end_before_the_thread_does(sim: Simulation) -> None:
    with sim.running():
        thread = sim.thread(sleeper(sim, [], "a", 5), "a")
        assert not thread.join(timeout=2)
        assert (sim.now(), thread.done) == (2, False)
        assert thread.join()
        assert (sim.now(), thread.done) == (5, True)


def test_a_failure_is_raised_by_result(sim: Simulation) -> None:
    def fail() -> None:
        raise ValueError("thread")

    with sim.running():
        with pytest.raises(ValueError, match="thread"):
            sim.thread(fail, "a").result()


def test_a_failure_that_nobody_asked_for_is_raised_at_the_end(sim: Simulation) -> None:
    def fail() -> None:
        raise ValueError("thread")

    def scenario() -> None:
        with sim.running():
            sim.thread(fail, "a")
            sim.sleep(1)

    with pytest.raises(ValueError, match="thread"):
        scenario()


def test_threads_that_are_still_there_at_the_end_are_ended(sim: Simulation) -> None:
    trail: list[str] = []

    def work() -> None:
        try:
            sim.sleep(HOUR)
            trail.append("slept")
        finally:
            trail.append("cleaned up")

    with sim.running():
        sim.thread(work, "a")
        sim.thread(lambda: trail.append("b"), "b")
        sim.sleep(1)
        sim.thread(lambda: trail.append("never"), "c")
    assert trail == ["b", "cleaned up"]


def test_a_run_may_follow_another(sim: Simulation) -> None:
    for _ in range(3):
        with sim.running():
            sim.thread(lambda: sim.sleep(1), None).join()
    assert sim.now() == 3


def test_two_runs_at_once_are_refused(sim: Simulation) -> None:
    with sim.running():
        with pytest.raises(RuntimeError, match="running already"):
            with sim.running():
                pytest.fail("two at once")


def test_a_wait_outside_a_run_is_refused(sim: Simulation) -> None:
    with pytest.raises(RuntimeError, match=r"with net\.running\(\)"):
        sim.sleep(1)


def test_a_body_that_fails_ends_its_threads(sim: Simulation) -> None:
    def scenario() -> None:
        with sim.running():
            sim.thread(lambda: sim.sleep(HOUR), None)
            sim.sleep(1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scenario()
    assert sim.now() == 1


# -- what cannot go on ---------------------------------------------------------------------


def test_waiting_for_nothing_is_told_with_everybody_s_place(sim: Simulation) -> None:
    def scenario() -> None:
        with sim.running():
            sim.thread(lambda: sim.wait(Wait(((sim.waiter(), WAKE),))), "a")
            sim.wait(Wait(()))

    with pytest.raises(SimStalled, match="nothing is going to happen") as told:
        scenario()
    assert "main stands at" in str(told.value)
    assert "sim.wait(Wait(()))" in str(told.value)
    assert "a waits for" in str(told.value)


def test_a_thread_that_hears_of_it_first_tells_the_one_that_began(sim: Simulation) -> None:
    def work() -> None:
        sim.sleep(1)
        sim.wait(Wait(()))

    def scenario() -> None:
        with sim.running():
            sim.thread(work, "a").join()

    with pytest.raises(SimStalled, match="nothing is going to happen"):
        scenario()


def test_the_longest_time_is_kept() -> None:
    sim = Simulation(longest=100)

    def scenario() -> None:
        with sim.running():
            while True:
                sim.sleep(30)

    with pytest.raises(SimStalled, match="longest time"):
        scenario()
    assert sim.now() == 90


def test_a_busy_loop_is_caught_and_named(sim: Simulation) -> None:
    def scenario() -> None:
        with sim.running():
            while sim.now() < 1:
                pass

    with pytest.raises(SimStalled, match="main is busy, asleep or waiting") as told:
        scenario()
    assert "test_threads.py" in str(told.value)
    assert "while sim.now() < 1:" in str(told.value)


def test_a_real_wait_is_caught_and_named(sim: Simulation) -> None:
    def scenario() -> None:
        with sim.running():
            threading.Event().wait()

    with pytest.raises(SimStalled, match="main is busy, asleep or waiting") as told:
        scenario()
    assert "threading.Event().wait()" in str(told.value)


def test_a_real_wait_in_another_thread_is_caught_and_named(sim: Simulation) -> None:
    gate = threading.Lock()
    gate.acquire()
    try:

        def scenario() -> None:
            with sim.running():
                sim.thread(gate.acquire, "a")
                sim.sleep(1)
                pytest.fail("time went on")

        with pytest.raises(SimStalled, match="a is busy, asleep or waiting") as told:
            scenario()
    finally:
        gate.release()
    assert "a stands at" in str(told.value)


# -- plain threads -------------------------------------------------------------------------


def test_plain_threads_join_and_virtual_time_holds(sim: Simulation) -> None:
    def nap(seconds: float) -> float:
        sim.sleep(seconds)
        return sim.now()

    with sim.running():
        with ThreadPoolExecutor(4) as pool:
            ends = list(pool.map(nap, [3, 1, 2, 4]))
        assert ends == [3, 1, 2, 4]
        sim.sleep(1)
        assert sim.now() == 5


@pytest.fixture
def nameless() -> Iterator[None]:
    """A thread that the `threading` module does not know, such as pytest-xdist's workers have."""
    gate = threading.Lock()
    begun = threading.Event()

    def stand() -> None:
        begun.set()
        with gate:
            pass

    gate.acquire()
    _thread.start_new_thread(stand, ())
    assert begun.wait(HOUR)
    yield
    gate.release()


@pytest.mark.usefixtures("nameless")
def test_a_plain_thread_that_works_holds_time_back(sim: Simulation) -> None:
    """Its work takes no virtual time, also if it never meets the simulation."""
    waiter = sim.waiter()

    def work() -> None:
        sum(range(500_000))
        waiter.wake()

    with sim.running():
        sim.sleep(1)
        thread = threading.Thread(target=work)
        thread.start()
        assert sim.wait(Wait(((waiter, WAKE),), HOUR))
        assert sim.now() == 1
        thread.join()


def test_two_simulations_do_not_wait_for_each_other() -> None:
    """Each in a thread of its own: neither is the other's business."""

    def play(sim: Simulation) -> float:
        with sim.running():
            threads = [sim.thread(lambda: sim.sleep(5), None) for _ in range(3)]
            for _ in range(200):
                sim.sleep(1)
            for thread in threads:
                thread.join()
        return sim.now()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(play, [Simulation(), Simulation()])) == [200, 200]
