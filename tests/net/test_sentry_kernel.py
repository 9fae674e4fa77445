"""`outlast.watch` on the kernel's sockets."""

from __future__ import annotations

import socket
import sys
import threading

import pytest

import outlast
from outlast import Liveness, Watched
from outlast.net.held import HeldSocket
from outlast.net.kernel import KernelNetwork
from outlast.net.sentry import Sentry
from tests.net.pairs import PATIENCE, fill, keepalive, pair, user_timeout

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO and option numbers")


def test_any_socket_can_be_watched_and_nothing_of_it_changes() -> None:
    with pair() as (near, far):
        before = keepalive(near), user_timeout(near)
        watched = outlast.watch(near)
        assert isinstance(watched, Watched)
        assert watched.verdict is Liveness.ALIVE
        assert watched.why == ""
        host, port = near.getpeername()
        assert watched.address == f"{host}:{port}"
        assert repr(watched) == f"<Watched {host}:{port}: alive>"
        assert (keepalive(near), user_timeout(near)) == before
        assert outlast.watch(near) is watched
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        far.close()
        assert watched.check() is Liveness.DEAD
        assert watched.why == "the connection has ended"
        watched.stop()


def test_a_user_timeout_of_the_watchs_own() -> None:
    with pair() as (near, _):
        watched = outlast.watch(near, user_timeout=2.5)
        assert user_timeout(near) == 2500
        fill(near)
        until = threading.Event()
        for _ in range(1000):
            watched.check()
            if user_timeout(near) == 0:
                break
            until.wait(0.005)
        assert user_timeout(near) == 0, "lifted: the peer lives and does not read"
        watched.stop()


@pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan")])
def test_a_user_timeout_that_is_none(value: float) -> None:
    with pair() as (near, _), pytest.raises(ValueError, match="user_timeout: "):
        outlast.watch(near, user_timeout=value)


def test_what_cannot_be_watched() -> None:
    with pytest.raises(ValueError, match="has no socket"):
        outlast.watch("a name")  # type: ignore[arg-type]  # that is the test
    with pair() as (near, _):
        near.close()
        with pytest.raises(OSError):
            outlast.watch(near)


def test_a_descriptor_can_be_watched() -> None:
    with pair() as (near, _):
        watched = outlast.watch(near.fileno())
        assert watched.verdict is Liveness.ALIVE
        near.close()
        watched.check()
        assert watched.over


def test_one_thread_watches_and_ends_by_itself() -> None:
    network = KernelNetwork()
    watching = Sentry(network)
    before = set(threading.enumerate())
    with pair() as (near, _), pair() as (other, _):
        held = [HeldSocket(near), HeldSocket(other)]
        watched = [watching.take(network, each, 0.0) for each in held]
        (thread,) = set(threading.enumerate()) - before
        assert (thread.name, thread.daemon) == ("outlast-background", True)
        for each in watched:
            each.set(awaiting=True)  # so that somebody looks at once
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert all(each.over for each in watched)
