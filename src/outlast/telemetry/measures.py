"""What is counted and timed, once for all exporters: a table from events to metrics.

Names are OpenTelemetry's (dots, no plural of a unit); Prometheus' are made of them (underscores,
base units, `_total`). Field report FR-82 sets what must be there: new against reused
connections, the idle time before reuse, errors by phase (look-up, connect, TLS, idle pool), and
a histogram for each phase. Histograms have no address: each of their series is a dozen.

What can change back is not counted here: see `states`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from outlast import events
from outlast.events import OutlastEvent
from outlast.telemetry.labels import errno_label, method_label

__all__ = ["MEASURES", "REQUEST", "Measure"]

E = TypeVar("E", bound=OutlastEvent)

# Seconds. Requests: OpenTelemetry's conventions for http.client.request.duration. Connects in a
# cluster take less than a millisecond; a connection lives for minutes (DESIGN section 6).
REQUEST = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
CONNECT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
REST = (0.01, 0.1, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


def _none(event: OutlastEvent) -> tuple[str, ...]:  # noqa: ARG001  that is what it is for
    return ()


def _one(event: OutlastEvent) -> float:  # noqa: ARG001  every event is one
    return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(Generic[E]):
    """One metric that events of one kind feed.

    `labels`: their names, beyond "target" and, with `by_address`, "address"; `values`: of an
    event, in the same order. `amount`: what an event adds (a counter), or a sample of seconds (a
    histogram, if there are `buckets`); None leaves the event out.
    """

    kind: type[E]
    name: str
    text: str
    unit: str = "s"
    labels: tuple[str, ...] = ()
    values: Callable[[E], tuple[str, ...]] = _none
    amount: Callable[[E], float | None] = _one
    buckets: Sequence[float] = ()
    by_address: bool = False


def _yes(value: bool) -> str:
    return "true" if value else "false"


MEASURES: tuple[Measure[Any], ...] = (
    # -- calls ------------------------------------------------------------------------------
    Measure(
        kind=events.CallFinished,
        name="request.duration",
        text="Duration of calls, to the head of the answer or to the error.",
        labels=("method",),
        values=lambda e: (method_label(e.method),),
        amount=lambda e: e.seconds,
        buckets=REQUEST,
    ),
    Measure(
        kind=events.CallFinished,
        name="requests.finished",
        text="Calls that have ended, by status or by error.",
        unit="{request}",
        labels=("method", "status", "error"),
        values=lambda e: (
            method_label(e.method),
            "" if e.status is None else str(e.status),
            e.error,
        ),
    ),
    Measure(
        kind=events.CallFinished,
        name="requests.sent",
        text="Requests of which a byte was written; more than calls by repeats and hedges.",
        unit="{request}",
        labels=("method",),
        values=lambda e: (method_label(e.method),),
        amount=lambda e: e.attempts,
    ),
    Measure(
        kind=events.AttemptFailed,
        name="attempts.failed",
        text="Tries that failed or had an answer that is repeated, and whether they were.",
        unit="{attempt}",
        labels=("phase", "error", "status", "reused", "repeated"),
        values=lambda e: (
            e.phase,
            e.error,
            "" if e.status is None else str(e.status),
            _yes(e.reused),
            _yes(e.repeated),
        ),
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
        values=lambda e: (e.rule,),
    ),
    Measure(
        kind=events.BudgetExhausted,
        name="budget.exhausted",
        text="What was not done because a budget is spent.",
        unit="{refusal}",
        labels=("budget",),
        values=lambda e: (e.budget,),
    ),
    Measure(
        kind=events.CircuitOpen,
        name="circuit.refused",
        text="Times that an endpoint was at a limit.",
        unit="{refusal}",
        labels=("limit",),
        values=lambda e: (e.limit,),
        by_address=True,
    ),
    # -- connections ------------------------------------------------------------------------
    Measure(
        kind=events.PoolWaited,
        name="pool.wait.duration",
        text="Time that calls stood in line for a connection.",
        labels=("granted",),
        values=lambda e: (_yes(e.granted),),
        amount=lambda e: e.seconds,
        buckets=REQUEST,
    ),
    Measure(
        kind=events.LookupFinished,
        name="lookup.duration",
        text="Duration of look-ups of a name.",
        labels=("failed",),
        values=lambda e: (_yes(bool(e.error)),),
        amount=lambda e: e.seconds,
        buckets=CONNECT,
    ),
    Measure(
        kind=events.ConnectionOpened,
        name="connect.duration",
        text="From SYN to established, of dials that won their race.",
        amount=lambda e: e.connect,
        buckets=CONNECT,
    ),
    Measure(
        kind=events.ConnectionOpened,
        name="handshake.duration",
        text="Duration of TLS handshakes and tunnels of dials that won their race.",
        amount=lambda e: e.handshake,
        buckets=CONNECT,
    ),
    Measure(
        kind=events.DialFailed,
        name="dials.failed",
        text="Dials that failed, or were given up unanswered (no errno).",
        unit="{dial}",
        labels=("phase", "errno"),
        values=lambda e: (e.phase, errno_label(e.errno)),
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
        amount=lambda e: e.idle,
        buckets=REST,
    ),
    Measure(
        kind=events.ConnectionClosed,
        name="connections.closed",
        text="Connections that were retired, by reason.",
        unit="{connection}",
        labels=("reason",),
        values=lambda e: (e.reason,),
        by_address=True,
    ),
    Measure(
        kind=events.ConnectionClosed,
        name="connection.duration",
        text="Age of connections when they were retired.",
        amount=lambda e: e.age,
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
        values=lambda e: (e.rule, _yes(e.enforced)),
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
        values=lambda e: ("up" if e.up else "down",),
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
