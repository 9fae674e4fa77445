"""The exporters during an incident in virtual time: a machine is lost, another one's pod is ill."""

from __future__ import annotations

import math
import socket

import httpx
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

import outlast
from outlast.telemetry import opentelemetry, prometheus
from tests.http.event_scenes import checked
from tests.http.listening import KINDS, Shop

CALLS = 12 + 60


async def incident(shop: Shop) -> None:
    """A machine is lost for good; the calls that ask for it are answered 503 all the same."""
    for _ in range(12):
        await shop.get()
    shop.nodes[0].power_off()
    for number in range(60):
        await shop.get("?status=503" if number % 20 == 5 else "")
        await shop.nap(0.1)


@pytest.mark.parametrize("client", KINDS)
def test_prometheus_counts_an_incident(client: str) -> None:
    shop = Shop(client)
    shop.configure(checked(shop))
    registry = CollectorRegistry()
    dead, target = shop.pods[0].address, shop.target

    def value(name: str, **labels: str) -> float:
        found = registry.get_sample_value(f"outlast_{name}", {"target": target, **labels})
        return 0.0 if found is None else found

    async def case(shop: Shop) -> None:
        await incident(shop)
        ok = value("requests_finished_total", method="GET", status="200", error="")
        assert ok == CALLS - 3
        assert value("requests_finished_total", method="GET", status="503", error="") == 3
        assert value("requests_sent_total", method="GET") >= CALLS + 6
        assert value("request_duration_seconds_count", method="GET") == CALLS
        assert value("connections_suspected_total", address=dead) == 1
        assert value("connections_closed_total", address=dead, reason="suspect") >= 1
        by_rule = [
            value("endpoints_ejected_total", address=dead, rule=rule, enforced="true")
            for rule in ("connect_failures", "check")  # whichever comes first
        ]
        assert sum(by_rule) == 1
        assert value("checks_changed_total", address=dead, check="down") == 1
        new = sum(value("connections_opened_total", address=each.address) for each in shop.pods)
        reused = sum(value("connections_reused_total", address=each.address) for each in shop.pods)
        assert new + reused >= value("requests_sent_total", method="GET")
        assert new == value("connect_duration_seconds_count")
        assert reused == value("connection_idle_duration_seconds_count")
        assert value("endpoint_standing", address=dead, standing="out") == 1
        assert value("endpoint_check_up", address=dead) == 0
        assert value("endpoint_connections", address=dead, state="idle") == 0
        held = sum(
            value("endpoint_connections", address=each.address, state=state)
            for each in shop.pods
            for state in ("idle", "active")
        )
        counts = shop.transport._engine.pool.counts()
        assert held == counts["idle"] + counts["busy"]
        assert 0 < value("target_retry_budget") < math.inf

    with prometheus.subscribe(registry, snapshot=lambda: outlast.snapshot(shop.net)) as metrics:
        shop.play(case)
        assert metrics._subscription.active


def test_opentelemetry_counts_an_incident() -> None:
    shop = Shop("sync")
    shop.configure(checked(shop))
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)

    def points() -> dict[tuple[str, frozenset[tuple[str, object]]], float]:
        data = reader.get_metrics_data()
        found: dict[tuple[str, frozenset[tuple[str, object]]], float] = {}
        for resource in () if data is None else data.resource_metrics:
            for metric in (each for scope in resource.scope_metrics for each in scope.metrics):
                for point in metric.data.data_points:
                    labels = frozenset((point.attributes or {}).items())
                    number = getattr(point, "count", getattr(point, "value", None))
                    assert number is not None
                    found[metric.name, labels] = number
        return found

    async def case(shop: Shop) -> None:
        await incident(shop)
        found = points()
        calls = {
            dict(labels)["http.response.status_code"]: number
            for (name, labels), number in found.items()
            if name == "http.client.request.duration"
        }
        assert calls == {200: CALLS - 3, 503: 3}
        of = ("outlast.target", shop.target)
        assert found["outlast.connections.suspected", frozenset({of})] == 1
        host, port = shop.pods[0].address.split(":")
        peer = {("network.peer.address", host), ("network.peer.port", int(port))}
        standing = frozenset({of, *peer, ("outlast.standing", "out")})
        assert found["outlast.endpoint.standing", standing] == 1

    with opentelemetry.subscribe(
        meter_provider=provider, spans=False, snapshot=lambda: outlast.snapshot(shop.net)
    ):
        shop.play(case)
    provider.shutdown()


def test_by_default_the_gauges_are_those_of_this_process() -> None:
    """Of the kernel's network, that is."""
    registry = CollectorRegistry()
    with socket.socket() as nobody, outlast.client() as client, prometheus.subscribe(registry):
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(httpx.ConnectError, match="refused"):
            client.get(f"http://{address}/")
        labels = {"target": f"static://{address}", "address": address, "state": "idle"}
        assert registry.get_sample_value("outlast_endpoint_connections", labels) == 0
