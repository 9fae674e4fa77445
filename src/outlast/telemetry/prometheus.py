"""Metrics for Prometheus, by its own client library (extra `prometheus`).

`outlast_..._total` counts, `outlast_..._seconds` are histograms, and the other gauges are read
from a snapshot at each scrape. Labels are `target`, `address` and small sets, see
`telemetry.labels`; the series of an endpoint that has left are removed. Not in the client's
multi-process mode: there it cannot remove a series, and has no gauges of a snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from outlast import events
from outlast.cancelling import Cancellable
from outlast.events import KINDS, OutlastEvent
from outlast.service.overview import snapshot as table_now
from outlast.service.snapshot import Snapshot
from outlast.telemetry.labels import Labels
from outlast.telemetry.measures import MEASURES, Measure
from outlast.telemetry.states import STATES, State

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
    from prometheus_client.metrics_core import GaugeMetricFamily
except ImportError as error:
    raise ImportError(
        "outlast.telemetry.prometheus needs the package prometheus-client: "
        "pip install 'outlast[prometheus]'"
    ) from error

__all__ = ["PrometheusMetrics", "subscribe"]

MULTI_PROCESS = ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir")


def subscribe(
    registry: CollectorRegistry = REGISTRY,
    *,
    snapshot: Callable[[], Snapshot] | None = table_now,
) -> PrometheusMetrics:
    """Count and time what happens from now on, until the result is cancelled.

    registry: where the metrics are registered; once each, or its ValueError is raised.
    snapshot: called at each scrape, for the gauges of the endpoint table; `outlast.snapshot`.
        None: there are none.

    Thread-safe.
    """
    return PrometheusMetrics(registry, snapshot)


class PrometheusMetrics(Cancellable):
    """Metrics in a registry; see `subscribe`. A context manager. Thread-safe."""

    def __init__(
        self, registry: CollectorRegistry, snapshot: Callable[[], Snapshot] | None
    ) -> None:
        self._registry = registry
        self._labels = Labels()
        self._removes = not any(name in os.environ for name in MULTI_PROCESS)
        self._children: dict[_Series, _Metric] = {}  # the client's own look-up takes longer
        self._series: dict[tuple[str, str], list[_Series]] = {}  # of each endpoint
        self._fed: dict[type[OutlastEvent], list[tuple[Measure, _Metric]]] = {}
        self._registered: list[_Metric | _States] = []
        try:
            for measure in MEASURES:
                metric = _metric(measure, registry)
                self._registered.append(metric)
                self._fed.setdefault(measure.kind, []).append((measure, metric))
            if snapshot is not None:
                states = _States(snapshot)
                registry.register(states)
                self._registered.append(states)
        except ValueError:  # a name is taken: by another subscription to the same registry
            self._unregister()
            raise
        self._subscription = events.subscribe(self._told, *KINDS)

    def cancel(self) -> None:
        """Count no more, and take the metrics out of the registry. Idempotent."""
        self._subscription.cancel()
        self._unregister()

    def _unregister(self) -> None:
        while self._registered:
            self._registry.unregister(self._registered.pop())

    def _told(self, event: OutlastEvent) -> None:
        with self._labels.lock:
            if isinstance(event, events.EndpointJoined):
                self._labels.joined(event.target, event.address)
            for measure, metric in self._fed.get(type(event), ()):
                self._feed(measure, metric, event)
            if isinstance(event, events.EndpointLeft) and self._removes:
                self._labels.left(event.target, event.address)
                for series in self._series.pop((event.target, event.address), ()):
                    metric, values = series
                    metric.remove(*values)
                    del self._children[series]

    def _feed(self, measure: Measure, metric: _Metric, event: OutlastEvent) -> None:
        amount = measure.amount(event)
        if amount is None:
            return
        values = (self._labels.target(event.target), *measure.values(event))
        address = ""
        if measure.by_address:
            address = self._labels.address(event.target, str(getattr(event, "address", "")))
            values = (*values, address)
        child = self._children.get((metric, values))
        if child is None:
            child = self._children[metric, values] = metric.labels(*values)
            if address and self._removes:
                self._series.setdefault((event.target, address), []).append((metric, values))
        if isinstance(child, Histogram):
            child.observe(amount)
        else:
            child.inc(amount)


_Metric = Counter | Histogram
_Series = tuple[_Metric, tuple[str, ...]]


def _metric(measure: Measure, registry: CollectorRegistry) -> _Metric:
    labels = ("target", *measure.labels, *(("address",) if measure.by_address else ()))
    name = _name(measure.name, measure.unit)
    if measure.buckets:
        return Histogram(name, measure.text, labels, buckets=measure.buckets, registry=registry)
    return Counter(name, measure.text, labels, registry=registry)


def _name(name: str, unit: str) -> str:
    """Base units stand in the name; the client adds `_total` to a counter's by itself."""
    return f"outlast_{name.replace('.', '_')}{'_seconds' if unit == 's' else ''}"


class _States:
    """Gauges of the endpoint table, read at each scrape."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """The names, without a look at the table."""
        return [_family(state) for state in STATES]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The values of this moment."""
        taken = self._snapshot()
        families = []
        for state in STATES:
            family = _family(state)
            for target in taken:
                for values, number in state.read(target):
                    family.add_metric([target.target, *values], number)
            families.append(family)
        return families


def _family(state: State) -> GaugeMetricFamily:
    return GaugeMetricFamily(
        _name(state.name, state.unit), state.text, labels=("target", *state.labels)
    )
