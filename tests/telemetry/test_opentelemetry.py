"""OpenTelemetry: what its SDK's reader collects of events and of a snapshot; events of spans."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from outlast import events
from outlast.events import emit
from outlast.service.snapshot import Snapshot
from outlast.telemetry import opentelemetry
from outlast.telemetry.measures import MEASURES, REQUEST
from outlast.telemetry.states import STATES
from tests import event_samples as samples
from tests.event_samples import TARGET, one_of_each
from tests.telemetry.tables import Table, healthy, out

PEER = {"network.peer.address": "10.0.0.1", "network.peer.port": 8080}
OTHER = "[2001:db8::2]:8080"
OTHER_PEER = {"network.peer.address": "2001:db8::2", "network.peer.port": 8080}
OF = {"outlast.target": TARGET}


class Collected:
    """What one collection has found."""

    def __init__(self, reader: InMemoryMetricReader) -> None:
        data = reader.get_metrics_data()
        self.metrics: dict[str, Metric] = {}
        for resource in () if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                assert scope.scope.name == "outlast"
                self.metrics.update((metric.name, metric) for metric in scope.metrics)

    def points(self, name: str) -> list[tuple[Mapping[str, Any], Any]]:
        """Attributes, and the value or the sum of a histogram."""
        if name not in self.metrics:
            return []
        return [
            (dict(point.attributes or {}), getattr(point, "value", getattr(point, "sum", None)))
            for point in self.metrics[name].data.data_points
        ]


@contextmanager
def counting(**options: Any) -> Iterator[InMemoryMetricReader]:
    reader = InMemoryMetricReader()
    options.setdefault("snapshot", lambda: Snapshot(at=0.0))  # else what other tests have left
    provider = MeterProvider([reader], shutdown_on_exit=False)
    try:
        with opentelemetry.subscribe(meter_provider=provider, **options):
            yield reader
    finally:
        provider.shutdown()


def test_one_event_of_each_kind() -> None:
    with counting() as reader:
        for event in one_of_each():
            emit(event)
        found = Collected(reader)
    assert len(found.metrics) == len(MEASURES) - 2 + 1  # two are in http.client.request.duration
    for name, metric in found.metrics.items():
        ((attributes, value),) = found.points(name)
        assert value > 0
        assert "network.peer.address" not in attributes
        if name != "http.client.request.duration":
            assert re.fullmatch(r"outlast(\.[a-z_]+)+", name)
            assert attributes.items() >= OF.items()
        assert (metric.description or "").endswith(".")
        assert metric.unit == "s" or re.fullmatch(r"\{[a-z]+\}", metric.unit or "")
    assert found.points("outlast.attempts.failed") == [
        (
            {
                **OF,
                "error.type": "ReadError",
                "outlast.phase": "response",
                "outlast.repeated": "true",
                "outlast.reused": "true",
            },
            1,
        )
    ]


def test_request_duration_is_that_of_the_conventions() -> None:
    with counting() as reader:
        emit(samples.finished())
        emit(samples.finished("BREW", status=503))
        emit(samples.finished(status=None, error="ReadTimeout"))
        found = Collected(reader)
    common = {
        "http.request.method": "GET",
        "server.address": "orders",
        "server.port": 8080,
        "network.protocol.version": "1.1",
    }
    assert [attributes for attributes, _ in found.points("http.client.request.duration")] == [
        {**common, "http.response.status_code": 200},
        {
            **common,
            "http.request.method": "_OTHER",
            "http.response.status_code": 503,
            "error.type": "503",
        },
        {**common, "error.type": "ReadTimeout"},
    ]
    metric = found.metrics["http.client.request.duration"]
    assert metric.unit == "s"
    (first, *_) = metric.data.data_points
    assert tuple(getattr(first, "explicit_bounds")) == REQUEST  # noqa: B009  of histograms only


def test_what_did_not_happen_is_left_out() -> None:
    with counting() as reader:
        emit(samples.opened(handshake=None))
        emit(dataclasses.replace(samples.finished(), http_version=""))
        found = Collected(reader)
    assert found.points("outlast.handshake.duration") == []
    assert found.points("outlast.connect.duration") == [(OF, 0.002)]
    ((attributes, _),) = found.points("http.client.request.duration")
    assert "network.protocol.version" not in attributes


def test_another_instrumentation_may_have_the_requests() -> None:
    with counting(requests=False) as reader:
        emit(samples.finished())
        found = Collected(reader)
    assert set(found.metrics) == {"outlast.requests.sent"}


def test_addresses_where_they_are_asked_for() -> None:
    with counting(addresses=True) as reader:
        emit(samples.opened())
        emit(samples.opened(OTHER))
        emit(samples.opened("unix:/run/orders.sock"))
        found = Collected(reader)
    assert [attributes for attributes, _ in found.points("outlast.connections.opened")] == [
        {**OF, **PEER},
        {**OF, **OTHER_PEER},
        {**OF, "network.peer.address": "/run/orders.sock"},
    ]


def test_targets_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.telemetry.labels.Labels.__init__.__defaults__", (1,))
    with counting(addresses=True) as reader:
        for number in range(3):
            emit(samples.finished(target=f"dns://{number}:80"))
            emit(samples.dial_failed(target=f"dns://{number}:80"))
        found = Collected(reader)
    sent = {
        attributes["outlast.target"]: n for attributes, n in found.points("outlast.requests.sent")
    }
    assert sent == {"dns://0:80": 2, "_OTHER": 4}
    hosts = [attributes for attributes, _ in found.points("http.client.request.duration")]
    assert {attributes["server.address"] for attributes in hosts} == {"orders", "_OTHER"}
    dials = [attributes for attributes, _ in found.points("outlast.dials.failed")]
    assert sum("network.peer.address" in attributes for attributes in dials) == 1


def test_gauges_of_a_snapshot_end_when_an_endpoint_leaves() -> None:
    table = Table(healthy(), out(OTHER))
    with counting(snapshot=table.snapshot) as reader:
        found = Collected(reader)
        assert table.asked == 1  # once for all of them
        table.endpoints = (healthy(),)
        left = Collected(reader)
        assert table.asked == 2
    assert ({**OF, **PEER, "outlast.standing": "in"}, 1) in found.points(
        "outlast.endpoint.standing"
    )
    assert ({**OF, **OTHER_PEER, "outlast.standing": "out"}, 1) in found.points(
        "outlast.endpoint.standing"
    )
    assert found.points("outlast.endpoint.latency") == [({**OF, **PEER}, 0.003)]
    assert ({**OF, **PEER, "http.connection.state": "idle"}, 6) in found.points(
        "outlast.endpoint.connections"
    )
    assert found.points("outlast.target.panic") == [(OF, 1)]
    assert found.metrics["outlast.endpoint.latency"].unit == "s"
    assert len(found.metrics) == len(STATES) - 1  # nothing is known of extra dials
    for name in left.metrics:
        assert all(OTHER_PEER.items() - attributes.items() for attributes, _ in left.points(name))
    assert len(left.points("outlast.endpoint.standing")) == 3


def test_a_snapshot_that_was_read_is_let_go() -> None:
    """It is as large as the table."""
    table = Table(healthy())
    with counting(snapshot=table.snapshot) as reader:
        Collected(reader)
        alone = [Table(healthy()).snapshot()]
        assert sys.getrefcount(table.taken[0]) == sys.getrefcount(alone[0])


def test_what_can_be_summed_is() -> None:
    with counting(snapshot=Table(healthy()).snapshot) as reader:
        found = Collected(reader)
    summed = {
        name for name, metric in found.metrics.items() if hasattr(metric.data, "is_monotonic")
    }
    assert summed == {
        f"outlast.endpoint.{name}"
        for name in ("active_requests", "connections", "in_flight", "waiting")
    }


def test_a_cancelled_one_reads_no_snapshot() -> None:
    table = Table(healthy())
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    subscribed = opentelemetry.subscribe(meter_provider=provider, snapshot=table.snapshot)
    subscribed.cancel()
    subscribed.cancel()
    emit(samples.opened())
    assert Collected(reader).metrics == {}
    assert table.asked == 0
    provider.shutdown()


# -- spans -------------------------------------------------------------------------------------


def in_a_span(
    told: list[events.OutlastEvent], **options: Any
) -> list[tuple[str, Mapping[str, Any]]]:
    """Names and attributes of the events of a span that was current when these happened."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with counting(**options):
        with provider.get_tracer("test").start_as_current_span("GET"):
            for event in told:
                emit(event)
        for event in told:
            emit(event)  # nobody's span
    provider.shutdown()
    (span,) = exporter.get_finished_spans()
    return [(event.name, dict(event.attributes or {})) for event in span.events]


def test_events_of_the_callers_span() -> None:
    assert in_a_span([samples.attempt_failed(status=503)]) == [
        (
            "outlast.attempt.failed",
            {
                **OF,
                **PEER,
                "outlast.attempt": 0,
                "outlast.phase": "response",
                "outlast.why": "connection reset",
                "outlast.progress": "sent, no response",
                "outlast.repeated": True,
                "outlast.decision": "idempotent and unanswered",
                "outlast.errno": 104,
                "outlast.reused": True,
                "error.type": "ReadError",
                "http.response.status_code": 503,
            },
        )
    ]
    ((_, attributes),) = in_a_span([samples.lookup()])
    assert attributes["outlast.addresses"] == ("10.0.0.1", "10.0.0.2")


def test_what_belongs_to_a_call_is_in_its_span() -> None:
    assert [name for name, _ in in_a_span(one_of_each())] == [
        "outlast.endpoint.ejected",
        "outlast.endpoint.returned",
        "outlast.panic.began",
        "outlast.panic.ended",
        "outlast.lookup.finished",
        "outlast.dial.failed",
        "outlast.connection.opened",
        "outlast.connection.suspect",
        "outlast.pool.waited",
        "outlast.attempt.failed",
        "outlast.hedge.started",
        "outlast.repeat.held.back",
        "outlast.budget.exhausted",
        "outlast.circuit.open",
    ]


def test_spans_may_be_left_alone() -> None:
    assert in_a_span(one_of_each(), spans=False) == []


def test_without_the_package_it_says_what_to_install() -> None:
    program = """
import sys
sys.modules["opentelemetry"] = None
try:
    import outlast.telemetry.opentelemetry
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert "pip install 'outlast[opentelemetry]'" in done.stdout
