"""One socket in another's place: number, registrations, and who is not to be touched."""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import threading
from collections.abc import Iterator

import pytest

from outlast.net.place import cookie_of, copy_of, take_place, take_polled_place
from tests.guards import open_sockets
from tests.net.kernel_world import silent_listener
from tests.net.pairs import PATIENCE, at, pair

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets' cookies are Linux's")


@pytest.fixture
def dialling() -> Iterator[socket.socket]:
    """A socket whose SYN has no answer."""
    held = silent_listener()
    with socket.socket() as sock:
        sock.setblocking(False)
        sock.connect_ex(held[0].getsockname())
        yield sock
    for each in held:
        each.close()


@contextlib.contextmanager
def winner() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connected socket, to be given away, and its far side."""
    with pair() as (near, far):
        near.setblocking(False)
        yield near, far


def test_the_number_and_its_flag_stay(dialling: socket.socket) -> None:
    number = dialling.fileno()
    for inheritable in (True, False):
        dialling.set_inheritable(inheritable)
        with winner() as (near, far):
            take_place(near, dialling)
            assert near.fileno() == -1
            assert dialling.fileno() == number
            assert dialling.get_inheritable() is inheritable
            assert dialling.getpeername() == far.getsockname()


def test_who_has_closed_it_meanwhile_is_told(dialling: socket.socket) -> None:
    dialling.close()
    with winner() as (near, far):
        with pytest.raises(OSError, match="Bad file descriptor"):
            take_place(near, dialling)
        assert far.recv(1) == b"", "the winner is closed"


def test_every_socket_has_a_cookie_of_its_own() -> None:
    with pair() as (near, far):
        assert cookie_of(near) != cookie_of(far)
        copy = copy_of(near.fileno(), cookie_of(near))
        assert copy is not None
        with copy:
            assert cookie_of(copy) == cookie_of(near)
        assert copy_of(near.fileno(), cookie_of(far)) is None
        number = near.fileno()
    assert copy_of(number, b"") is None


def test_a_number_that_is_somebody_elses_by_now_is_not_touched(dialling: socket.socket) -> None:
    number, cookie = dialling.fileno(), cookie_of(dialling)
    old = copy_of(number, cookie)
    assert old is not None
    dialling.close()
    with at(number) as other, winner() as (near, far):
        mine = cookie_of(other)
        assert not take_polled_place(near, number, cookie, old)
        assert cookie_of(other) == mine
        assert far.recv(1) == b"", "the winner is closed"


EVENTS = {
    "level": select.EPOLLOUT,
    "edge": select.EPOLLOUT | select.EPOLLET,
    "one shot": select.EPOLLOUT | select.EPOLLONESHOT,
}


@pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)
def test_its_registrations_are_made_anew_in_every_epoll(
    dialling: socket.socket, events: int
) -> None:
    number, cookie = dialling.fileno(), cookie_of(dialling)
    with select.epoll() as first, select.epoll() as second, winner() as (near, _):
        for each in (first, second):
            each.register(number, events)
        assert first.poll(0) == []
        old = copy_of(number, cookie)
        assert old is not None
        assert take_polled_place(near, number, cookie, old)
        for each in (first, second):
            assert each.poll(PATIENCE) == [(number, select.EPOLLOUT)]
            assert bool(each.poll(0)) is (events == select.EPOLLOUT)
            each.modify(number, select.EPOLLIN)
            each.unregister(number)


@pytest.mark.parametrize("call", ["poll", "select"])
def test_whoever_waits_for_the_old_one_is_woken(dialling: socket.socket, call: str) -> None:
    number, cookie = dialling.fileno(), cookie_of(dialling)
    begun, found = threading.Event(), threading.Event()

    def wait() -> None:
        poller = select.poll()
        poller.register(number, select.POLLOUT)
        begun.set()
        woken = select.select([], [number], [], PATIENCE)[1] if call == "select" else None
        if woken or poller.poll(PATIENCE * 1000):
            found.set()

    waiting = threading.Thread(target=wait)
    with winner() as (near, _):
        waiting.start()
        assert begun.wait(PATIENCE)
        assert not found.wait(0.1), "it waits for the old one, which nobody answers"
        old = copy_of(number, cookie)
        assert old is not None
        assert take_polled_place(near, number, cookie, old)
        assert found.wait(PATIENCE / 2)
    waiting.join(PATIENCE)


def test_a_registration_of_another_number_stays_alone(dialling: socket.socket) -> None:
    number, cookie = dialling.fileno(), cookie_of(dialling)
    with select.epoll() as epoll, pair() as (other, _), winner() as (near, far):
        epoll.register(other.fileno(), select.EPOLLIN)
        old = copy_of(number, cookie)
        assert old is not None
        assert take_polled_place(near, number, cookie, old)
        far.sendall(b"!")
        assert epoll.poll(0) == []
        with pytest.raises(FileNotFoundError):
            epoll.modify(number, select.EPOLLIN)


def test_nothing_is_left_open(dialling: socket.socket) -> None:
    number, cookie = dialling.fileno(), cookie_of(dialling)
    with winner() as (near, _):
        before = open_sockets()
        old = copy_of(number, cookie)
        assert old is not None
        assert take_polled_place(near, number, cookie, old)
        assert len(open_sockets()) == len(before) - 1
