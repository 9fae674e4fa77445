"""The one background thread: when it begins, when it ends, and what cannot stop it."""

from __future__ import annotations

import threading

import pytest

from outlast.net.background import Background
from outlast.net.kernel import KernelNetwork
from outlast.net.run import run_sync
from outlast.net.seam import WAKE, Ready, Wait, Waiter
from tests.net.far_side import MOMENT, PATIENCE

NAME = "outlast-background"


others: set[threading.Thread] = set()  # the process's own, which watches sockets of other tests


@pytest.fixture(autouse=True)
def begin() -> None:
    others.clear()
    others.update(threading.enumerate())


def threads() -> list[threading.Thread]:
    found = set(threading.enumerate()) - others
    return [thread for thread in found if thread.name == NAME]


def woken(network: KernelNetwork, waiter: Waiter) -> bool:
    async def engine() -> bool:
        return bool(await Wait(((waiter, WAKE),), network.now() + PATIENCE))

    return run_sync(network, engine())


def test_one_thread_for_all_jobs_that_ends_when_idle_and_begins_anew() -> None:
    network = KernelNetwork()
    for _ in range(2):
        done = [network.waiter() for _ in range(3)]
        gate = network.waiter()
        seen: list[threading.Thread] = []

        def job(mine: Waiter, gate: Waiter = gate, seen: list[threading.Thread] = seen) -> object:
            async def run() -> None:
                await Wait(((gate, WAKE),), network.now() + PATIENCE)
                seen.append(threading.current_thread())
                mine.wake()

            return run

        assert not threads()
        for waiter in done:
            network.spawn(job(waiter))  # type: ignore[arg-type]  # a coroutine function
        (thread,) = threads()
        assert thread.daemon
        gate.wake()
        assert all(woken(network, waiter) for waiter in done)
        assert seen == [thread] * 3
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_job_is_begun_while_others_sleep() -> None:
    network = KernelNetwork()
    slow, quick = network.waiter(), network.waiter()

    async def sleeper() -> None:
        await Wait(((slow, WAKE),), network.now() + PATIENCE)

    async def job() -> None:
        quick.wake()

    network.spawn(sleeper)
    (thread,) = threads()
    network.spawn(job)
    assert woken(network, quick)
    assert threads() == [thread]
    slow.wake()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_where_no_thread_can_begin_the_caller_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    network = KernelNetwork()
    done, lost = network.waiter(), network.waiter()

    async def job() -> None:
        done.wake()

    async def never() -> None:
        lost.wake()

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            network.spawn(never)
    network.spawn(job)
    assert woken(network, done)
    for thread in threads():
        thread.join(PATIENCE)
    assert not run_sync(network, look(lost))


async def look(waiter: Waiter) -> Ready:
    return await Wait(((waiter, WAKE),), 0.0)


class OnceBroken(KernelNetwork):
    """A network whose first wait fails."""

    broken = True

    def wait(self, wait: Wait) -> Ready:
        """Fails once."""
        if self.broken:
            self.broken = False
            raise ConnectionError("the wait has failed")
        return super().wait(wait)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_after_a_failure_of_the_network_the_next_job_begins_anew() -> None:
    network = OnceBroken()
    background = Background(network)
    first, second = network.waiter(), network.waiter()

    async def failing() -> None:
        try:
            await Wait((), network.now() + MOMENT)
        finally:
            first.wake()

    async def job() -> None:
        second.wake()

    background.spawn(failing)
    for thread in threads():
        thread.join(PATIENCE)
    background.spawn(job)
    assert woken(network, second)
    assert woken(network, first), "the job that was under way has been closed"
    for thread in threads():
        thread.join(PATIENCE)
