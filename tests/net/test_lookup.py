"""The system's resolver on threads of its own: what the conformance suite cannot see."""

from __future__ import annotations

import errno
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence

import pytest

from outlast.net.address import Address
from outlast.net.kernel_wait import KernelWaiter, wait_in_thread
from outlast.net.lookup import MAX_THREADS, Resolver, system_addresses
from outlast.net.seam import WAKE, Lookup, Wait
from tests.guards import working_threads
from tests.net.conformance_lookup import at
from tests.net.far_side import PATIENCE
from tests.net.kernel_world import KernelWorld

FOUND = [at("10.0.0.1")]


def finished(resolver: Resolver, host: str) -> Lookup:
    """The look-up of `host`, ended."""
    waiter = KernelWaiter()
    lookup = resolver.start(host, 80, waiter)
    until = KernelWorld().network.now() + PATIENCE
    assert wait_in_thread(Wait(((waiter, WAKE),), until))
    return lookup


def raising(error: Exception) -> Callable[[str, int], Sequence[Address]]:
    def resolve(host: str, port: int) -> Sequence[Address]:
        raise error

    return resolve


# --- what is asked ----------------------------------------------------------------------------


def test_the_systems_own_names() -> None:
    found = system_addresses("localhost", 80)
    assert {address.host for address in found} <= {"127.0.0.1", "::1"}
    assert found
    assert {address.port for address in found} == {80}


@pytest.mark.parametrize("host", ["a" * 64 + ".test", ".test", "a..test"])
def test_a_name_that_cannot_exist(host: str) -> None:
    """Python's own codec refuses it with an error that is no OSError."""
    with pytest.raises(socket.gaierror) as failure:
        system_addresses(host, 80)
    assert failure.value.errno == socket.EAI_NONAME


@pytest.mark.parametrize("host", ["nul\0.test", "a" * 64])
def test_whatever_the_resolver_raises_is_told_as_an_error_of_the_look_up(host: str) -> None:
    lookup = finished(Resolver(), host)
    assert isinstance(lookup.error, OSError)
    assert repr(host) in str(lookup.error)


def test_a_failing_resolver_is_named() -> None:
    lookup = finished(Resolver(raising(LookupError("no such thing"))), "db.test")
    assert isinstance(lookup.error, OSError)
    assert "'db.test'" in str(lookup.error)
    assert "no such thing" in str(lookup.error)


def test_ports_of_one_name_are_asked_for_apart() -> None:
    resolver = Resolver(lambda host, port: [at("10.0.0.1", port)])
    waiters = [KernelWaiter(), KernelWaiter()]
    lookups = [resolver.start("db.test", 80 + n, waiter) for n, waiter in enumerate(waiters)]
    for waiter in waiters:
        wait_in_thread(Wait(((waiter, WAKE),)))
    assert [lookup.addresses for lookup in lookups] == [[at("10.0.0.1", 80)], [at("10.0.0.1", 81)]]


# --- threads ----------------------------------------------------------------------------------


def test_a_crowd_of_hung_names_has_a_bound() -> None:
    gate = threading.Event()
    hanging: list[str] = []

    def resolve(host: str, port: int) -> Sequence[Address]:
        hanging.append(host)
        assert gate.wait(PATIENCE)
        return FOUND

    resolver = Resolver(resolve)
    before = working_threads()
    waiters = [KernelWaiter() for _ in range(MAX_THREADS + 5)]
    lookups = [resolver.start(f"{n}.test", 80, waiter) for n, waiter in enumerate(waiters)]
    assert working_threads() - before == MAX_THREADS
    gate.set()
    for waiter in waiters:
        assert wait_in_thread(Wait(((waiter, WAKE),)))
    assert [lookup.addresses for lookup in lookups] == [FOUND] * len(waiters)
    assert len(hanging) == len(waiters)


def test_threads_do_not_keep_the_process_and_end_when_idle() -> None:
    threads: list[threading.Thread] = []

    def resolve(host: str, port: int) -> Sequence[Address]:
        threads.append(threading.current_thread())
        return FOUND

    assert finished(Resolver(resolve), "db.test").addresses == FOUND
    (thread,) = threads
    assert thread.daemon
    assert thread.name == "outlast-lookup"
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_where_no_thread_can_begin_the_look_up_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an OSError, at once; and the next one works again."""
    resolver = Resolver(lambda host, port: FOUND)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        lookup = finished(resolver, "db.test")
    assert isinstance(lookup.error, OSError)
    assert lookup.error.errno == errno.EAGAIN
    assert "db.test" in str(lookup.error)
    assert finished(resolver, "db.test").addresses == FOUND


def test_where_threads_are_few_those_that_run_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def resolve(host: str, port: int) -> Sequence[Address]:
        assert gate.wait(PATIENCE)
        return FOUND

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    resolver = Resolver(resolve)
    waiters = [KernelWaiter(), KernelWaiter()]
    first = resolver.start("first.test", 80, waiters[0])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        second = resolver.start("second.test", 80, waiters[1])
    gate.set()
    for waiter in waiters:
        assert wait_in_thread(Wait(((waiter, WAKE),)))
    assert [first.addresses, second.addresses] == [FOUND, FOUND]


def test_who_stopped_waiting_harms_nobody() -> None:
    """A look-up that was given up joins with one that still waits."""
    gate = threading.Event()

    def resolve(host: str, port: int) -> Sequence[Address]:
        assert gate.wait(PATIENCE)
        return FOUND

    resolver = Resolver(resolve)
    gone, waiter = KernelWaiter(), KernelWaiter()
    resolver.start("db.test", 80, gone)
    assert not wait_in_thread(Wait(((gone, WAKE),), 0.0))
    lookup = resolver.start("db.test", 80, waiter)
    gate.set()
    assert wait_in_thread(Wait(((waiter, WAKE),)))
    assert lookup.addresses == FOUND


class Hung:
    """A resolver that answers nothing until it is let go."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked: list[str] = []
        self.resolver = Resolver(self.resolve)
        self.waiting: list[tuple[weakref.ref[Lookup], KernelWaiter]] = []
        self.lookups = [self.start(f"hung{number}.test") for number in range(MAX_THREADS)]

    def resolve(self, host: str, port: int) -> Sequence[Address]:
        self.asked.append(host)
        assert self.gate.wait(PATIENCE)
        return FOUND

    def start(self, host: str) -> Lookup:
        waiter = KernelWaiter()
        lookup = self.resolver.start(host, 80, waiter)
        self.waiting.append((weakref.ref(lookup), waiter))
        return lookup

    def let_go(self) -> None:
        """Everything that is still wanted is answered."""
        self.gate.set()
        for lookup, waiter in self.waiting:
            if lookup() is not None:
                until = time.monotonic() + PATIENCE
                assert wait_in_thread(Wait(((waiter, WAKE),), until))
        assert finished(self.resolver, "last.test").addresses == FOUND


def test_names_that_nobody_waits_for_any_more_are_not_asked_for() -> None:
    """All threads hang; callers come, give up and leave. Their names hold up nobody, and the
    queue does not grow with them."""
    hung = Hung()
    kept = [hung.start(f"kept{number}.test") for number in range(3)]
    for number in range(2000):
        hung.start(f"left{number}.test")
    assert len(hung.resolver._queue) < 200
    assert len(hung.resolver._jobs) < 200 + MAX_THREADS
    hung.let_go()
    assert [lookup.addresses for lookup in kept] == [FOUND] * 3
    assert sum(host.startswith("left") for host in hung.asked) < 200


def test_callers_that_gave_up_on_one_hung_name_are_forgotten() -> None:
    hung = Hung()
    kept = hung.start("hung0.test")
    for _ in range(2000):
        hung.start("hung0.test")
    assert len(hung.resolver._jobs["hung0.test", 80].waiting) < 200
    hung.let_go()
    assert kept.addresses == hung.lookups[0].addresses == FOUND
