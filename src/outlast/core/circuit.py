"""What one endpoint may be asked at once: requests in flight, requests that wait, connections.

Envoy's circuit breakers, per endpoint instead of per cluster (there 1,024 each; here nothing is
limited unless it is asked for, because the pool's limits hold anyway). A request beyond the limit
waits in line, or is refused where the line is full: at once, with the figure that was reached.

A place that falls free is given to who has waited longest before anybody can ask for it, so that
no newcomer overtakes and no place lies idle while one waits. Refuses to count a request twice; it
does not wait and wakes nobody itself: it says how many of those who wait are in. Not thread-safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from outlast.core.concurrency import AdaptiveLimit, AdaptivePlan

__all__ = ["Circuit", "CircuitLimits", "Entry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitLimits:
    """Limits of one endpoint; None for none.

    in_flight: requests that are sent, or about to be, and not wholly answered.
    waiting: requests that wait for one of those to end; each no longer than its pool timeout.
    connections: open ones and dials under way.
    adaptive: a limit on `in_flight` that finds itself; where both are set, the lower one holds.
    """

    in_flight: int | None = None
    waiting: int | None = None
    connections: int | None = None
    adaptive: AdaptivePlan | None = None

    def __post_init__(self) -> None:
        for name, least in (("in_flight", 1), ("waiting", 0), ("connections", 1)):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(
                    f"circuit: {name} {value!r} is not a whole number from {least}, such as 100, "
                    "or None for no limit"
                )
        if self.adaptive is not None and not isinstance(self.adaptive, AdaptivePlan):
            raise ValueError(f"circuit: adaptive {self.adaptive!r} is not as AdaptivePlan()")
        if self.waiting is not None and self.in_flight is None and self.adaptive is None:
            raise ValueError("circuit: waiting needs in_flight or adaptive, which one waits for")


class Entry(Enum):
    """What becomes of a request at the door."""

    IN = "in flight"
    WAIT = "waits in line"
    FULL = "refused"


class Circuit:
    """The counts of one endpoint."""

    __slots__ = ("_adaptive", "_limits", "connections", "in_flight", "waiting")

    def __init__(self, limits: CircuitLimits) -> None:
        self._limits = limits
        self._adaptive = None if limits.adaptive is None else AdaptiveLimit(limits.adaptive)
        self.in_flight = 0
        self.waiting = 0
        self.connections = 0

    # -- requests --------------------------------------------------------------------------

    @property
    def limit(self) -> int | None:
        """Requests that may be in flight now; None for any number."""
        fixed = self._limits.in_flight
        if self._adaptive is None:
            return fixed
        found = self._adaptive.limit
        return found if fixed is None else min(fixed, found)

    @property
    def busy(self) -> bool:
        """Whether a request would have to wait here: better ask another endpoint, if there is."""
        limit = self.limit
        return limit is not None and self.in_flight >= limit

    @property
    def full(self) -> bool:
        """Whether a request would be refused here."""
        most = self._limits.waiting
        return most is not None and self.waiting >= most and self.busy

    def enter(self) -> Entry:
        """A request comes. IN: `leave` must follow. WAIT: it is let in by another's `leave`, or
        it goes away by `quit`."""
        if self.full:
            return Entry.FULL
        if self.busy:
            self.waiting += 1
            return Entry.WAIT
        self.in_flight += 1
        return Entry.IN

    def quit(self) -> None:
        """One of those who wait goes away; one that was let in already says `leave`."""
        self.waiting -= 1

    def leave(self, now: float, seconds: float | None, *, refused: bool = False) -> int:
        """A request has ended: `seconds` from its first byte to its response's head, None where
        that says nothing (cancelled, never sent). `refused`: as in `AdaptiveLimit.answered`.
        Returns how many of those who wait are in flight now, the longest waiting first: wake
        them."""
        if self._adaptive is not None and (seconds is not None or refused):
            self._adaptive.answered(now, seconds or 0.0, self.in_flight, refused=refused)
        self.in_flight -= 1
        limit = self.limit
        free = self.waiting if limit is None else limit - self.in_flight
        let_in = max(0, min(self.waiting, free))
        self.waiting -= let_in
        self.in_flight += let_in
        return let_in

    # -- connections -----------------------------------------------------------------------

    @property
    def connectable(self) -> bool:
        """Whether one more connection may be opened."""
        most = self._limits.connections
        return most is None or self.connections < most

    def dialling(self) -> bool:
        """A dial begins; False: it may not. True: `disconnected` must follow."""
        if not self.connectable:
            return False
        self.connections += 1
        return True

    def disconnected(self) -> None:
        """A connection has closed, or its dial has failed."""
        self.connections -= 1

    # -- words -----------------------------------------------------------------------------

    def why(self) -> str:
        """What is full, with its figures and what to change; "" if nothing is."""
        limits, said = self._limits, []
        if self.busy:
            limit = self.limit
            told = "" if limit == limits.in_flight else ", a limit found by response times"
            said.append(f"{self.in_flight} requests in flight of at most {limit}{told}")
            if self.full:
                said.append(f"{self.waiting} waiting of at most {limits.waiting}")
        if not self.connectable:
            said.append(f"{self.connections} connections of at most {limits.connections}")
        return f"{', '.join(said)} (CircuitLimits)" if said else ""
