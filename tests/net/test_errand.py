"""Blocking calls on threads of their own."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from outlast.net.errand import MAX_THREADS, Errand, start_errand
from outlast.net.kernel import kernel
from outlast.net.options import LocalRefusal
from outlast.net.run import run_async, run_sync
from tests.net.drivers import run_in_loop
from tests.net.far_side import PATIENCE


def test_what_a_call_returns_comes_back() -> None:
    errand = start_errand(kernel(), threading.get_ident)
    assert run_sync(kernel(), errand.result()) != threading.get_ident()
    assert errand.done


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_does_in_a_loop_too(backend: str) -> None:
    async def main() -> int:
        return await run_async(kernel(), start_errand(kernel(), lambda: 7).result())

    assert run_in_loop(backend, main) == 7


def test_what_a_call_raises_comes_back() -> None:
    def call() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        run_sync(kernel(), start_errand(kernel(), call).result())


def test_a_call_cannot_end_the_program() -> None:
    def call() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="cannot end the program: 3"):
        run_sync(kernel(), start_errand(kernel(), call).result())


def test_threads_are_daemons_and_go_with_their_call() -> None:
    found: list[threading.Thread] = []
    errand = start_errand(kernel(), lambda: found.append(threading.current_thread()))
    run_sync(kernel(), errand.result())
    (thread,) = found
    assert thread.daemon
    assert thread.name == "outlast-errand"
    thread.join(PATIENCE)
    assert not thread.is_alive()


def hold(gate: threading.Event) -> list[Errand[bool]]:
    """As many calls as there may be, none of which returns before the gate is open."""
    return [start_errand(kernel(), lambda: gate.wait(PATIENCE)) for _ in range(MAX_THREADS)]


def test_one_more_than_may_be_is_refused_as_this_machines_own_shortage() -> None:
    gate = threading.Event()
    errands = hold(gate)
    try:
        with pytest.raises(LocalRefusal, match="all 32 threads for blocking calls") as caught:
            start_errand(kernel(), bool)
        assert caught.value.errno == errno.EAGAIN
    finally:
        gate.set()
    assert all(run_sync(kernel(), errand.result()) for errand in errands)
    assert run_sync(kernel(), start_errand(kernel(), bool).result()) is False


def test_a_system_without_threads_refuses_and_gives_the_place_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        for _ in range(MAX_THREADS + 1):
            with pytest.raises(LocalRefusal, match="can't start new thread"):
                start_errand(kernel(), bool)
    assert run_sync(kernel(), start_errand(kernel(), bool).result()) is False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks with threads, since 3.12
def test_the_child_of_a_fork_has_all_its_places() -> None:
    gate = threading.Event()
    errands = hold(gate)
    number = os.fork()
    if number == 0:
        code = 1
        try:
            code = int(run_sync(kernel(), start_errand(kernel(), bool).result()))
        finally:
            os._exit(code)
    gate.set()
    assert os.waitpid(number, 0)[1] == 0
    assert all(run_sync(kernel(), errand.result()) for errand in errands)
