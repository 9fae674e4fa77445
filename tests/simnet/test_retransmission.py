"""Data in flight to a dead host, and to a live one that does not read (linux-tcp facts 5)."""

from __future__ import annotations

import dataclasses
import errno

import pytest

from outlast.testing.simnet.flight import Flight, mark_lost
from outlast.testing.simnet.host import Option
from outlast.testing.simnet.packet import ACK, SYN
from outlast.testing.simnet.rules import Kernel
from outlast.testing.simnet.sockets import SimSocket
from outlast.testing.simnet.states import ESTABLISHED
from tests.simnet.scene import NODELAY, TCP, Program, Scene, about, user_timeout

REAL = Kernel(wheel=True)


def dead(*options: Option, kernel: Kernel = REAL) -> tuple[Scene, SimSocket]:
    """A connection with 100 bytes in flight into a black hole."""
    scene = Scene(kernel=kernel)
    sock = scene.connection(NODELAY, *options)
    scene.a.black_hole()
    sock.send(b"x" * 100)
    return scene, sock


@pytest.mark.parametrize("wheel", [False, True])
def test_the_schedule(wheel: bool) -> None:
    scene, sock = dead(kernel=Kernel(wheel=wheel))
    start = scene.now
    changes: list[tuple[float, int, int, int]] = []
    while len(changes) < 9:
        scene.timeline.run_next()
        info = sock.tcp_info()
        state = (info.backoff, info.rto // 1000, info.total_retrans)
        if not changes or changes[-1][1:] != state:
            changes.append((scene.now - start, *state))
    assert [row[1:] for row in changes] == [
        (0, 204, 0),
        (0, 204, 1),
        (1, 408, 2),
        (2, 816, 3),
        (3, 1632, 4),
        (4, 3264, 5),
        (5, 6528, 6),
        (6, 13056, 7),
        (7, 26112, 8),
    ]
    measured = [0.21, 0.416, 0.856, 1.69, 3.35, 6.6, 13, 26]
    tolerances = [0.02, 0.02, 0.05, 0.07, 0.1, 0.2, 0.4, 0.8]
    for (at, *_), expected, tolerance in zip(changes[1:], measured, tolerances, strict=True):
        assert at == about(expected, tolerance)


@pytest.mark.parametrize(
    ("option", "retries2", "nominal", "measured"),
    [
        (user_timeout(5000), 15, 5.404, 5.64),
        (user_timeout(6000), 15, 6.404, 6.48),
        (None, 15, 928.9, None),
        (None, 5, 13.05, 13.35),
        (None, 8, 104.44, 107.4),
        ((TCP, 44, 1000), 15, 15.63, 14.98),
        ((TCP, 44, 2000), 15, 29.26, 27.52),
    ],
)
def test_when_it_dies(
    option: Option | None, retries2: int, nominal: float, measured: float | None
) -> None:
    options = () if option is None else (option,)
    scene, sock = dead(*options, kernel=Kernel(retries2=retries2))
    assert scene.end_of(sock, 1000.0) == (errno.ETIMEDOUT, about(nominal, 0.01))
    if measured is not None:
        scene, sock = dead(*options, kernel=dataclasses.replace(REAL, retries2=retries2))
        tolerance = max(0.1, measured * 0.005)
        assert scene.end_of(sock, 200.0) == (
            errno.ETIMEDOUT,
            about(measured, tolerance),
        )


def test_a_cap_of_one_second_sends_every_second() -> None:
    scene, sock = dead((TCP, 44, 1000))
    start = scene.now
    seen: list[tuple[int, int]] = []
    for second in (1, 3, 5, 7, 9, 11):
        scene.run(start + second - scene.now)
        seen.append((sock.tcp_info().total_retrans, sock.tcp_info().rto // 1000))
    assert [count for count, _ in seen] == [3, 5, 7, 9, 11, 13]
    assert [rto for _, rto in seen[1:]] == [1000] * 5


def test_one_tail_probe_until_something_is_acknowledged() -> None:
    scene, sock = dead(kernel=Kernel())
    scene.run(0.25)
    sock.send(b"more")
    scene.run(0.3)
    info = sock.tcp_info()
    assert (info.total_retrans, info.retransmits, info.unacked) == (2, 1, 2)


def test_a_small_write_waits_for_the_one_before() -> None:
    """Nagle, unless TCP_NODELAY says no."""
    for options, waits in (((), True), ((NODELAY,), False)):
        scene = Scene()
        sock = scene.connection(*options)
        sock.send(b"one")
        sock.send(b"two")
        assert bool(sock.outq_unsent) == waits
        scene.run(0.1)
        assert scene.program.heard[0] == b"onetwo"


def test_a_round_trip_is_measured_though_the_first_syn_was_lost() -> None:
    scene = Scene()
    scene.world.when(lambda segment: segment.flags == SYN).at_segment(1, scene.a.black_hole)
    sock = scene.dial()
    scene.run(0.5)
    scene.a.heal()
    scene.run(2.0)
    assert sock.tcp_info().rtt == 100
    assert sock.tcp_info().rto == 204_000


@pytest.mark.parametrize(
    ("sent", "sacks", "tolerance", "lost"),
    [
        ([0, 0, 0, 0], [(20, 30)], 5, [False, False, False, False]),
        ([0, 0, 9, 9], [(20, 30)], 5, [True, True, False, False]),
        ([0, 5, 9, 9], [(20, 30)], 5, [True, False, False, False]),
        ([0, 0, 0, 0], [(10, 40)], 5, [True, False, False, False]),
        ([0, 0, 0, 0], [(10, 30)], 5, [False, False, False, False]),
        ([9, 9, 0, 0], [(20, 30)], 5, [False, False, False, False]),
    ],
)
def test_what_is_lost_by_the_look_of_it(
    sent: list[int], sacks: list[tuple[int, int]], tolerance: int, lost: list[bool]
) -> None:
    flight = [Flight(10 * n, bytes(10), ACK, when) for n, when in enumerate(sent)]
    mark_lost(flight, sacks, tolerance)
    assert [one.lost for one in flight] == lost
    assert [one.sacked for one in flight] == [
        any(low <= one.seq and one.end <= high for low, high in sacks) for one in flight
    ]


def test_a_window_too_small_for_a_packet_is_used_in_the_end() -> None:
    program = Program()
    scene = Scene(program, kernel=Kernel(receive_buffer=20_000))
    sock = scene.connection(NODELAY)
    program.reads = False
    sock.send(bytes(19_900))
    scene.run(0.01)
    assert sock.tcp_info().snd_wnd == 100
    sock.send(bytes(5_000))
    assert sock.outq_unsent == 5_000
    assert scene.when(lambda: sock.outq_unsent < 5_000, 1.0) == about(0.204, 0.001)
    assert sock.outq_unsent == 4_900


def test_a_full_buffer_is_writable_when_a_third_is_free() -> None:
    program = Program()
    scene = Scene(program, kernel=Kernel(send_buffer=90_000, receive_buffer=60_000))
    sock = scene.connection(NODELAY)
    program.reads = False
    while sock.send(bytes(10_000)):
        scene.run(0.001)
    assert (sock.outq, sock.writable()) == (90_000, False)
    peer = program.accepted[0]
    for left, writable in ((65_000, False), (55_000, True)):
        while sock.outq > left:
            assert peer.recv(5_000)
            scene.run(0.5)
        assert sock.writable() == writable
    free = 90_000 - sock.outq
    assert sock.send(bytes(100_000)) == free


def stuffed(*options: Option) -> tuple[Scene, SimSocket]:
    """A connection whose reader has stopped, and whose buffers are full."""
    program = Program()
    scene = Scene(program, kernel=REAL)
    sock = scene.connection(NODELAY, *options)
    program.reads = False
    while sock.send(bytes(65536)):
        scene.run(0.001)
    return scene, sock


def test_a_closed_window_is_probed_for_ever() -> None:
    scene, sock = stuffed()
    info = sock.tcp_info()
    assert (info.snd_wnd, info.unacked, info.probes) == (0, 0, 0)
    backoffs = set()
    for _ in range(100):
        scene.run(0.5)
        backoffs.add(sock.tcp_info().backoff)
        assert sock.tcp_info().unacked == 0
    assert {3, 4, 5, 6, 7} <= backoffs
    scene.run(3600.0)
    assert sock.state == ESTABLISHED
    scene.program.reads = True
    scene.program.thawed(scene.pod)
    assert scene.when(lambda: sock.outq == 0, 1.0) is not None, "the update opens it at once"
    assert sock.tcp_info().backoff == 0


def test_a_user_timeout_kills_a_live_peer_that_does_not_read() -> None:
    scene, sock = stuffed(user_timeout(5000))
    scene.run(5.0)
    info = sock.tcp_info()
    assert (info.state, info.unacked, info.probes) == (ESTABLISHED, 0, 0)
    assert scene.end_of(sock, 60.0) == (errno.ETIMEDOUT, about(0.47, 0.1))
    assert sock.tcp_info().last_ack_recv == about(2000, 400)


def test_a_window_that_opened_meanwhile_starts_the_user_timeout_anew() -> None:
    scene, sock = stuffed(user_timeout(5000))
    scene.run(4.0)
    scene.program.accepted[0].recv(200_000)
    scene.run(0.1)
    while sock.send(bytes(65536)):
        scene.run(0.001)
    assert scene.end_of(sock, 60.0) == (errno.ETIMEDOUT, about(5.2, 0.2))


def test_lifting_the_user_timeout_keeps_it_alive() -> None:
    scene, sock = stuffed(user_timeout(5000))
    scene.run(2.0)
    sock.set_user_timeout(0)
    scene.run(600.0)
    assert sock.state == ESTABLISHED


def test_a_closed_window_whose_peer_dies_is_given_up() -> None:
    scene, sock = stuffed()
    scene.a.black_hole()
    code, took = scene.end_of(sock, 3600.0)
    assert code == errno.ETIMEDOUT
    assert took is not None
    assert 900 < took < 1800
