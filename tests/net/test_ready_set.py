"""Many descriptors under one wait: the same by epoll and without."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from outlast.net.kernel import kernel
from outlast.net.ready_set import FAILED, EpollSet, ReadySet, ready_set
from outlast.net.run import run_sync
from outlast.net.seam import READ, WRITE, Wait
from tests.net.pairs import PATIENCE, pair

KINDS = [EpollSet, ReadySet]


@pytest.fixture(params=KINDS)
def ready(request: pytest.FixtureRequest) -> Iterator[ReadySet[Any]]:
    """Each kind."""
    with contextlib.closing(ready_set(request.param)) as made:
        yield made


def waited(ready: ReadySet[Any], seconds: float = PATIENCE) -> list[tuple[Any, int]]:
    """What is told after a wait by the seam."""
    network = kernel()

    async def wait() -> bool:
        return bool(await Wait(ready.interests, network.now() + seconds))

    return ready.look() if run_sync(network, wait()) else []


def test_the_best_there_is_on_this_platform() -> None:
    with contextlib.closing(ready_set()) as made:
        assert isinstance(made, EpollSet)


def test_what_is_ready_is_told_and_told_again(ready: ReadySet[Any]) -> None:
    with pair() as (near, far):
        ready.set(near.fileno(), "near", READ)
        assert ready.look() == []
        assert waited(ready, 0.0) == []
        far.sendall(b"x")
        assert waited(ready) == [("near", READ)]
        assert waited(ready) == [("near", READ)]
        near.recv(1)
        assert ready.look() == []


def test_an_interest_may_change(ready: ReadySet[Any]) -> None:
    with pair() as (near, far):
        far.sendall(b"x")
        ready.set(near.fileno(), "near", READ)
        assert waited(ready) == [("near", READ)]
        ready.set(near.fileno(), "near", READ | WRITE)
        assert waited(ready) == [("near", READ | WRITE)]
        ready.set(near.fileno(), "near", WRITE)
        ready.set(near.fileno(), "renamed", WRITE)
        assert waited(ready) == [("renamed", WRITE)]
        ready.set(near.fileno(), "near", 0)
        assert waited(ready, 0.0) == []
        ready.remove(near.fileno())
        ready.remove(near.fileno())
        assert ready.look() == []


def test_a_failure_is_told_where_nothing_else_is_of_interest(ready: ReadySet[Any]) -> None:
    with pair() as (near, far):
        ready.set(near.fileno(), "near", 0)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        far.close()
        assert waited(ready) == [("near", FAILED)]


def test_an_end_is_a_thing_to_read(ready: ReadySet[Any]) -> None:
    with pair() as (near, far):
        ready.set(near.fileno(), "near", READ)
        far.shutdown(socket.SHUT_WR)
        assert waited(ready) == [("near", READ)]


def test_a_ring_ends_the_wait_and_is_not_told(ready: ReadySet[Any]) -> None:
    ring = threading.Timer(0.02, ready.ring)
    ring.start()
    began = kernel().now()
    assert waited(ready) == []
    assert kernel().now() - began < PATIENCE
    ring.join()
    assert waited(ready, 0.0) == []


def test_rings_without_end_and_after_the_end(ready: ReadySet[Any]) -> None:
    for _ in range(3000):
        ready.ring()
    assert ready.look() == []
    ready.close()
    ready.ring()
