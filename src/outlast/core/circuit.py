"""What one endpoint may be asked at once: requests in flight, requests that wait, connections.

Envoy's circuit breakers, per endpoint instead of per cluster (there 1,024 each; here nothing is
limited unless it is asked for, because the pool's limits hold anyway). A request beyond the limit
waits in line, or is refused where the line is full: at once, with the figure that was reached.

A place that falls free is given to who has waited longest before anybody can ask for it, so that
no newcomer overtakes and no place lies idle while one waits. A request that has its place may have
to wait for a connection as well: that is the same line, as for HAProxy's `maxqueue`. Refuses to
count a request twice; it does not wait and wakes nobody itself: it says how many of those who wait
are in. Not thread-safe.
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
    waiting: requests that wait for one of those to end, or for a connection; each no longer than
        its pool timeout.
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
        if self.waiting is not None and not (self.in_flight or self.connections or self.adaptive):
            raise ValueError(
                "circuit: waiting needs in_flight, connections or adaptive, which one waits for"
            )


class Entry(Enum):
    """What becomes of a request at the door."""

    IN = "in flight"
    WAIT = "waits in line"
    FULL = "refused"


class Circuit:
    """The counts of one endpoint. `alone`: each request has a connection for itself, so that the
    limit on connections is one on requests in flight as well."""

    __slots__ = ("_adaptive", "_limits", "alone", "connections", "in_flight", "queued", "waiting")

    def __init__(self, limits: CircuitLimits, *, alone: bool = False) -> None:
        self._limits = limits
        self._adaptive = None if limits.adaptive is None else AdaptiveLimit(limits.adaptive)
        self.alone = alone
        self.in_flight = 0
        self.waiting = 0
        self.queued = 0  # in flight by this count, and without a connection yet
        self.connections = 0

    # -- requests --------------------------------------------------------------------------

    @property
    def limit(self) -> int | None:
        """Requests that may be in flight now; None for any number."""
        limit = self._limits.in_flight
        most = self._limits.connections if self.alone else None
        if most is not None and (limit is None or most < limit):
            limit = most
        if self._adaptive is None:
            return limit
        found = self._adaptive.limit
        return found if limit is None else min(limit, found)

    @property
    def busy(self) -> bool:
        """Whether a request would have to wait here: better ask another endpoint, if there is."""
        limit = self.limit
        return limit is not None and self.in_flight >= limit

    @property
    def full(self) -> bool:
        """Whether a request would be refused here."""
        return self.busy and not self._lined

    @property
    def _lined(self) -> bool:
        """Whether one more may stand in line."""
        most = self._limits.waiting
        return most is None or self.waiting + self.queued < most

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

    def line_up(self) -> bool:
        """A request waits for a connection; False: the line is full. True: `step_out` follows."""
        if not self._lined:
            return False
        self.queued += 1
        return True

    def step_out(self) -> None:
        """It has one, or goes away."""
        self.queued -= 1

    # -- words -----------------------------------------------------------------------------

    def reached(self) -> tuple[str, int] | None:
        """The limit that is reached, by the name of its field, and its figure; None if none is.
        Of several the one that most is to be said of: that of the line refuses."""
        limits, limit = self._limits, self.limit
        most = limits.waiting
        busy = limit is not None and self.busy
        if (busy or not self.connectable) and most and not self._lined:
            return "waiting", most
        if not busy:
            return None if self.connectable else ("connections", limits.connections or 0)
        assert limit is not None
        if limit == limits.in_flight:
            return "in_flight", limit
        fixed = self.alone and limit == limits.connections
        return ("connections" if fixed else "adaptive"), limit

    def why(self) -> str:
        """What is full, with its figures and what to change; "" if nothing is."""
        limits, said = self._limits, []
        if self.busy:
            found = self._adaptive is not None and self.limit not in {
                limits.in_flight,
                limits.connections if self.alone else None,
            }
            told = ", a limit found by response times" if found else ""
            said.append(f"{self.in_flight} requests in flight of at most {self.limit}{told}")
        if not self.connectable:
            said.append(f"{self.connections} connections of at most {limits.connections}")
        if said and not self._lined:
            said.append(f"{self.waiting + self.queued} waiting of at most {limits.waiting}")
        return f"{', '.join(said)} (CircuitLimits)" if said else ""
