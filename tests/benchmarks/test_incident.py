"""The incident table: its page says what was measured, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.incident import envoy, haproxy, report
from benchmarks.incident.one_run import Order
from benchmarks.incident.rows import ROWS, WAYS
from benchmarks.incident.runs import Record, kept, read, run_all
from outlast.testing import KernelLab

NAMES = {row.key: row.name for row in ROWS}
WHERE = report.Circumstances("2026-01-02", "a machine", "a 1, b 2", "make it", jobs=1)


def order(row: str, way: str = "pooled") -> Order:
    return Order(row, way, power_off=3.0, leaves=43.0, until=60.0)


def record(row: str, took: list[float], *, errors: int = 0, hung: int = 0) -> Record:
    """A run with these latencies, so many errors of 5 s, and so many calls that hang for 9 s."""
    samples = [[number / 10, seconds, ""] for number, seconds in enumerate(took)]
    samples += [[3.0, 5.0, "ReadTimeout"]] * errors
    told = {
        "samples": samples,
        "hung": [[56.0, 9.0]] * hung,
        "happenings": [{"at": 3.0, "what": "node b loses power"}],
        "stories": ["at 3.1 s, took 250 ms"],
        "where": "a place",
        "stall": 0.012,
    }
    return read(order(row), told)


def runs(*records: Record) -> report.Runs:
    return {(one.order.row, one.order.way): one for one in records}


def page(*records: Record, skipped: dict[str, str] | None = None) -> str:
    return report.page(ROWS, runs(*records), skipped or {}, WHERE)


def row_of(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} | ")][:1]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_a_row_has_the_figures_of_its_run() -> None:
    text = page(record("httpx", [0.002] * 1495 + [0.25], errors=3, hung=2))
    assert row_of(text, "httpx, defaults") == ["1,501", "3", "2", "2.0 ms", "5.0 s", "6", "12 ms"]
    assert "| httpx, defaults | none | 3 ReadTimeout |  |" in text


def test_a_run_that_failed_has_no_figures() -> None:
    text = page(Record(order("httpx"), failure="Traceback: lost"), record("aiohttp", [0.1]))
    assert row_of(text, "httpx, defaults")[0] == "the run failed"
    assert set(row_of(text, "httpx, defaults")[1:]) == {""}


def test_a_row_that_was_not_run_says_why() -> None:
    text = page(record("httpx", [0.1]), skipped={"haproxy-tuned": "haproxy is missing"})
    assert "- httpx via HAProxy, tuned: haproxy is missing." in text
    assert "| httpx via HAProxy, tuned" not in text


def test_nothing_run_is_no_table() -> None:
    assert "|" not in page()


@pytest.mark.parametrize(
    ("other", "marks"),
    [
        ({"took": [0.002] * 1000 + [0.3]}, set()),
        ({"took": [0.002] * 1000 + [0.2]}, {"slowest"}),
        ({"took": [0.002] * 1000, "errors": 1}, set()),
        ({"took": [0.002] * 1000, "hung": 1}, set()),  # it has waited for 9 s
        ({"took": [0.001] * 1000, "errors": 1}, {"p99"}),
        ({"took": [0.001] * 200, "hung": 8}, set()),  # its p99 is that of the calls that ended
        ({"took": [0.002] * 1000}, {"slowest", "over 100 ms"}),
    ],
)
def test_who_does_better_is_told(other: dict[str, object], marks: set[str]) -> None:
    ours = record(report.UNSET, [0.002] * 1000 + [0.25])
    theirs = record("haproxy-tuned", **other)  # type: ignore[arg-type]  # made above
    found = report.behind("pooled", ROWS, runs(ours, theirs))
    assert set(found) == marks
    text = report.page(ROWS, runs(ours, theirs), {}, WHERE)
    assert ("**behind** in slowest: httpx via HAProxy, tuned (" in text) == ("slowest" in marks)


def test_errors_of_ours_are_told_as_behind() -> None:
    ours = record(report.UNSET, [0.002] * 1000, errors=1)
    theirs = record("haproxy-tuned", [0.002] * 1000)
    assert "**behind** in errors: httpx via HAProxy, tuned (0)" in page(ours, theirs)


def test_rows_of_ours_are_not_compared_with_each_other() -> None:
    ours = record(report.UNSET, [0.3])
    assert report.behind("pooled", ROWS, runs(ours, record("outlast-static", [0.1]))) == {}


def test_pictures_are_those_the_page_shows(tmp_path: Path) -> None:
    both = [record("httpx", [0.002] * 50, errors=1), record(report.UNSET, [0.002] * 50)]
    report.pictures(ROWS, runs(*both), tmp_path / "benchmarks")
    written = sorted(path.name for path in (tmp_path / "benchmarks").iterdir())
    assert written == ["incident-httpx.svg", "incident-outlast-vip.svg"]
    for name in written:
        assert f"(benchmarks/{name})" in page(*both)
        ElementTree.parse(tmp_path / "benchmarks" / name)


def test_a_run_is_kept_whole() -> None:
    made = record("httpx", [0.1, 0.2], errors=1, hung=1)
    for one in (made, Record(order("httpx"), failure="lost")):
        told = json.loads(json.dumps(kept(one)))
        assert read(Order(**told["order"]), told["told"], told["failure"]) == one


def test_rows_are_told_apart() -> None:
    assert len(NAMES) == len(set(NAMES.values())) == len(ROWS)
    assert next(row.key for row in ROWS if row.ours) == report.UNSET


@pytest.mark.parametrize("make", [haproxy.router, haproxy.tuned, envoy.tuned])
def test_a_proxy_is_told_of_every_pod(make: object) -> None:
    assert callable(make)
    text = make(["10.0.0.1:81", "10.0.0.2:82"], 8000)
    if make is envoy.tuned:
        (cluster,) = json.loads(text)["static_resources"]["clusters"]
        (group,) = cluster["load_assignment"]["endpoints"]
        places = [one["endpoint"]["address"]["socket_address"] for one in group["lb_endpoints"]]
        assert [(place["address"], place["port_value"]) for place in places] == [
            ("10.0.0.1", 81),
            ("10.0.0.2", 82),
        ]
    else:
        assert text.count("10.0.0.1:81 ") == text.count("10.0.0.2:82 ") == 1


@pytest.mark.lab
def test_a_run_on_the_lab_is_recorded() -> None:
    if (reason := KernelLab.missing()) is not None:
        pytest.skip(f"kernel lab: {reason}")
    asked = [Order(report.UNSET, way, power_off=0.3, leaves=0.8, until=1.0) for way in WAYS]
    told: list[object] = []
    records = run_all(asked, 2, lambda one, what: told.append((one.way, type(what))))
    for way, made in zip(WAYS, records, strict=True):
        assert made.failure == ""
        assert made.order.way == way
        assert len(made.samples) > 8
        assert [happening.what for happening in made.happenings] == [
            "node b loses power",
            "endpoint leaves",
        ]
        assert (way, Record) in told


@pytest.mark.lab
def test_a_run_that_cannot_be_says_why() -> None:
    if (reason := KernelLab.missing()) is not None:
        pytest.skip(f"kernel lab: {reason}")
    asked = Order("haproxy-tuned", "new", 0.1, 0.2, 0.3, program="/nowhere/haproxy")
    (made,) = run_all([asked], 1, lambda one, what: None)
    assert made.samples == []
    assert "FileNotFoundError" in made.failure
