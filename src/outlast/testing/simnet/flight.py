"""What is in flight, what of it is lost, and how long a round trip takes.

Source: RFC 6298 (smoothing) with the kernel's floor of 200 ms under four deviations (linux-tcp
facts 5.1), RFC 8985 (RACK) with its tolerance for reordering. Decides nothing about timers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from outlast.testing.simnet.packet import FIN, SYN, Segment
from outlast.testing.simnet.rules import RTO_INITIAL, RTO_MIN, jiffies

__all__ = ["Flight", "RoundTrip", "mark_lost"]

_DUPLICATES = 3  # so many that arrived above a hole say that it is one (RFC 5681)


class Flight:
    """One segment that was sent and is not acknowledged."""

    __slots__ = ("data", "end", "flags", "lost", "repeats", "sacked", "segment", "sent", "seq")

    def __init__(self, seq: int, data: bytes, flags: int, now: int) -> None:
        self.segment: Segment | None = None  # as it was sent last
        self.seq = seq
        self.data = data
        self.flags = flags
        self.end = seq + len(data) + (1 if flags & (SYN | FIN) else 0)
        self.sent = now
        self.repeats = 0
        self.sacked = False
        self.lost = False


class RoundTrip:
    """The smoothed round trip and its deviation, in microseconds; 0 until there is a sample."""

    __slots__ = ("deviation", "least", "smooth")

    def __init__(self) -> None:
        self.smooth = 0
        self.deviation = 0
        self.least = 0

    def sample(self, took: int) -> None:
        """Learn of one round trip."""
        took = max(1, took)
        if self.smooth == 0:
            self.smooth, self.deviation, self.least = took, took // 2, took
            return
        error = took - self.smooth
        self.smooth += error // 8
        self.deviation += (abs(error) - self.deviation) // 4
        self.least = min(self.least, took)

    def time_out(self) -> int:
        """The retransmission time-out that follows from it."""
        if self.smooth == 0:
            return RTO_INITIAL
        return jiffies(self.smooth + max(4 * self.deviation, RTO_MIN))


def mark_lost(flight: Sequence[Flight], sacks: Iterable[tuple[int, int]], tolerance: int) -> None:
    """Mark what has arrived (`sacks`) and what is lost by the look of it.

    Lost is what was sent before something that arrived, by more than `tolerance`, or has three
    arrivals above it.
    """
    newest = -1
    ranges = tuple(sacks)
    for one in flight:
        if not one.sacked and any(low <= one.seq and one.end <= high for low, high in ranges):
            one.sacked = True
            one.lost = False
        if one.sacked:
            newest = max(newest, one.sent)
    above = 0
    for one in reversed(flight):
        if one.sacked:
            above += 1
        elif above and one.sent <= newest:
            one.lost |= one.sent + tolerance < newest or above >= _DUPLICATES
