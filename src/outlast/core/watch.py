"""When to look at a connection that waits for its response, and what the look says.

A request that the peer's kernel has not acknowledged at all after max(4 round trips, 200 ms) is
suspect: a second attempt may start elsewhere. One that was acknowledged is left alone, however
long the answer takes. The looks come at doubling gaps, so that a long wait costs little.

Source: the retransmission schedule of linux-tcp facts 5.1 (the first timeout of a short round
trip is 200 ms) and TCP_INFO. Refuses to suspect a peer that has closed its window: it lives.
"""

from __future__ import annotations

from outlast.core.liveness import Sample
from outlast.core.tolerance import PROBES

__all__ = ["ResponseWatch", "SendState", "holds_user_timeout"]

FIRST_LOOK = 0.200  # seconds; below it even a healthy kernel may not have repeated a lost packet
ROUND_TRIPS = 4.0
LONGEST_GAP = 2.0  # DESIGN section 6: a watched socket is sampled at least every 2 s


SendState = Sample


class ResponseWatch:
    """Watches one request on one connection. Not thread-safe."""

    __slots__ = ("_gap", "_mark", "next_look")

    def __init__(self, now: float, rtt: float, mark: int) -> None:
        """Start at `now`; `mark`: bytes written on the connection before this request."""
        self._gap = max(FIRST_LOOK, ROUND_TRIPS * rtt)
        self._mark = mark
        self.next_look = now + self._gap

    def look(self, state: SendState | None, now: float) -> bool:
        """Judge one sample (None: the platform has none); True if the request is suspect."""
        self._gap = min(LONGEST_GAP, self._gap * 2)
        self.next_look = now + self._gap
        if state is None:
            return False
        return state.unacked > 0 and state.window > 0 and state.acked <= self._mark


def holds_user_timeout(state: SendState, seconds: float) -> bool:
    """Whether a user timeout of `seconds` may stand on a connection in this state.

    The kernel's user timeout also kills a live peer that merely does not read (linux-tcp facts
    5.4). So it is lifted while the window is closed, unless probes go unanswered: silence alone
    tells nothing, because the gaps between them double.
    """
    return state.window > 0 or (state.probes >= PROBES and state.heard >= seconds)
