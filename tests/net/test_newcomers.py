"""Sockets of a program that are watched soon after they have connected."""

from __future__ import annotations

import dataclasses
import socket
import sys

import pytest

from outlast.core.liveness import Sample
from outlast.net import newcomers as module
from outlast.net.held import HeldSocket
from outlast.net.newcomers import Newcomers
from outlast.net.options import Keepalive, SocketPlan, apply
from outlast.net.place import cookie_of
from outlast.net.pooled import PooledSocket
from outlast.net.sentry import watch
from outlast.net.untouched import keep_alive
from tests.net.pairs import at, fill, keepalive, pair, user_timeout

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets' cookies are Linux's")

TCP = socket.IPPROTO_TCP
RTO_MAX = 44  # linux/tcp.h


def rto_max(sock: socket.socket) -> int | None:
    """What stands, in milliseconds; None on a kernel without it."""
    try:
        return sock.getsockopt(TCP, RTO_MAX)
    except OSError:
        return None


def come(sock: socket.socket, *, user_timeout: float = 11.0, rto_max: float = 2.0) -> Newcomers:
    """Somebody has connected, and nobody looks by himself."""
    made = Newcomers()
    made._running = True
    made.add(sock.fileno(), cookie_of(sock), user_timeout, rto_max)
    return made


def test_whoever_is_there_at_the_next_look_is_watched() -> None:
    with pair() as (near, _):
        known = come(near)
        assert user_timeout(near) == 0
        assert known.look() == 1
        assert user_timeout(near) == 11_000
        assert rto_max(near) in (2000, None)
        assert watch(near) is watch(near.fileno()), "it is the same watch"
        watch(near).stop()
        assert known.look() == 0


def test_whoever_is_gone_is_forgotten_and_the_next_of_its_number_left_alone() -> None:
    with pair() as (near, _):
        known, number = come(near), near.fileno()
    with at(number) as other:
        assert known.look() == 1
        assert user_timeout(other) == 0


def test_what_the_program_has_set_stays() -> None:
    with pair() as (near, _):
        near.setsockopt(TCP, socket.TCP_USER_TIMEOUT, 4321)
        if rto_max(near) is not None:
            near.setsockopt(TCP, RTO_MAX, 5000)
        come(near).look()
        assert user_timeout(near) == 4321
        assert rto_max(near) in (5000, None)
        watch(near).stop()


def test_unwatched_by_policy() -> None:
    with pair() as (near, _):
        come(near, user_timeout=0.0).look()
        assert user_timeout(near) == 0
        assert rto_max(near) in (2000, None)


def test_somebody_looks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.01)
    monkeypatch.setattr(module, "STAYS", 1)
    made = Newcomers()
    with pair() as (near, _):
        made.add(near.fileno(), cookie_of(near), 11.0, 0.0)
        for _ in range(1000):
            if user_timeout(near):
                break
            near.settimeout(0.01)
            with pytest.raises(TimeoutError):
                near.recv(1)
        assert user_timeout(near) == 11_000
        watch(near).stop()


# --- silence that counts ----------------------------------------------------------------------

QUIET = Sample(unacked=0, acked=0, window=1000, rtt=0.001, backoff=0, heard=4.0, sent=4.0)


def pooled(sock: socket.socket) -> PooledSocket:
    made = PooledSocket(sock.fileno())
    made.limit(11.0)
    return made


@pytest.mark.parametrize(
    ("sample", "stands"),
    [
        (QUIET, 11.0),
        (dataclasses.replace(QUIET, unacked=1, backoff=2, heard=5.0, sent=0.4), 7.0),
        (dataclasses.replace(QUIET, unacked=1, heard=20.0, sent=0.0), 3.0),
        (dataclasses.replace(QUIET, unacked=1, heard=0.3, sent=0.1, backoff=1), 11.0),
        (dataclasses.replace(QUIET, unacked=1, heard=5.0, sent=0.4, window=0), 11.0),
    ],
)
def test_silence_before_the_data_counts_too(sample: Sample, stands: float) -> None:
    with pair() as (near, _):
        keep_alive(near, Keepalive())
        held = pooled(near)
        held._seen = sample
        held.limit(11.0)
        assert user_timeout(near) == pytest.approx(stands * 1000, abs=1)
        held._seen = dataclasses.replace(sample, unacked=0)
        held.limit(11.0)
        assert user_timeout(near) == 11_000
        held.limit(0.0)
        assert user_timeout(near) == 0


def test_less_where_the_programs_own_keepalive_is_slower() -> None:
    with pair() as (near, _):
        keep_alive(near, Keepalive(30, 5, 3))
        held = pooled(near)
        held._seen = dataclasses.replace(QUIET, unacked=1, heard=20.0, sent=0.0)
        held.limit(11.0)
        assert user_timeout(near) == 6000
        held.limit(0.0)


def test_not_without_keepalive_which_is_what_a_living_peer_answers() -> None:
    with pair() as (near, _):
        held = pooled(near)
        held._seen = dataclasses.replace(QUIET, unacked=1, sent=0.1, heard=5.0)
        held.limit(11.0)
        assert user_timeout(near) == 11_000
        held.limit(0.0)


def test_a_closed_window_lifts_it() -> None:
    with pair() as (near, _):
        keep_alive(near, Keepalive())
        held = pooled(near)
        fill(near)
        assert held.state() is not None
        held.limit(0.0)
        assert user_timeout(near) == 0


# --- keepalive --------------------------------------------------------------------------------


def test_keepalive_on_a_socket_of_which_nothing_was_set() -> None:
    with socket.socket() as sock:
        assert keep_alive(sock, Keepalive(7, 2, 4))
        assert keepalive(sock) == (1, 7, 2, 4)
        assert not keep_alive(sock, Keepalive()), "now somebody has set some"
        assert keepalive(sock) == (1, 7, 2, 4)


@pytest.mark.parametrize("plan", [SocketPlan(keepalive=Keepalive(9, 9, 9))])
def test_keepalive_of_the_programs_own_stays(plan: SocketPlan) -> None:
    with socket.socket() as sock:
        apply(sock, plan)
        assert not keep_alive(sock, Keepalive())
        assert keepalive(sock) == (1, 9, 9, 9)


def test_a_closed_socket_has_none() -> None:
    sock = socket.socket()
    sock.close()
    assert not keep_alive(sock, Keepalive())


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs sockets of both families")
def test_a_socket_of_both_families_is_known_by_its_peers_own_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_INET6) as sock:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        port = server.getsockname()[1]
        sock.connect(("::ffff:127.0.0.1", port))
        assert HeldSocket(sock).address == f"127.0.0.1:{port}"
