"""Connecting to silence, row by row of what a kernel was measured to do (linux-tcp facts 3).

Nominal times are exact; with the timer wheel they meet the measured ones.
"""

from __future__ import annotations

import errno

import pytest

from outlast.testing.simnet.host import Option
from outlast.testing.simnet.packet import SYN, Segment
from outlast.testing.simnet.rules import Kernel
from tests.simnet.scene import TCP, Scene, user_timeout

SYNCNT, RTO_MAX = 7, 44
CLASSIC, LINEAR = 0, 4


def to_silence(kernel: Kernel, *options: Option) -> tuple[int, float, list[float]]:
    """Errno, seconds until it, and when SYNs left."""
    scene = Scene(kernel=kernel)
    scene.connection().close()  # so that the neighbour is known
    scene.a.black_hole()
    start = scene.now
    sent: list[float] = []

    def tap(segment: Segment) -> None:
        if segment.flags == SYN:
            sent.append(scene.now - start)

    scene.world.fabric.taps.append(tap)
    code, took = scene.end_of(scene.dial(*options), 300.0)
    assert took is not None
    return code, took, sent


@pytest.mark.parametrize(
    ("linear", "nominal", "ends", "seen", "measured"),
    [
        (CLASSIC, [0, 1, 3, 7, 15, 31, 63], 127, [0, 1, 3, 7.1, 15.3, 31.5, 64.0], 129.5),
        (
            LINEAR,
            [0, 1, 2, 3, 4, 5, 7, 11, 19, 35, 67],
            131,
            [0, 1, 2, 3.1, 4.1, 5.1, 7.1, 11.2, 19.4, 35.5, 68.0],
            133.55,
        ),
    ],
)
def test_the_schedules(
    linear: int, nominal: list[float], ends: float, seen: list[float], measured: float
) -> None:
    assert to_silence(Kernel(syn_linear=linear)) == (errno.ETIMEDOUT, ends, nominal)
    code, took, sent = to_silence(Kernel(syn_linear=linear, wheel=True))
    assert code == errno.ETIMEDOUT
    assert took == pytest.approx(measured, abs=1.0)
    assert sent == pytest.approx(seen, abs=0.7)


@pytest.mark.parametrize(
    ("count", "linear", "nominal", "measured", "syns"),
    [
        (1, CLASSIC, 3, 3.0, 2),
        (2, CLASSIC, 7, 7.2, 3),
        (3, CLASSIC, 15, 15.4, 4),
        (4, CLASSIC, 31, 31.5, 5),
        (5, CLASSIC, 63, None, 6),
        (6, CLASSIC, 127, 129.5, 7),
        (7, CLASSIC, 247, None, 8),
        (1, LINEAR, 3, 3.1, 3),
        (2, LINEAR, 7, 7.1, 6),
        (3, LINEAR, 19, 19.4, 8),
        (4, LINEAR, 35, 35.6, 9),
        (5, LINEAR, 67, 68.7, 10),
        (6, LINEAR, 131, 133.6, 11),
        (7, LINEAR, 251, None, 12),
    ],
)
def test_syncnt(count: int, linear: int, nominal: float, measured: float | None, syns: int) -> None:
    option = (TCP, SYNCNT, count)
    code, took, sent = to_silence(Kernel(syn_linear=linear), option)
    assert (code, took, len(sent)) == (errno.ETIMEDOUT, nominal, syns)
    if measured is not None:
        _, took, _ = to_silence(Kernel(syn_linear=linear, wheel=True), option)
        assert took == pytest.approx(measured, abs=0.1 if nominal < 60 else 1.0)


@pytest.mark.parametrize("linear", [CLASSIC, LINEAR])
@pytest.mark.parametrize(
    ("option", "nominal", "measured"),
    [
        (user_timeout(500), 1.004, 1.03),  # never before the first tick
        (user_timeout(2500), 2.5, 2.52),
        (user_timeout(3000), 3.0, 3.02),
        ((TCP, RTO_MAX, 1000), 7.0, 7.15),
        ((TCP, RTO_MAX, 2000), 13.0, 13.2),
    ],
)
def test_options_that_shorten_a_connect(
    linear: int, option: Option, nominal: float, measured: float
) -> None:
    code, took, _ = to_silence(Kernel(syn_linear=linear), option)
    assert code == errno.ETIMEDOUT
    assert took == pytest.approx(nominal, abs=0.51 if linear == CLASSIC else 1e-6)
    if linear == LINEAR:
        _, took, _ = to_silence(Kernel(wheel=True), option)
        assert took == pytest.approx(measured, abs=0.05)


def test_a_user_timeout_of_three_seconds_leaves_three_syns() -> None:
    assert to_silence(Kernel(), user_timeout(3000))[2] == [0, 1, 2]


@pytest.mark.parametrize(
    "code", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ECONNREFUSED, errno.ENOPROTOOPT]
)
def test_an_icmp_error_ends_a_connect_at_once(code: int) -> None:
    scene = Scene()
    scene.connection().close()
    scene.a.unreachable(code)
    heard, took = scene.end_of(scene.dial(), 10.0)
    assert heard == code
    assert took == pytest.approx(0.0001)


def test_ephemeral_ports_run_out() -> None:
    scene = Scene(kernel=Kernel(ports=(40000, 40009)))
    socks = [scene.dial(label=f"c{number}") for number in range(10)]
    assert {sock.local[1] for sock in socks} == set(range(40000, 40010))
    with pytest.raises(OSError, match="assign") as failure:
        scene.dial(label="one too many")
    assert failure.value.errno == errno.EADDRNOTAVAIL
    scene.run(1.0)
    socks[3].abort()
    assert scene.dial(label="again").local[1] == 40003


def test_a_full_accept_queue_is_silence() -> None:
    scene = Scene()
    scene.pod.fill_accept_queue()
    sock = scene.dial()
    assert scene.when(sock.writable, 2.5) is None
    scene.pod.empty_accept_queue()
    assert scene.when(sock.writable, 1.0) == pytest.approx(0.5001)
