"""Idle connections: keepalive with and without user timeout, and probes on demand (facts 6)."""

from __future__ import annotations

import errno
import time

import pytest

from outlast.testing.simnet.host import Option
from outlast.testing.simnet.rules import Kernel
from outlast.testing.simnet.sockets import SimSocket
from outlast.testing.simnet.states import CLOSED, ESTABLISHED
from tests.simnet.scene import (
    NODELAY,
    SOCKET,
    TCP,
    Program,
    Scene,
    about,
    echo,
    keepalive,
    user_timeout,
)

REAL = Kernel(wheel=True)
SILENT = 0.3  # seconds between the last packet and the cut


def dies(
    kernel: Kernel, keep: tuple[int, int, int] | None, limit: int, *, unacked: bool
) -> float | None:
    """Seconds from the last packet (or the write) to the end; None if there is none in 120 s."""
    scene = Scene(kernel=kernel)
    options: list[Option] = keepalive(*keep) if keep else []
    if limit:
        options.append(user_timeout(limit))
    sock = scene.connection(NODELAY, *options)
    sock.send(b"request")
    scene.run(SILENT)
    scene.a.black_hole()
    if unacked:
        sock.send(b"x")
    code, took = scene.end_of(sock, 120.0)
    if took is None:
        return None
    assert code == errno.ETIMEDOUT
    return took if unacked else took + SILENT


@pytest.mark.parametrize(
    ("keep", "limit", "unacked", "predicted", "measured"),
    [
        ((2, 1, 3), 0, False, 5, 5.0),
        ((2, 1, 3), 10000, False, 10, 10.2),
        ((2, 1, 9), 3000, False, 3, 3.0),
        ((1, 1, 3), 0, False, 4, 4.1),
        ((1, 1, 3), 2500, False, 3, 3.0),
        (None, 3000, False, None, None),
        ((2, 1, 3), 0, True, None, None),
        ((2, 1, 3), 6000, True, 6.4, 6.48),
        ((1, 1, 5), 0, False, 6, 5.8),
    ],
)
def test_keepalive_and_user_timeout(
    keep: tuple[int, int, int] | None,
    limit: int,
    unacked: bool,
    predicted: float | None,
    measured: float | None,
) -> None:
    nominal = dies(Kernel(), keep, limit, unacked=unacked)
    real = dies(REAL, keep, limit, unacked=unacked)
    if predicted is None:
        assert nominal is None
        assert real is None
    else:
        assert nominal == about(predicted, 0.01)
        assert real == about(measured, 0.4)


@pytest.mark.parametrize("peer", ["alive", "rebooted", "dead"])
def test_a_probe_on_demand(peer: str) -> None:
    scene = Scene(Program(echo), kernel=REAL)
    sock = scene.connection(NODELAY)
    scene.run(3.0)
    if peer == "rebooted":
        scene.a.power_off()
        scene.a.power_on()
    elif peer == "dead":
        scene.a.black_hole()
    for option in ((SOCKET, 9, 1), (TCP, 6, 3), (TCP, 5, 1), (TCP, 4, 1)):
        sock.setsockopt(*option)
    scene.run(0.002)
    assert sock.tcp_info().probes == 0, "the probe leaves at the next tick"
    scene.run(0.010)
    info = sock.tcp_info()
    if peer == "alive":
        assert (info.state, info.probes) == (ESTABLISHED, 0)
        assert info.last_ack_recv <= 12
    elif peer == "rebooted":
        assert (info.state, info.probes, sock.error) == (CLOSED, 1, errno.ECONNRESET)
    else:
        assert (info.state, info.probes) == (ESTABLISHED, 1)
        assert info.last_ack_recv > 4000
        scene.run(1.2)
        assert sock.tcp_info().probes == 2
        assert scene.end_of(sock, 10.0) == (errno.ETIMEDOUT, about(1.9, 0.2))


def test_a_silence_shorter_than_the_idle_time_is_waited_for() -> None:
    scene = Scene(Program(echo), kernel=REAL)
    sock = scene.connection(NODELAY)
    sock.send(b"x")
    scene.run(0.3)
    sock.setsockopt(SOCKET, 9, 1)
    sock.setsockopt(TCP, 4, 1)
    heard = sock.tcp_info().last_ack_recv
    assert scene.when(lambda: sock.tcp_info().last_ack_recv < heard, 5.0) == about(0.7, 0.04)


# -- loss --------------------------------------------------------------------------------------

REQUESTS = 80


@pytest.mark.parametrize(
    ("loss", "keep", "suspect", "suspects", "killed"),
    [
        (0.05, (5, 2, 3), 2, 8, 1),
        (0.30, (5, 2, 3), 2, 77, 53),
        (0.05, (5, 1, 6), 3, 0, 0),
        (0.30, (5, 1, 6), 3, 56, 10),
        (0.05, (1, 1, 6), 3, 4, 0),
        (0.30, (1, 1, 6), 3, 79, 2),
    ],
)
def test_live_peers_behind_a_lossy_link(
    loss: float, keep: tuple[int, int, int], suspect: int, suspects: int, killed: int
) -> None:
    """Acknowledged requests that wait a minute; the counts are those of one run on the kernel."""
    scene = Scene(kernel=REAL)
    options = [NODELAY, *keepalive(*keep), user_timeout(11_000)]
    socks = [scene.dial(*options, label=f"c{number}") for number in range(REQUESTS)]
    scene.run(1.0)
    for sock in socks:
        sock.send(b"request")
    scene.run(0.2)
    scene.a.lose(loss)
    scene.run(0.0015)  # off the kernel's ticks, so that no probe is seen before its answer
    doubted = set()
    for _ in range(300):
        scene.run(0.2)
        doubted |= {sock for sock in socks if sock.state == ESTABLISHED and doubtful(sock, suspect)}
    assert len(doubted) == pytest.approx(suspects, abs=13)
    assert sum(sock.state == CLOSED for sock in socks) == pytest.approx(killed, abs=13)


def doubtful(sock: SimSocket, suspect: int) -> bool:
    info = sock.tcp_info()
    return info.probes >= suspect and not info.unacked


# -- rest --------------------------------------------------------------------------------------


def resting(seconds: float = 100.0) -> Scene:
    """A world with one idle connection that is kept alive."""
    scene = Scene(Program(echo))
    scene.connection(NODELAY, *keepalive(5, 1, 6))
    scene.run(seconds)
    return scene


def test_an_idle_connection_rests() -> None:
    scene = resting()
    assert len(scene.world.fabric.resting) == 1
    assert scene.client.neighbours.state(scene.pod.host) == "REACHABLE"
    assert scene.a.kernel.neighbours.state(scene.client.address) == "REACHABLE"


def test_where_both_ends_probe_nobody_rests() -> None:
    scene = Scene(Program(echo))
    scene.connection(NODELAY, *keepalive(5, 1, 6))
    for option in keepalive(7, 1, 6):
        scene.program.accepted[0].setsockopt(*option)
    for _ in range(100):
        scene.run(1.0)
        assert not scene.world.fabric.resting


@pytest.mark.parametrize("at", [0.0, 0.00005, 0.5, 1.5, 4.9999, 5.00005, 7.3])
@pytest.mark.parametrize("fault", ["power_off", "black_hole", "unplug"])
def test_a_rest_ends_as_if_it_had_never_been(fault: str, at: float) -> None:
    """The same with rests and without: a tap that sees every packet forbids resting."""
    ends = []
    for watched in (False, True):
        scene = Scene(Program(echo))
        sock = scene.connection(NODELAY, *keepalive(5, 1, 6))
        if watched:
            scene.world.fabric.taps.append(lambda _: None)
        scene.run(100.0)
        assert bool(scene.world.fabric.resting) is not watched
        scene.run(at)
        getattr(scene.a, fault)()
        code, took = scene.end_of(sock, 30.0)
        assert code == errno.ETIMEDOUT
        ends.append(took)
    assert ends[0] == about(ends[1], 0.001)


@pytest.mark.parametrize("at", [0.0, 1.0, 4.9, 12.34])
def test_what_is_heard_at_rest_is_what_is_heard_awake(at: float) -> None:
    seen = []
    for watched in (False, True):
        scene = Scene(Program(echo))
        sock = scene.connection(NODELAY, *keepalive(5, 1, 6))
        if watched:
            scene.world.fabric.taps.append(lambda _: None)
        scene.run(100.0 + at)
        peer = scene.program.accepted[0]
        infos = (sock.tcp_info(), peer.tcp_info())
        seen += [(one.last_ack_recv, one.segs_in, one.segs_out) for one in infos]
        sock.send(b"still there?")
        scene.run(0.01)
        assert sock.recv(100) == b"still there?"
        scene.run(100.0)
        assert len(scene.world.fabric.resting) == (not watched)
    assert seen[:2] == seen[2:]
    assert min(seen[0]) > 20


def test_a_peer_that_speaks_wakes_it() -> None:
    scene = resting()
    peer = scene.program.accepted[0]
    peer.send(b"news")
    assert not scene.world.fabric.resting
    scene.run(0.01)
    peer.close()
    scene.run(100.0)
    assert not scene.world.fabric.resting


def test_an_idle_hour_with_ten_connections_is_cheap() -> None:
    scene = Scene(Program(echo))
    nodes = [scene.a, scene.world.node("b")]
    pods = [scene.pod, nodes[1].place(Program(echo))]
    service = scene.world.service("orders.shop.svc:80", pods)
    for number in range(10):
        scene.client.connect(
            (service.host, service.port), keepalive(5, 1, 6), label=f"worker {number}"
        )
    scene.run(60.0)
    start = time.process_time()
    scene.run(3600.0)
    assert time.process_time() - start < 0.05
    assert len(scene.world.fabric.resting) == 10
