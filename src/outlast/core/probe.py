"""May this idle connection be used? A TCP probe at checkout, and what its outcome means.

A connection heard from within the last second counts as verified; one that has been silent for
longer can be asked by a keepalive probe, which carries no byte of the application and takes one
round trip (linux-tcp facts 6.2). Under suspicion what was heard a moment ago proves nothing, and
what cannot be probed is replaced (DESIGN section 6, "idle connection").

It proves the peer's kernel, not its program. Refuses to wait longer than max(4 round trips,
50 ms), and to call a peer dead for not having answered in that time: that is *unknown*.
"""

from __future__ import annotations

from enum import Enum

from outlast.core.liveness import CLOSED, ESTABLISHED, Sample
from outlast.core.tolerance import ROUND_TRIPS

__all__ = ["Probed", "TcpProbe", "Trust", "may_probe", "trust"]

SILENT = 1.0  # seconds; keepalive's idle time is in whole ones, and 1 is the least
PROBE_PATIENCE = 0.050  # seconds; DESIGN section 6
TICK = 0.004  # seconds; the probe leaves at the kernel's next tick, 2 to 8 ms later (facts 6.2)


class Trust(Enum):
    """What may be done with an idle connection before an unsafe request goes out on it."""

    VERIFIED = "verified"  # it may be used as it is
    PROBE = "probe"  # it can be asked first
    REPLACE = "replace"  # neither: a new connection is the better choice


class Probed(Enum):
    """How a probe ended."""

    ALIVE = "alive"
    GONE = "gone"  # the connection has ended: closed, reset, or unknown to a peer that rebooted
    UNKNOWN = "unknown"  # no answer in time, or it could not be asked


def may_probe(sample: Sample | None) -> bool:
    """Whether the kernel would send a probe now: keepalive rests while data is under way."""
    return (
        sample is not None
        and sample.state == ESTABLISHED
        and not (sample.unacked or sample.unsent)
        and sample.silence > SILENT
    )


def trust(heard: float, sample: Sample | None, *, suspect: bool) -> Trust:
    """What to do with an idle connection whose owner has heard from it `heard` seconds ago.

    `suspect`: there is evidence against its endpoint. `sample` is not looked at where `heard`
    says enough, so it need not be taken then.
    """
    if heard <= SILENT and not suspect:
        return Trust.VERIFIED
    if may_probe(sample):
        return Trust.PROBE
    sound = sample is not None and sample.state == ESTABLISHED
    fresh = sample is not None and sample.silence <= SILENT
    return Trust.VERIFIED if sound and fresh and not suspect else Trust.REPLACE


class TcpProbe:
    """One probe under way: `before` is the sample taken just before it was sent."""

    __slots__ = ("_before", "_started", "next_look", "until")

    def __init__(self, before: Sample, now: float) -> None:
        self._before = before
        self._started = now
        self.until = now + max(ROUND_TRIPS * before.rtt, PROBE_PATIENCE)
        self.next_look = min(self.until, now + max(TICK, before.rtt))

    def look(self, sample: Sample | None, now: float) -> Probed | None:
        """The outcome, if there is one; else look again at `next_look`."""
        if sample is None or sample.state == CLOSED:
            return Probed.GONE
        if sample.silence < self._before.silence:
            return Probed.ALIVE
        if now >= self.until:
            return Probed.UNKNOWN
        self.next_look = min(self.until, now + max(TICK, (now - self._started) / 2))
        return None
