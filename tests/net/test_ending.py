"""A connection that is ended from outside: whoever waits on it hears of it, as an error."""

from __future__ import annotations

import select
import socket
import sys
import threading
from collections.abc import Callable

import pytest

from outlast.net.ending import end_at_once
from tests.net.pairs import PATIENCE, fill, pair

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="AF_UNSPEC does it on Linux")


def reads(sock: socket.socket) -> None:
    sock.recv(1)


def polls_and_reads(sock: socket.socket) -> None:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    poll.poll(PATIENCE * 1000)
    sock.recv(1)


def writes(sock: socket.socket) -> None:
    sock.sendall(bytes(1 << 28))


def drain(sock: socket.socket) -> None:
    while sock.recv(1 << 20):
        pass


@LINUX
@pytest.mark.parametrize("work", [reads, polls_and_reads, writes])
@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_whoever_waits_is_told(
    work: Callable[[socket.socket], None], timeout: float | None
) -> None:
    with pair() as (near, far):
        near.settimeout(timeout)
        told: list[BaseException] = []

        def wait() -> None:
            try:
                work(near)
            except OSError as error:
                told.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        end_at_once(near)
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert len(told) == 1
        assert not isinstance(told[0], TimeoutError)
        with pytest.raises(ConnectionResetError):
            drain(far)


def test_the_descriptor_stays_its_owners() -> None:
    with pair() as (near, _):
        number = near.fileno()
        end_at_once(near)
        end_at_once(near)
        assert near.fileno() == number
        with pytest.raises(OSError):
            near.send(b"x")


def test_what_was_not_sent_is_not_waited_for() -> None:
    with pair() as (near, _):
        fill(near)
        end_at_once(near)


def test_on_another_system_it_is_a_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pair() as (near, far):
        end_at_once(near)
        assert far.recv(1) == b""
        far.close()
        near.close()
        end_at_once(near)
