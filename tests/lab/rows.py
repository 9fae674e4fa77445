"""The rows of the differential table: scenarios that the kernel and the simulation both play.

Each row is one socket of the client in a world of four nodes whose fate is the same for all rows:
`dead` falls into a black hole (ARP goes on), `gone` loses power and its neighbour entry is flushed,
`never` was off from the start, `live` lives, but its program is frozen. What is compared is which
errors the program hears, and when.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

Option = tuple[int, int, int]

TCP, SOCKET, IP = 6, 1, 0
RECVERR: Option = (IP, 11, 1)
SETTLED = 0.3  # seconds between the last packet and the cut
SAMPLES = (0.05, 0.25, 0.5, 1.0, 2.0, 4.0)  # when TCP_INFO is looked at


def syncnt(count: int) -> Option:
    """TCP_SYNCNT."""
    return (TCP, 7, count)


def limit(milliseconds: int) -> Option:
    """TCP_USER_TIMEOUT."""
    return (TCP, 18, milliseconds)


def rto_max(milliseconds: int) -> Option:
    """TCP_RTO_MAX_MS."""
    return (TCP, 44, milliseconds)


def keep(idle: int, interval: int, count: int) -> tuple[Option, ...]:
    """Keepalive."""
    return ((SOCKET, 9, 1), (TCP, 4, idle), (TCP, 5, interval), (TCP, 6, count))


@dataclass(frozen=True)
class Row:
    """One socket. `act`: connect, idle, unacked (100 bytes in flight), stuffed (a closed window).

    `ends`: the errno that it ends with, None: nothing within the time. `within`: seconds by which
    the two may differ.
    """

    name: str
    node: str
    act: str
    options: tuple[Option, ...] = ()
    ends: int | None = errno.ETIMEDOUT
    within: float = 0.2


@dataclass
class Heard:
    """What one socket's program heard: (seconds, errno), and TCP_INFO's samples."""

    errors: list[tuple[float, int]] = field(default_factory=list)
    samples: list[tuple[int, int, int, int]] = field(default_factory=list)

    @property
    def first(self) -> tuple[float, int] | None:
        """The first error."""
        return self.errors[0] if self.errors else None


BRIEF_LIMIT = 8.0
BRIEF = (
    # connect to silence (facts 3)
    Row("SYNCNT 1", "dead", "connect", (syncnt(1),)),
    Row("SYNCNT 2", "dead", "connect", (syncnt(2),), within=0.4),
    Row("connect, UT 500", "dead", "connect", (limit(500),)),
    Row("connect, UT 2500", "dead", "connect", (limit(2500),)),
    Row("connect, UT 3000", "dead", "connect", (limit(3000),)),
    Row("connect, RTO max 1000", "dead", "connect", (rto_max(1000),), within=0.4),
    Row("connect, nothing set", "dead", "connect", ends=None),
    # neighbours (facts 4)
    Row("never seen", "never", "connect", ends=errno.EHOSTUNREACH),
    Row("never seen, UT 1500", "never", "connect", (limit(1500),)),
    Row("gone, in flight", "gone", "unacked", ends=None),
    Row("gone, in flight, UT 6000", "gone", "unacked", (limit(6000),), ends=errno.EHOSTUNREACH),
    Row("gone, in flight, RECVERR", "gone", "unacked", (RECVERR,), ends=errno.EHOSTUNREACH),
    Row("gone, idle, keepalive 1/1/4", "gone", "idle", (*keep(1, 1, 4), RECVERR)),
    Row("gone, connect", "gone", "connect", ends=errno.EHOSTUNREACH),
    # {idle, unacked, zero window} x {keepalive, user timeout, both} (facts 5 and 6)
    Row("in flight", "dead", "unacked", ends=None),
    Row("idle, keepalive 1/1/3", "dead", "idle", keep(1, 1, 3)),
    Row("idle, UT 2500", "dead", "idle", (limit(2500),), ends=None),
    Row("idle, keepalive 1/1/9, UT 2500", "dead", "idle", (*keep(1, 1, 9), limit(2500))),
    Row("idle, keepalive 2/1/9, UT 3000", "dead", "idle", (*keep(2, 1, 9), limit(3000))),
    Row("in flight, keepalive 1/1/3", "dead", "unacked", keep(1, 1, 3), ends=None),
    Row("in flight, UT 2500", "dead", "unacked", (limit(2500),)),
    Row("in flight, UT 5000", "dead", "unacked", (limit(5000),), within=0.4),
    Row("in flight, keepalive 1/1/3, UT 2500", "dead", "unacked", (*keep(1, 1, 3), limit(2500))),
    Row("zero window, keepalive 1/1/3", "live", "stuffed", keep(1, 1, 3), ends=None),
    Row("zero window, UT 2500", "live", "stuffed", (limit(2500),), within=0.4),
    Row(
        "zero window, keepalive 1/1/3, UT 2500",
        "live",
        "stuffed",
        (*keep(1, 1, 3), limit(2500)),
        within=0.4,
    ),
    # a frozen program: only a deadline sees it
    Row("frozen, in flight, keepalive 1/1/3", "live", "unacked", keep(1, 1, 3), ends=None),
    Row("frozen, connect", "live", "connect", ends=0),
)

LONG_LIMIT = 140.0
LONG = (
    Row("SYNCNT 3", "dead", "connect", (syncnt(3),), within=0.5),
    Row("SYNCNT 4", "dead", "connect", (syncnt(4),), within=1.0),
    Row("SYNCNT 5", "dead", "connect", (syncnt(5),), within=2.5),
    Row("connect, nothing set", "dead", "connect", within=2.5),
    Row("connect, RTO max 2000", "dead", "connect", (rto_max(2000),), within=0.5),
    Row("in flight, RTO max 1000", "dead", "unacked", (rto_max(1000),), within=1.1),
    Row("in flight, RTO max 2000", "dead", "unacked", (rto_max(2000),), within=2.1),
    Row("in flight, UT 20000", "dead", "unacked", (limit(20000),), within=0.5),
    Row("idle, keepalive 2/1/3, UT 10000", "dead", "idle", (*keep(2, 1, 3), limit(10000))),
    Row("idle, keepalive 5/1/6", "dead", "idle", keep(5, 1, 6), within=0.5),
    Row("idle, keepalive 5/1/6, UT 11000", "dead", "idle", (*keep(5, 1, 6), limit(11000))),
    Row("in flight, keepalive 2/1/3", "dead", "unacked", keep(2, 1, 3), ends=None),
    Row(
        "gone, in flight, RECVERR, UT 20000",
        "gone",
        "unacked",
        (RECVERR, limit(20000)),
        ends=errno.EHOSTUNREACH,
    ),
    Row("zero window", "live", "stuffed", ends=None),
)
