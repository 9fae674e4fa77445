"""What is counted and timed, once for all exporters: a table from events to metrics.

Names are OpenTelemetry's (dots, no plural of a unit); Prometheus' are made of them (underscores,
base units, `_total`). Field report FR-82 sets what must be there: new against reused
connections, the idle time before reuse, errors by phase (look-up, connect, TLS, idle pool), and
a histogram for each phase. Histograms have no address: each of their series is a dozen.

What can change back is not counted here: see `states`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from outlast import events
from outlast.events import OutlastEvent
from outlast.telemetry.labels import errno_label, method_label

__all__ = ["MEASURES", "REQUEST", "Measure"]

# Seconds. Requests: OpenTelemetry's conventions for http.client.request.duration. Connects in a
# cluster take less than a millisecond; a connection lives for minutes (DESIGN section 6).
REQUEST = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
CONNECT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
REST = (0.01, 0.1, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)

# Labels that are not simply what the field of their name says.
OTHERWISE: dict[str, Callable[[Any], str]] = {
    "method": lambda event: method_label(event.method),
    "errno": lambda event: errno_label(event.errno),
    "failed": lambda event: _text(bool(event.error)),
    "check": lambda event: "up" if event.up else "down",
}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _reader(label: str) -> Callable[[Any], str]:
    value = attrgetter(label)
    return lambda event: _text(value(event))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One metric that events of one kind feed.

    `labels`: their names, beyond "target" and, with `by_address`, "address". `of`: the field that
    an event adds (a counter), or a sample of seconds (a histogram, if there are `buckets`); "" for
    one. ValueError where the kind of event has no such field.
    """

    kind: type[OutlastEvent]
    name: str
    text: str
    unit: str = "s"
    labels: tuple[str, ...] = ()
    of: str = ""
    buckets: Sequence[float] = ()
    by_address: bool = False
    _readers: tuple[Callable[[Any], str], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        known = {"", *OTHERWISE, *(each.name for each in fields(self.kind))}
        for name in (self.of, *self.labels):
            if name not in known:
                raise ValueError(f"{self.name}: {self.kind.__name__} has no field {name!r}")
        readers = tuple(OTHERWISE.get(label) or _reader(label) for label in self.labels)
        object.__setattr__(self, "_readers", readers)

    def values(self, event: OutlastEvent) -> tuple[str, ...]:
        """An event's labels, in the order of `labels`."""
        return tuple([read(event) for read in self._readers])

    def amount(self, event: OutlastEvent) -> float | None:
        """See `of`; None leaves the event out."""
        if not self.of:
            return 1
        number: float | None = getattr(event, self.of)
        return number


MEASURES: tuple[Measure, ...] = (
    # -- calls ------------------------------------------------------------------------------
    Measure(
        kind=events.CallFinished,
        name="request.duration",
        text="Duration of calls, to the head of the answer or to the error.",
        labels=("method",),
        of="seconds",
        buckets=REQUEST,
    ),
    Measure(
        kind=events.CallFinished,
        name="requests.finished",
        text="Calls that have ended, by status or by error.",
        unit="{request}",
        labels=("method", "status", "error"),
    ),
    Measure(
        kind=events.CallFinished,
        name="requests.sent",
        text="Requests of which a byte was written; more than calls by repeats and hedges.",
        unit="{request}",
        labels=("method",),
        of="attempts",
    ),
    Measure(
        kind=events.AttemptFailed,
        name="attempts.failed",
        text="Tries that failed or had an answer that is repeated, and whether they were.",
        unit="{attempt}",
        labels=("phase", "error", "status", "reused", "repeated"),
        by_address=True,
    ),
    Measure(
        kind=events.HedgeStarted,
        name="hedges.started",
        text="Second tries beside slow ones.",
        unit="{request}",
    ),
    Measure(
        kind=events.RepeatHeldBack,
        name="repeats.held_back",
        text="Repeats and hedges that a dry run has only counted.",
        unit="{request}",
        labels=("rule",),
    ),
    Measure(
        kind=events.BudgetExhausted,
        name="budget.exhausted",
        text="What was not done because a budget is spent.",
        unit="{refusal}",
        labels=("budget",),
    ),
    Measure(
        kind=events.CircuitOpen,
        name="circuit.refused",
        text="Times that an endpoint was at a limit.",
        unit="{refusal}",
        labels=("limit",),
        by_address=True,
    ),
    # -- connections ------------------------------------------------------------------------
    Measure(
        kind=events.PoolWaited,
        name="pool.wait.duration",
        text="Time that calls stood in line for a connection.",
        labels=("granted",),
        of="seconds",
        buckets=REQUEST,
    ),
    Measure(
        kind=events.LookupFinished,
        name="lookup.duration",
        text="Duration of look-ups of a name.",
        labels=("failed",),
        of="seconds",
        buckets=CONNECT,
    ),
    Measure(
        kind=events.ConnectionOpened,
        name="connect.duration",
        text="From SYN to established, of dials that won their race.",
        of="connect",
        buckets=CONNECT,
    ),
    Measure(
        kind=events.ConnectionOpened,
        name="handshake.duration",
        text="Duration of TLS handshakes and tunnels of dials that won their race.",
        of="handshake",
        buckets=CONNECT,
    ),
    Measure(
        kind=events.DialFailed,
        name="dials.failed",
        text="Dials that failed, or were given up unanswered (no errno).",
        unit="{dial}",
        labels=("phase", "errno"),
        by_address=True,
    ),
    Measure(
        kind=events.ConnectionOpened,
        name="connections.opened",
        text="New connections.",
        unit="{connection}",
        by_address=True,
    ),
    Measure(
        kind=events.ConnectionReused,
        name="connections.reused",
        text="Requests that a pooled connection has served.",
        unit="{request}",
        by_address=True,
    ),
    Measure(
        kind=events.ConnectionReused,
        name="connection.idle.duration",
        text="Idle time of pooled connections before they were reused.",
        of="idle",
        buckets=REST,
    ),
    Measure(
        kind=events.ConnectionClosed,
        name="connections.closed",
        text="Connections that were retired, by reason.",
        unit="{connection}",
        labels=("reason",),
        by_address=True,
    ),
    Measure(
        kind=events.ConnectionClosed,
        name="connection.duration",
        text="Age of connections when they were retired.",
        of="age",
        buckets=REST,
    ),
    Measure(
        kind=events.ConnectionSuspect,
        name="connections.suspected",
        text="Connections with evidence of the kernel against their peer.",
        unit="{connection}",
        by_address=True,
    ),
    # -- endpoints --------------------------------------------------------------------------
    Measure(
        kind=events.EndpointEjected,
        name="endpoints.ejected",
        text="Ejections, and with enforced=false those of a dry run.",
        unit="{ejection}",
        labels=("rule", "enforced"),
        by_address=True,
    ),
    Measure(
        kind=events.EndpointReturned,
        name="endpoints.returned",
        text="Returns of ejected endpoints.",
        unit="{return}",
        by_address=True,
    ),
    Measure(
        kind=events.CheckChanged,
        name="checks.changed",
        text="Changes of an active check's opinion, to up or down.",
        unit="{change}",
        labels=("check",),
        by_address=True,
    ),
    Measure(
        kind=events.EndpointJoined,
        name="endpoints.joined",
        text="Endpoints that have joined.",
        unit="{endpoint}",
    ),
    Measure(
        kind=events.EndpointLeft,
        name="endpoints.left",
        text="Endpoints that have left.",
        unit="{endpoint}",
    ),
    Measure(
        kind=events.PanicBegan,
        name="panics.begun",
        text="Times that more than half of the endpoints were out, and panic began.",
        unit="{panic}",
    ),
)
