"""TCP_INFO and the send queue: slow server or dead peer, and what it has got (facts 7 and 8)."""

from __future__ import annotations

import pytest

from outlast.testing.simnet.rules import Kernel
from outlast.testing.simnet.sockets import SimSocket
from tests.simnet.scene import NODELAY, Program, Scene, echo, keepalive

REAL = Kernel(wheel=True)
SILENT = 0.3


def waiting(*, dead: bool) -> tuple[Scene, SimSocket]:
    """A request of 1000 bytes has just left."""
    scene = Scene(kernel=REAL)
    sock = scene.connection(NODELAY, *keepalive(1, 1, 9))
    scene.run(SILENT)
    if dead:
        scene.a.black_hole()
    assert sock.tcp_info().bytes_acked == 1
    sock.send(bytes(1000))
    return scene, sock


@pytest.mark.parametrize(
    ("seconds", "heard"),
    [(0.05, 4), (0.25, 204), (0.5, 456), (1, 956), (2, 924), (4, 876)],
)
def test_a_slow_server(seconds: float, heard: int) -> None:
    scene, sock = waiting(dead=False)
    scene.run(seconds)
    info = sock.tcp_info()
    assert (info.unacked, info.backoff, info.probes) == (0, 0, 0)
    assert info.last_ack_recv == pytest.approx(heard, abs=130)


@pytest.mark.parametrize(
    ("seconds", "backoff", "retransmits", "total"),
    [(0.05, 0, 0, 0), (0.25, 0, 0, 1), (0.5, 1, 1, 2), (1, 2, 2, 3), (2, 3, 3, 4), (4, 4, 4, 5)],
)
def test_a_dead_peer(seconds: float, backoff: int, retransmits: int, total: int) -> None:
    scene, sock = waiting(dead=True)
    heard = sock.tcp_info().last_ack_recv
    scene.run(seconds)
    info = sock.tcp_info()
    assert (info.unacked, info.backoff) == (1, backoff)
    assert (info.retransmits, info.total_retrans) == (retransmits, total)
    assert info.last_ack_recv == pytest.approx(heard + seconds * 1000, abs=4)


@pytest.mark.parametrize(("dead", "outq", "acked"), [(False, 0, 1001), (True, 1000, 1)])
def test_what_the_peer_has_got(dead: bool, outq: int, acked: int) -> None:
    scene, sock = waiting(dead=dead)
    scene.run(0.05)
    assert (sock.outq, sock.outq_unsent) == (outq, 0)
    assert (sock.tcp_info().notsent_bytes, sock.tcp_info().bytes_acked) == (0, acked)


def test_counters_are_gone_with_the_connection() -> None:
    scene, sock = waiting(dead=True)
    scene.run(3.0)
    sock.set_user_timeout(4.0)
    scene.end_of(sock, 30.0)
    info = sock.tcp_info()
    assert (info.state, info.unacked, info.backoff, info.retransmits) == (7, 0, 0, 0)
    assert sock.outq == 0


def test_round_trip_and_time_out() -> None:
    scene = Scene(Program(echo), kernel=REAL)
    scene.a.delay(0.005)
    sock = scene.connection(NODELAY)
    for _ in range(20):
        sock.send(b"x")
        scene.run(0.1)
    info = sock.tcp_info()
    assert info.rtt == pytest.approx(5000, rel=0.1)
    assert info.rto == 208_000
