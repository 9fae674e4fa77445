"""What an endpoint's own network has taught: late ACKs and lost segments must not cry wolf.

An endpoint whose late ACKs proved harmless twice is given more time, and one keepalive probe more
is asked for with each tenfold of loss that it has lately shown (DESIGN section 6). Before anything
is learnt, a thousand requests may meet the loss at once: so only some may be suspect as soon as
their ACK is late, and the others are given the longer time. Refuses to count as loss what a peer
that was never heard again did not answer.

All watches of an endpoint share one, also from several threads: an update that is lost between
two of them does no harm.
"""

from __future__ import annotations

import math

__all__ = ["Tolerance"]

ROUND_TRIPS = 4.0  # DESIGN section 6
PATIENCE = 0.100  # seconds; DESIGN section 6
LATE_PATIENCE = 0.250  # seconds; longer than a tail loss probe takes: 210 ms (linux-tcp facts 5.1)
HARMLESS = 2  # late ACKs
HASTY = 10.0  # suspicions after the shorter time, at once; more than a small client has workers
HASTY_REFILL = 1.0  # a second
HASTY_SHARE = 0.03  # of the waits that were looked at; 5 % in all is what second attempts may cost
PROBES = 3  # sent without an answer, so that two are known to be lost; DESIGN section 6
TENFOLDS = (0.001, 0.01, 0.1)  # shares of loss; above each, one probe more
LATELY = 200  # segments, after which older ones count half
LEAST_SEEN = 20  # segments; a single loss among fewer is not yet a tenth


class Tolerance:
    """How much is borne of one endpoint before it is suspect."""

    __slots__ = ("__weakref__", "_hasty", "_late", "_lost", "_refilled", "_seen")

    def __init__(self) -> None:
        self._late = 0
        self._hasty = HASTY
        self._refilled = -math.inf
        self._seen = 0.0
        self._lost = 0.0

    def late(self) -> None:
        """An ACK came so late that the endpoint was suspect, and it came."""
        self._late += 1

    def looked(self) -> None:
        """A wait was long enough to be looked at."""
        self._hasty += HASTY_SHARE

    def hasty(self, now: float) -> bool:
        """Whether one more may be suspect after the shorter time. `now`: in seconds."""
        if now > self._refilled:
            refill = (now - self._refilled) * HASTY_REFILL
            self._hasty = max(self._hasty, min(HASTY, self._hasty + refill))
            self._refilled = now
        if self._hasty < 1.0:
            return False
        self._hasty -= 1.0
        return True

    def count(self, segments: int, lost: int) -> None:
        """So many segments were sent, and so many of them lost, while the endpoint was alive."""
        self._seen += segments
        self._lost += min(lost, segments)
        if self._seen > LATELY:
            self._seen /= 2
            self._lost /= 2

    @property
    def loss(self) -> float:
        """The share of segments lost lately, there or back."""
        return self._lost / max(self._seen, LEAST_SEEN)

    @property
    def probes(self) -> int:
        """Keepalive probes sent in a row without an answer that make the endpoint suspect."""
        return PROBES + sum(self.loss > share for share in TENFOLDS)

    def patience(self, rtt: float) -> float:
        """Seconds that an ACK may take; `rtt` in seconds."""
        least = LATE_PATIENCE if self._late >= HARMLESS else PATIENCE
        return max(ROUND_TRIPS * rtt, least)
