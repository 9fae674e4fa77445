"""The kernel's arithmetic of time-outs, as plain functions over microseconds.

What a host's kernel is set to (`Kernel`), how long it goes on trying (`model`), how its clock
rounds (`jiffies`, `bucket`). Source: linux-tcp facts 2.2, 3.2, 5.2 and 11.2; net/ipv4/tcp_timer.c,
kernel/time/timer.c at HZ=250. Refuses to know of any connection.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "ACK_DELAY",
    "JIFFY",
    "MSS",
    "RTO_INITIAL",
    "RTO_MIN",
    "SECOND",
    "Kernel",
    "bucket",
    "jiffies",
    "model",
    "rounded_expiry",
]

SECOND = 1_000_000
JIFFY = 4_000  # HZ=250
RTO_INITIAL = SECOND  # TCP_TIMEOUT_INIT
RTO_MIN = 200_000  # TCP_RTO_MIN
ACK_DELAY = 40_000  # TCP_DELACK_MIN
MSS = 1448  # of an Ethernet link, with timestamps

# kernel/time/timer.c at HZ=250: below each delay (in jiffies) the timer wheel's granules (jiffies).
_WHEEL = ((63, 1), (504, 8), (4032, 64), (32256, 512))
_COARSEST = 4096


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a host's kernel is set to; the defaults are Linux 6.18's (linux-tcp facts 2.2).

    `syn_linear`: 4 since Linux 6.5, 0 for the classic schedule. `rto_max` in microseconds.
    `wheel`: timers fire late by up to a granule of the timer wheel, as real ones do; off, every
    schedule is exact. `ports`: first and last ephemeral port.
    """

    syn_retries: int = 6
    syn_linear: int = 4
    synack_retries: int = 5
    retries2: int = 15
    orphan_retries: int = 8
    rto_max: int = 120 * SECOND
    keepalive_idle: int = 7200
    keepalive_interval: int = 75
    keepalive_count: int = 9
    fin_timeout: int = 60 * SECOND
    time_wait: int = 60 * SECOND
    ports: tuple[int, int] = (32768, 60999)
    send_buffer: int = 262_144
    receive_buffer: int = 262_144
    wheel: bool = False


def jiffies(duration: int) -> int:
    """`duration` rounded up to whole ticks of the kernel's clock."""
    return -(-duration // JIFFY) * JIFFY


def model(boundary: int, base: int, rto_max: int) -> int:
    """How long `boundary` retransmissions with back-off from `base` take: the kernel gives up then.

    tcp_model_timeout: doubling until the cap, then steps of the cap.
    """
    threshold = (rto_max // base).bit_length() - 1
    if boundary <= threshold:
        return ((2 << boundary) - 1) * base
    return ((2 << threshold) - 1) * base + (boundary - threshold) * rto_max


def bucket(delay: int) -> int:
    """The granule of the timer wheel for a timer that is `delay` away."""
    ticks = delay // JIFFY
    for below, granule in _WHEEL:
        if ticks < below:
            return granule * JIFFY
    return _COARSEST * JIFFY


def rounded_expiry(now: int, when: int) -> int:
    """When the wheel fires a timer set at `now` for `when`: the next granule after it."""
    granule = bucket(max(0, when - now))
    return (when // granule + 1) * granule
