"""Prometheus: what a scrape shows of events and of a snapshot, and what it shows no more."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

from outlast import events
from outlast.events import emit
from outlast.telemetry import prometheus
from outlast.telemetry.measures import MEASURES
from outlast.telemetry.states import STATES
from tests import event_samples as samples
from tests.event_samples import ADDRESS, TARGET, one_of_each
from tests.telemetry.tables import Table, healthy, out

OTHER = "10.0.0.2:8080"

# One event of each kind, as a scrape shows it: counts, and the count and sum of histograms.
AT = f'address="{ADDRESS}"'
OF = f'target="{TARGET}"'
SCRAPE = f"""
outlast_attempts_failed_total{{{AT},error="ReadError",phase="response",repeated="true",\
reused="true",status="",{OF}}} 1.0
outlast_budget_exhausted_total{{budget="retries",{OF}}} 1.0
outlast_checks_changed_total{{{AT},check="down",{OF}}} 1.0
outlast_circuit_refused_total{{{AT},limit="in_flight",{OF}}} 1.0
outlast_connect_duration_seconds_count{{{OF}}} 1.0
outlast_connect_duration_seconds_sum{{{OF}}} 0.002
outlast_connection_duration_seconds_count{{{OF}}} 1.0
outlast_connection_duration_seconds_sum{{{OF}}} 60.0
outlast_connection_idle_duration_seconds_count{{{OF}}} 1.0
outlast_connection_idle_duration_seconds_sum{{{OF}}} 3.5
outlast_connections_closed_total{{{AT},reason="idle",{OF}}} 1.0
outlast_connections_opened_total{{{AT},{OF}}} 1.0
outlast_connections_reused_total{{{AT},{OF}}} 1.0
outlast_connections_suspected_total{{{AT},{OF}}} 1.0
outlast_dials_failed_total{{{AT},errno="ECONNREFUSED",phase="connect",{OF}}} 1.0
outlast_endpoints_ejected_total{{{AT},enforced="true",rule="connect_failures",{OF}}} 1.0
outlast_endpoints_joined_total{{{OF}}} 1.0
outlast_endpoints_left_total{{{OF}}} 1.0
outlast_endpoints_returned_total{{{AT},{OF}}} 1.0
outlast_handshake_duration_seconds_count{{{OF}}} 1.0
outlast_handshake_duration_seconds_sum{{{OF}}} 0.02
outlast_hedges_started_total{{{OF}}} 1.0
outlast_lookup_duration_seconds_count{{failed="false",{OF}}} 1.0
outlast_lookup_duration_seconds_sum{{failed="false",{OF}}} 0.002
outlast_panics_begun_total{{{OF}}} 1.0
outlast_pool_wait_duration_seconds_count{{granted="true",{OF}}} 1.0
outlast_pool_wait_duration_seconds_sum{{granted="true",{OF}}} 0.25
outlast_repeats_held_back_total{{rule="retry_status",{OF}}} 1.0
outlast_request_duration_seconds_count{{method="GET",{OF}}} 1.0
outlast_request_duration_seconds_sum{{method="GET",{OF}}} 0.03
outlast_requests_finished_total{{error="",method="GET",status="200",{OF}}} 1.0
outlast_requests_sent_total{{method="GET",{OF}}} 2.0
"""


def scrape(registry: CollectorRegistry) -> dict[str, float]:
    """Series and values, without buckets and times of creation."""
    lines = generate_latest(registry).decode().splitlines()
    series = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {
        name: float(value)
        for name, _, value in series
        if "_bucket{" not in name and "_created{" not in name
    }


@contextmanager
def counting(table: Table | None = None) -> Iterator[CollectorRegistry]:
    registry = CollectorRegistry()
    snapshot = None if table is None else table.snapshot
    with prometheus.subscribe(registry, snapshot=snapshot):
        yield registry
    assert scrape(registry) == {}


def test_one_event_of_each_kind() -> None:
    with counting() as registry:
        for event in one_of_each():
            if not isinstance(event, events.EndpointLeft):
                emit(event)
        emit(samples.left("10.0.0.9:8080"))
        told = "\n".join(f"{series} {value}" for series, value in sorted(scrape(registry).items()))
    assert told == SCRAPE.strip()


def test_every_kind_is_measured() -> None:
    fed = {measure.kind for measure in MEASURES}
    assert set(events.KINDS) - fed == {events.PanicEnded}  # the gauge shows it


def test_names_are_prometheus_own() -> None:
    with counting(Table(healthy())) as registry:
        families = {family.name: family for family in registry.collect()}
    assert len(families) == len(MEASURES) + len(STATES)
    assert all(name.startswith("outlast_") for name in families)
    assert all(family.documentation.endswith(".") for family in families.values())
    timed = {name for name, family in families.items() if family.type == "histogram"}
    assert timed == {name for name in families if name.endswith("_duration_seconds")}


def test_fr81_waits_dials_reuse_retirement_and_repeats_are_told_apart() -> None:
    wait = events.PoolWaited(at=1.0, target=TARGET, seconds=5.0, granted=False)
    closed = events.ConnectionClosed(at=1.0, target=TARGET, address=ADDRESS, reason="peer", age=9.0)
    refused = dataclasses.replace(
        samples.attempt_failed(), repeated=False, decision="not idempotent and maybe sent"
    )
    with counting() as registry:
        for event in (wait, samples.dial_failed(), samples.reused(), closed, refused):
            emit(event)
        told = {series for series, value in scrape(registry).items() if value == 1}
    assert told == {
        f'outlast_pool_wait_duration_seconds_count{{granted="false",{OF}}}',
        f'outlast_dials_failed_total{{{AT},errno="ECONNREFUSED",phase="connect",{OF}}}',
        f"outlast_connections_reused_total{{{AT},{OF}}}",
        f"outlast_connection_idle_duration_seconds_count{{{OF}}}",
        f'outlast_connections_closed_total{{{AT},reason="peer",{OF}}}',
        f"outlast_connection_duration_seconds_count{{{OF}}}",
        (
            f'outlast_attempts_failed_total{{{AT},error="ReadError",phase="response",repeated="false",'
            f'reused="true",status="",{OF}}}'
        ),
    }


def test_fr82_errors_by_phase_and_reused_connections_are_told_apart() -> None:
    with counting() as registry:
        emit(samples.lookup(error="no such name"))
        emit(samples.dial_failed(errno=None))
        emit(samples.dial_failed(phase="handshake", errno=None))
        for phase in ("lookup", "connect", "handshake", "pool", "response"):
            emit(samples.attempt_failed(phase=phase, reused=phase == "response"))
        emit(samples.opened(handshake=None))
        emit(samples.reused(idle=20.0))
        told = scrape(registry)
    assert told[f'outlast_lookup_duration_seconds_count{{failed="true",{OF}}}'] == 1
    for phase in ("connect", "handshake"):
        assert told[f'outlast_dials_failed_total{{{AT},errno="",phase="{phase}",{OF}}}'] == 1
    failed = [name for name in told if name.startswith("outlast_attempts_failed_total")]
    assert len(failed) == 5
    assert sum('reused="true"' in name for name in failed) == 1
    assert told[f"outlast_connections_opened_total{{{AT},{OF}}}"] == 1
    assert told[f"outlast_connections_reused_total{{{AT},{OF}}}"] == 1
    assert f"outlast_handshake_duration_seconds_count{{{OF}}}" not in told


def test_the_series_of_an_endpoint_that_left_are_removed() -> None:
    with counting() as registry:
        for address in (ADDRESS, OTHER):
            emit(samples.joined(address))
            emit(samples.opened(address))
            emit(samples.ejected(address))
        emit(samples.left())
        assert not any(ADDRESS in series for series in scrape(registry))
        assert f'outlast_connections_opened_total{{address="{OTHER}",{OF}}}' in scrape(registry)
        emit(samples.attempt_failed())  # a request that was under way when it left
        late = {name for name in scrape(registry) if "attempts_failed" in name}
        assert len(late) == 1
        assert 'address=""' in late.pop()
        emit(samples.joined())
        emit(samples.opened())
        assert scrape(registry)[f"outlast_connections_opened_total{{{AT},{OF}}}"] == 1


def test_targets_and_methods_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.telemetry.labels.Labels.__init__.__defaults__", (2,))
    with counting() as registry:
        for number in range(5):
            emit(samples.finished("BREW", target=f"dns://{number}:80"))
            emit(samples.dial_failed(target=f"dns://{number}:80"))
        told = scrape(registry)
    sent = {name: n for name, n in told.items() if name.startswith("outlast_requests_sent")}
    assert sent == {
        'outlast_requests_sent_total{method="_OTHER",target="dns://0:80"}': 2.0,
        'outlast_requests_sent_total{method="_OTHER",target="dns://1:80"}': 2.0,
        'outlast_requests_sent_total{method="_OTHER",target="_OTHER"}': 6.0,
    }
    addresses = {
        name for name in told if name.startswith("outlast_dials_failed") and ADDRESS in name
    }
    assert len(addresses) == 2


def test_gauges_of_a_snapshot() -> None:
    table = Table(healthy(), out(OTHER))
    with counting(table) as registry:
        told = scrape(registry)
        assert table.asked == 1  # once for all gauges, and not when it was registered
        table.endpoints = (healthy(),)
        left = scrape(registry)
    assert told[f'outlast_endpoint_standing{{{AT},standing="in",{OF}}}'] == 1
    assert told[f'outlast_endpoint_standing{{{AT},standing="out",{OF}}}'] == 0
    assert told[f'outlast_endpoint_standing{{address="{OTHER}",standing="out",{OF}}}'] == 1
    assert told[f"outlast_endpoint_active_requests{{{AT},{OF}}}"] == 2
    assert told[f"outlast_endpoint_latency_seconds{{{AT},{OF}}}"] == 0.003
    assert f'outlast_endpoint_latency_seconds{{address="{OTHER}",{OF}}}' not in told
    assert told[f'outlast_endpoint_weight{{address="{OTHER}",{OF}}}'] == 0.5
    assert told[f'outlast_endpoint_suspect{{address="{OTHER}",{OF}}}'] == 1
    assert told[f"outlast_endpoint_check_up{{{AT},{OF}}}"] == 1
    assert f'outlast_endpoint_check_up{{address="{OTHER}",{OF}}}' not in told  # nobody checks it
    assert told[f'outlast_endpoint_connections{{{AT},state="active",{OF}}}'] == 2
    assert told[f'outlast_endpoint_connections{{{AT},state="idle",{OF}}}'] == 6
    assert told[f"outlast_endpoint_in_flight{{{AT},{OF}}}"] == 2
    assert told[f"outlast_endpoint_in_flight_limit{{{AT},{OF}}}"] == 2
    assert told[f"outlast_endpoint_waiting{{{AT},{OF}}}"] == 3
    assert told[f"outlast_endpoint_full{{{AT},{OF}}}"] == 1
    assert f'outlast_endpoint_full{{address="{OTHER}",{OF}}}' not in told  # it has no limits
    assert told[f"outlast_target_panic{{{OF}}}"] == 1
    assert told[f"outlast_target_retry_budget{{{OF}}}"] == 12.5
    assert not any("redial" in series for series in told)  # the snapshot does not know
    assert not any(OTHER in series for series in left)


def test_a_second_subscription_to_a_registry_is_refused_and_leaves_the_first() -> None:
    with counting() as registry:
        with pytest.raises(ValueError, match="outlast_request_duration_seconds"):
            prometheus.subscribe(registry)
        emit(samples.opened())
        assert scrape(registry)[f"outlast_connections_opened_total{{{AT},{OF}}}"] == 1


def test_one_that_is_refused_leaves_nothing() -> None:
    registry = CollectorRegistry()
    taken = Counter("outlast_panics_begun", "Somebody else's.", registry=registry)
    with pytest.raises(ValueError, match="outlast_panics_begun"):
        prometheus.subscribe(registry)
    assert [family.name for family in registry.collect()] == ["outlast_panics_begun"]
    assert not any(map(events.wanted, events.KINDS))
    registry.unregister(taken)


def test_cancelling_twice() -> None:
    metrics = prometheus.subscribe(CollectorRegistry())
    metrics.cancel()
    metrics.cancel()


def test_in_multi_process_mode_nothing_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client warns of every removal there, and a warning is an error here."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/nowhere")
    with counting() as registry:
        emit(samples.opened())
        emit(samples.left())
        emit(samples.opened())
        assert scrape(registry)[f"outlast_connections_opened_total{{{AT},{OF}}}"] == 2


def test_without_the_package_it_says_what_to_install() -> None:
    program = """
import sys
sys.modules["prometheus_client"] = None
try:
    import outlast.telemetry.prometheus
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert "pip install 'outlast[prometheus]'" in done.stdout
