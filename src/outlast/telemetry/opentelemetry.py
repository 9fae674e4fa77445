"""Metrics and span events for OpenTelemetry, by its API alone (extra `opentelemetry`).

`http.client.request.duration` is that of the HTTP conventions, with their attributes; all else is
`outlast.*`. The conventions' `http.client.open_connections` and `active_requests` are not used:
they ask for the URL's host, and here connections and requests are an endpoint's, whatever URL
they serve; so they are `outlast.endpoint.connections` and `outlast.endpoint.active_requests`.

OpenTelemetry cannot remove a series of a counter. So what is counted has the target alone, unless
addresses are asked for; what is read from a snapshot has addresses, which end when the endpoint
leaves. Span events go to the caller's current span, if it is recorded; no span is begun here.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from outlast import events
from outlast.cancelling import Cancellable
from outlast.core.classify import Progress
from outlast.events import KINDS, CallFinished, OutlastEvent
from outlast.service.overview import snapshot as table_now
from outlast.service.snapshot import Snapshot
from outlast.telemetry.labels import OTHER, Labels, method_label
from outlast.telemetry.measures import MEASURES, REQUEST, Measure
from outlast.telemetry.states import STATES, State

try:
    from opentelemetry import metrics, trace
except ImportError as error:
    raise ImportError(
        "outlast.telemetry.opentelemetry needs the package opentelemetry-api: "
        "pip install 'outlast[opentelemetry]'"
    ) from error

__all__ = ["OpenTelemetryMetrics", "subscribe"]

Attributes = dict[str, "str | int | float | bool | Sequence[str]"]

# Of labels and fields that the conventions have a name for; the others are "outlast.<name>".
NAMES = {
    "error": "error.type",
    "method": "http.request.method",
    "state": "http.connection.state",
    "status": "http.response.status_code",
}
INSTEAD = {"request.duration", "requests.finished"}  # what http.client.request.duration says
# What belongs to a call; the rest is told by metrics, or comes with every call that is well.
IN_SPANS = frozenset(KINDS) - {
    *(CallFinished, events.CheckChanged, events.ConnectionClosed, events.ConnectionReused),
    *(events.EndpointJoined, events.EndpointLeft),
}


def subscribe(
    *,
    meter_provider: metrics.MeterProvider | None = None,
    snapshot: Callable[[], Snapshot] | None = table_now,
    addresses: bool = False,
    requests: bool = True,
    spans: bool = True,
) -> OpenTelemetryMetrics:
    """Count and time what happens from now on, until the result is cancelled. Once per program:
    a second one counts everything again.

    meter_provider: None for the global one.
    snapshot: called at each collection, for the gauges of the endpoint table; `outlast.snapshot`.
        None: there are none.
    addresses: counters have endpoints' addresses too. Their series stay until the program ends,
        also those of endpoints that have left: for sets of endpoints that hardly change.
    requests: False where another instrumentation has `http.client.request.duration` already.
    spans: events of the caller's current span, if it is recorded.

    Thread-safe.
    """
    return OpenTelemetryMetrics(
        meter_provider, snapshot, addresses=addresses, requests=requests, spans=spans
    )


class OpenTelemetryMetrics(Cancellable):
    """Instruments of a meter; see `subscribe`. A context manager. Thread-safe."""

    def __init__(
        self,
        meter_provider: metrics.MeterProvider | None,
        snapshot: Callable[[], Snapshot] | None,
        *,
        addresses: bool,
        requests: bool,
        spans: bool,
    ) -> None:
        meter = metrics.get_meter("outlast", meter_provider=meter_provider)
        self._labels = Labels()
        self._addresses = addresses
        self._fed: dict[type[OutlastEvent], list[tuple[Measure, _Instrument]]] = {}
        for measure in MEASURES:
            if measure.name not in INSTEAD:
                pair = measure, _instrument(measure, meter)
                self._fed.setdefault(measure.kind, []).append(pair)
        self._duration: metrics.Histogram | None = None
        if requests:
            self._duration = meter.create_histogram(
                "http.client.request.duration",
                unit="s",
                description="Duration of HTTP client requests.",
                explicit_bucket_boundaries_advisory=REQUEST,
            )
        self._spans = IN_SPANS if spans else frozenset[type[OutlastEvent]]()
        self._subscription = events.subscribe(self._told, *KINDS)
        if snapshot is not None:
            _observe(meter, _Reader(snapshot, self._subscription))

    def cancel(self) -> None:
        """Count no more, and read no snapshot. Idempotent."""
        self._subscription.cancel()

    def _told(self, event: OutlastEvent) -> None:
        with self._labels.lock:
            target = self._labels.target(event.target)
        for measure, instrument in self._fed.get(type(event), ()):
            self._feed(measure, instrument, event, target)
        if self._duration is not None and isinstance(event, CallFinished):
            self._duration.record(event.seconds, _request(event, known=target != OTHER))
        if type(event) in self._spans:
            span = trace.get_current_span()
            if span.is_recording():
                span.add_event(_event_name(type(event)), _fields(event))

    def _feed(
        self,
        measure: Measure,
        instrument: _Instrument,
        event: OutlastEvent,
        target: str,
    ) -> None:
        amount = measure.amount(event)
        if amount is None:
            return
        attributes = _attributes(target, measure.labels, measure.values(event))
        if measure.by_address and self._addresses and target != OTHER:
            attributes.update(_peer(str(getattr(event, "address", ""))))
        if isinstance(instrument, metrics.Histogram):
            instrument.record(amount, attributes)
        else:
            instrument.add(amount, attributes)


# -- instruments -------------------------------------------------------------------------------

_Instrument = metrics.Counter | metrics.Histogram


def _instrument(measure: Measure, meter: metrics.Meter) -> _Instrument:
    name = f"outlast.{measure.name}"
    if measure.buckets:
        return meter.create_histogram(
            name,
            unit=measure.unit,
            description=measure.text,
            explicit_bucket_boundaries_advisory=measure.buckets,
        )
    return meter.create_counter(name, unit=measure.unit, description=measure.text)


class _Reader:
    """Snapshots, each read once for every state: a collection asks for all in turn."""

    def __init__(self, snapshot: Callable[[], Snapshot], subscription: events.Subscription) -> None:
        self._snapshot = snapshot
        self._subscription = subscription
        self._taken: Snapshot | None = None
        self._read: set[str] = set()

    def read(self, state: State) -> Iterator[metrics.Observation]:
        """One state's values now; nothing once the subscription is over, because OpenTelemetry
        cannot take an instrument back."""
        if not self._subscription.active:
            return
        taken = self._taken
        if taken is None or state.name in self._read:
            taken, self._read = self._snapshot(), set()
        self._read.add(state.name)
        self._taken = taken if len(self._read) < len(STATES) else None
        for target in taken:
            for values, number in state.read(target):
                yield metrics.Observation(number, _attributes(target.target, state.labels, values))


def _observe(meter: metrics.Meter, reader: _Reader) -> None:
    for state in STATES:
        create = (
            meter.create_observable_up_down_counter
            if state.additive
            else meter.create_observable_gauge
        )

        def read(
            _options: metrics.CallbackOptions, state: State = state
        ) -> Iterable[metrics.Observation]:
            return reader.read(state)

        create(f"outlast.{state.name}", [read], unit=state.unit, description=state.text)


# -- attributes --------------------------------------------------------------------------------


def _attributes(target: str, labels: Iterable[str], values: Iterable[str]) -> Attributes:
    """Labels by the conventions' names; an empty one is left out."""
    told: Attributes = {"outlast.target": target}
    for label, value in zip(labels, values, strict=True):
        if label == "address":
            told.update(_peer(value))
        elif label == "status" and value:
            told[NAMES[label]] = int(value)
        elif value:
            told[NAMES.get(label, f"outlast.{label}")] = value
    return told


def _peer(address: str) -> Attributes:
    """An address by the conventions; a Unix socket's path has no port."""
    host, _, port = address.rpartition(":")
    if address.startswith("unix:") or not port.isdigit():
        path = address.removeprefix("unix:")
        return {"network.peer.address": path} if path else {}
    return {"network.peer.address": host.strip("[]"), "network.peer.port": int(port)}


def _request(event: CallFinished, *, known: bool) -> Attributes:
    """Attributes of http.client.request.duration (OpenTelemetry's HTTP conventions 1.23 and
    later): an answer of 400 or above is an error to a client."""
    told: Attributes = {"http.request.method": method_label(event.method)}
    told["server.address"] = event.host if known else OTHER
    if known:
        told["server.port"] = event.port
    error = event.error
    if event.status is not None:
        told["http.response.status_code"] = event.status
        error = error or (str(event.status) if event.status >= 400 else "")
    if error:
        told["error.type"] = error
    if event.http_version:
        told["network.protocol.version"] = event.http_version
    return told


def _event_name(kind: type[OutlastEvent]) -> str:
    """`AttemptFailed` is "outlast.attempt.failed"."""
    return f"outlast{re.sub('(?=[A-Z])', '.', kind.__name__)}".lower()


def _fields(event: OutlastEvent) -> Attributes:
    """An event's fields. Its time is the span event's own."""
    told: Attributes = {}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if field.name == "address":
            told.update(_peer(value))
        elif field.name != "at" and value not in (None, "", (), math.inf):
            name = NAMES.get(field.name, f"outlast.{field.name}")
            told[name] = str(value) if isinstance(value, Progress) else value
    return told
