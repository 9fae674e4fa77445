"""What wakes a poll: of each kind, and that a wait gives back what it has borrowed."""

from __future__ import annotations

import errno
import gc
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outlast.net import bell as bells
from outlast.net import kernel_wait
from outlast.net.bell import Bell, EventBell, PairBell, borrowed, give_back
from outlast.net.kernel_wait import KernelWaiter, wait_in_thread
from outlast.net.seam import READ, WAKE, Wait
from tests.net.far_side import MOMENT, PATIENCE

KINDS = [
    pytest.param(EventBell, marks=pytest.mark.skipif(not hasattr(os, "eventfd"), reason="none")),
    PairBell,
]


@pytest.fixture(autouse=True)
def none_kept() -> Iterator[None]:
    """Each test begins and ends with none at rest."""
    bells._kept.clear()
    yield
    bells._kept.clear()


def rung(bell: Bell, seconds: float = 0.0) -> bool:
    return bool(select.select([bell], [], [], seconds)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_it_rings_until_it_is_hushed(kind: Callable[[], Bell]) -> None:
    bell = kind()
    assert not rung(bell)
    for _ in range(10_000):  # more than a pair takes
        bell.ring()
    assert rung(bell)
    bell.hush()
    while rung(bell):
        bell.hush()
    bell.hush()
    bell.ring()
    assert rung(bell)


@pytest.mark.parametrize("kind", KINDS)
def test_another_thread_wakes_the_poll(kind: Callable[[], Bell]) -> None:
    bell = kind()
    ringer = threading.Thread(target=bell.ring)
    ringer.start()
    assert rung(bell, PATIENCE)
    ringer.join(PATIENCE)


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_is_about_to_ring_keeps_it_open(kind: Callable[[], Bell]) -> None:
    """Closed and given to a new connection meanwhile, it would carry a stray byte to a stranger."""
    bell: Bell | None = kind()
    assert bell is not None
    ring, number = bell.ring, bell.fileno()
    bell = None
    gc.collect()
    ring()
    os.fstat(number)
    del ring
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("kind", KINDS)
def test_a_child_does_not_take_what_rang_for_its_parent(kind: Callable[[], Bell]) -> None:
    bell = kind()
    bell.ring()
    child = os.fork()
    if not child:
        bell.hush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert rung(bell)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_has_bells_of_its_own() -> None:
    give_back(borrowed())
    child = os.fork()
    if not child:
        os._exit(len(bells._kept))
    assert os.waitpid(child, 0)[1] == 0
    assert len(bells._kept) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("kind", KINDS)
def test_a_child_does_not_keep_its_parents(kind: Callable[[], Bell]) -> None:
    """A signal's handler may fork in the middle of a wait, which then ends in the child too: with
    a bell between them each would take the other's rings."""
    bell = kind()
    child = os.fork()
    if not child:
        give_back(bell)
        os._exit(len(bells._kept))
    assert os.waitpid(child, 0)[1] == 0


def test_so_many_are_kept_and_no_more() -> None:
    several = [borrowed() for _ in range(bells.KEPT + 3)]
    assert len({bell.fileno() for bell in several}) == len(several)
    for bell in several:
        give_back(bell)
    assert bells._kept == several[: bells.KEPT]


@pytest.mark.parametrize("how", ["missing", "forbidden"])
def test_without_eventfd_it_is_a_pair(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> int:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    if how == "missing":
        monkeypatch.delattr(os, "eventfd", raising=False)
    else:
        monkeypatch.setattr(os, "eventfd", forbidden, raising=False)
    assert isinstance(borrowed(), PairBell)


def wait(waiter: KernelWaiter, *, until: float) -> list[object]:
    """For a connection that stays silent, and for the waiter."""
    near, far = socket.socketpair()
    with near, far:
        interests: Any = [(near, READ), (waiter, WAKE)]
        return list(wait_in_thread(Wait(interests, until)))


class Late(KernelWaiter):
    """Is woken as soon as a wait has armed it, not before, when nothing would be waited for."""

    def arm(self, notify: Callable[[], None] | None) -> bool:
        armed = super().arm(notify)
        if notify is not None:
            self.wake()
        return armed


def test_a_wait_borrows_the_same_one_again() -> None:
    kept: list[Bell] = []
    for _ in range(2):
        waiter = Late()
        assert wait(waiter, until=time.monotonic() + PATIENCE) == [waiter]
        kept += bells._kept
    first, second = kept
    assert first is second
    assert not wait(KernelWaiter(), until=time.monotonic() + MOMENT)
    assert bells._kept == [first]  # one whose time is over gives it back, too


def test_a_ring_for_the_wait_before_wakes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes late. The next wait goes on until its own time, and does not turn in a circle."""
    poll, polls = kernel_wait._poll, 0

    def counted(interests: Any, timeout: float) -> Any:
        nonlocal polls
        polls += 1
        return poll(interests, timeout)

    monkeypatch.setattr(kernel_wait, "_poll", counted)
    late = borrowed()
    late.ring()
    give_back(late)
    until = time.monotonic() + MOMENT
    assert not wait(KernelWaiter(), until=until)
    assert time.monotonic() >= until
    assert not rung(late)
    assert polls <= 4  # the one that is woken, the rest of the time, and what timers round away
