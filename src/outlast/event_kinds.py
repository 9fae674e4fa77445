"""What can happen, as values: the kinds of event that `outlast.events` tells of.

Frozen, slotted, keyword-only. `at` is on the network's clock (Python's monotonic clock in life,
virtual time on a simulated network), durations are seconds, addresses are written "host:port".
Fields called `why` are words for people, and may hold figures; all other strings come from a
small set or from the configuration, so that they can be labels of a metric. Field report FR-81
asks that pool waits, dials, reuse, retirement and retries can be told apart; FR-82 asks for new
against reused connections, idle times, and errors and times by phase.

Refuses to hold anything that changes, or that keeps a connection alive.
"""

from __future__ import annotations

import errno as errno_names
import math
from dataclasses import dataclass

from outlast.core.classify import Progress

__all__ = [
    "KINDS",
    "AttemptFailed",
    "BudgetExhausted",
    "CallFinished",
    "CheckChanged",
    "CircuitOpen",
    "ConnectionClosed",
    "ConnectionOpened",
    "ConnectionReused",
    "ConnectionSuspect",
    "DialFailed",
    "EndpointEjected",
    "EndpointJoined",
    "EndpointLeft",
    "EndpointReturned",
    "HedgeStarted",
    "LookupFinished",
    "OutlastEvent",
    "PanicBegan",
    "PanicEnded",
    "PoolWaited",
    "RepeatHeldBack",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlastEvent:
    """Something that happened, with `target` (as it was written). `str()` is a sentence."""

    at: float
    target: str

    def _words(self) -> str:
        return type(self).__name__

    def __str__(self) -> str:
        return f"{self.target}: {self._words()}"


# -- endpoints ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointJoined(OutlastEvent):
    """An endpoint has become one of the target's."""

    address: str

    def _words(self) -> str:
        return f"{self.address} joined"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointLeft(OutlastEvent):
    """An endpoint is the target's no more; what was known of it is forgotten."""

    address: str

    def _words(self) -> str:
        return f"{self.address} left"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointEjected(OutlastEvent):
    """An endpoint is used last from now on, or, in a dry run (`enforced` False), would be.

    `rule`: which one, as in `Policy.dry_run`. `evidence`: "answers" (panic overrides it) or
    "death" (panic does not). `until`: when its one trial is due, as `at`; `math.inf`: when its
    active check passes. `times`: 1 for the shortest time out, one more for each doubling.
    """

    address: str
    rule: str
    evidence: str
    why: str
    until: float
    times: int = 1
    enforced: bool = True

    def _words(self) -> str:
        verb = "ejected" if self.enforced else "would be ejected (dry run)"
        span = self.until - self.at
        end = "until its check passes" if span == math.inf else f"for {span:.1f} s"
        return f"{self.address} {verb} {end}: {self.why} ({self.rule})"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointReturned(OutlastEvent):
    """An ejected endpoint is in use again; slow start begins. `after`: seconds that it was out."""

    address: str
    why: str
    after: float

    def _words(self) -> str:
        return f"{self.address} returned after {self.after:.1f} s: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckChanged(OutlastEvent):
    """The active check's opinion of an endpoint has changed: `up`, or down."""

    address: str
    up: bool
    why: str

    def _words(self) -> str:
        return f"{self.address} checked {'up' if self.up else 'down'}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PanicBegan(OutlastEvent):
    """More than half of the endpoints (of one priority) are out: what was ejected on its answers
    is used again. `out` of `endpoints`, of all priorities, are."""

    out: int
    endpoints: int

    def _words(self) -> str:
        return f"panic: {self.out} of {self.endpoints} out"


@dataclass(frozen=True, slots=True, kw_only=True)
class PanicEnded(OutlastEvent):
    """At least half of the endpoints are in again. `after`: seconds of panic."""

    after: float

    def _words(self) -> str:
        return f"panic over after {self.after:.1f} s"


# -- connections -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupFinished(OutlastEvent):
    """A look-up of a name has ended. `addresses`: without ports. `error`: "" if there was none."""

    name: str
    seconds: float
    addresses: tuple[str, ...] = ()
    error: str = ""

    def _words(self) -> str:
        found = self.error or ", ".join(self.addresses) or "no address"
        return f"{self.name} looked up in {_ms(self.seconds)}: {found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DialFailed(OutlastEvent):
    """One dial of a race has ended with an error, or was given up unanswered.

    `phase`: "connect" or "handshake" (TLS, a proxy's tunnel). `errno`: the kernel's number, if it
    gave one; None for silence and for failed handshakes. `seconds`: since it began.
    """

    address: str
    phase: str
    why: str
    seconds: float
    errno: int | None = None
    local_port: int = 0

    def _words(self) -> str:
        code = _code(self.errno)
        return f"{self.phase} to {self.address} failed in {_ms(self.seconds)}: {self.why}{code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOpened(OutlastEvent):
    """A new connection stands. `connect`: seconds from SYN to established, of the winner of the
    race. `handshake`: seconds for TLS and tunnels, None without. `dials`: how many there were."""

    address: str
    connect: float
    handshake: float | None = None
    dials: int = 1
    local_port: int = 0

    def _words(self) -> str:
        shaken = "" if self.handshake is None else f", handshake in {_ms(self.handshake)}"
        many = "" if self.dials == 1 else f", {self.dials} dials"
        return f"{self.address} connected in {_ms(self.connect)}{shaken}{many}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionReused(OutlastEvent):
    """A pooled connection serves another request. `idle`: seconds since its last one ended, 0.0
    if others use it too (HTTP/2)."""

    address: str
    idle: float
    local_port: int = 0

    def _words(self) -> str:
        return f"{self.address} reused after {self.idle:.3f} s idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionClosed(OutlastEvent):
    """A pooled connection is retired. `age`: its seconds.

    `reason`: "idle" (for too long), "age", "full" (no room for another idle one, or under circuit
    limits for one that somebody needs), "peer" (it closed), "departed" (the endpoint left),
    "suspect", "unfinished" (its last exchange did not end well), "dropped" (by `drop()`),
    "unwanted" (lost a race) or "closed" (with its transport).
    """

    address: str
    reason: str
    age: float
    local_port: int = 0

    def _words(self) -> str:
        return f"{self.address} closed after {self.age:.1f} s: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSuspect(OutlastEvent):
    """The kernel has evidence against the peer of a connection."""

    address: str
    why: str
    local_port: int = 0

    def _words(self) -> str:
        return f"{self.address} suspect: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWaited(OutlastEvent):
    """A call has stood in line for a connection. `granted` False: its pool timeout came first."""

    seconds: float
    granted: bool = True

    def _words(self) -> str:
        end = "" if self.granted else " in vain"
        return f"waited {self.seconds:.3f} s for a connection{end}"


# -- calls -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(OutlastEvent):
    """One try of a request has failed, or was answered with a status that is repeated.

    `address`: "" if there was no connection. `phase`: "pool", "lookup", "connect", "handshake",
    "request", "response" or "body". `progress`: how far it got. `status`: of the answer, if any.
    `error`: the kind of failure, named as httpx's exception ("ReadError"); "" for a status.
    `reused`: on a pooled connection. `repeated`: whether another try follows, and `decision` why,
    or why not.
    """

    address: str
    attempt: int
    phase: str
    why: str
    progress: Progress
    repeated: bool
    decision: str
    error: str = ""
    errno: int | None = None
    status: int | None = None
    reused: bool = False

    def _words(self) -> str:
        where = f" at {self.address}" if self.address else ""
        then = "repeated" if self.repeated else "not repeated"
        failed = f"attempt {self.attempt}{where} failed ({self.phase}, {self.progress})"
        return f"{failed}: {self.why}{_code(self.errno)}; {then}: {self.decision}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HedgeStarted(OutlastEvent):
    """A second try has begun beside a slow one. `after`: seconds since that one was sent."""

    attempt: int
    after: float

    def _words(self) -> str:
        return f"hedged by attempt {self.attempt} after {_ms(self.after)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatHeldBack(OutlastEvent):
    """A dry run has only counted a repeat or a hedge. `rule`: which, as in `Policy.dry_run`."""

    rule: str

    def _words(self) -> str:
        return f"not repeated, a dry run ({self.rule})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFinished(OutlastEvent):
    """A call has its answer's head (`status`), or its error (`error`, named as httpx's exception).

    `seconds`: from the call's begin, pool and dials included. `attempts`: requests of which a
    byte was written. `address`: who answered, or failed last; "" if there was no connection.
    `scheme`, `host`, `port`: of the URL. `http_version`: of the answer, "1.1" or "2".
    """

    method: str
    scheme: str
    host: str
    port: int
    seconds: float
    attempts: int
    status: int | None = None
    error: str = ""
    address: str = ""
    http_version: str = ""

    def _words(self) -> str:
        end = self.error if self.status is None else str(self.status)
        many = f"{self.attempts} attempt{'s' * (self.attempts != 1)}"
        return f"{self.method} ended in {_ms(self.seconds)} and {many}: {end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExhausted(OutlastEvent):
    """Something was not done because a budget is spent. Told each time.

    `budget`: "retries" (repeats and hedges) or "redials" (extra dials of races).
    """

    budget: str

    def _words(self) -> str:
        return f"the budget for {self.budget} is exhausted"


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitOpen(OutlastEvent):
    """A call was refused, or sent elsewhere, because an endpoint is at a limit: `limit` is
    "in_flight", "waiting", "connections" or "adaptive", and `most` its figure."""

    address: str
    limit: str
    most: int

    def _words(self) -> str:
        return f"{self.address} is full: {self.limit} at {self.most}"


KINDS: tuple[type[OutlastEvent], ...] = (
    EndpointJoined,
    EndpointLeft,
    EndpointEjected,
    EndpointReturned,
    CheckChanged,
    PanicBegan,
    PanicEnded,
    LookupFinished,
    DialFailed,
    ConnectionOpened,
    ConnectionReused,
    ConnectionClosed,
    ConnectionSuspect,
    PoolWaited,
    AttemptFailed,
    HedgeStarted,
    RepeatHeldBack,
    CallFinished,
    BudgetExhausted,
    CircuitOpen,
)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _code(number: int | None) -> str:
    return "" if number is None else f" [{errno_names.errorcode.get(number, number)}]"
