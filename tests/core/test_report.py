"""The time line of a call: what it keeps, and how it reads."""

from __future__ import annotations

import errno

import pytest

from outlast.core.classify import Progress
from outlast.core.report import FIRST_KEPT, MAX_EVENTS, Event, Report


def test_times_are_seconds_since_the_call_began() -> None:
    report = Report(100.0)
    report.add(100.0, "pool", "nothing idle")
    report.add(101.5, "connect", "no answer", address="10.0.0.1:80", local_port=40_000)
    assert [event.at for event in report] == [0.0, 1.5]


def test_what_a_call_begins_with_reads_like_any_event() -> None:
    report, other = Report(100.0), Report(100.0)
    report.begin(100.5, "pool", "reused", "10.0.0.1:80", 4000, 0)
    assert len(report) == 1
    report.begin(101.0, "pool", "reused", "10.0.0.2:80", 4001, 1)
    for at, host, port, attempt in ((100.5, "10.0.0.1", 4000, 0), (101.0, "10.0.0.2", 4001, 1)):
        other.add(at, "pool", "reused", address=f"{host}:80", local_port=port, attempt=attempt)
    assert report.events == other.events
    assert all(type(event) is Event for event in report)
    assert str(report) == str(other)


def test_events_belong_to_the_attempt_under_way_unless_said_otherwise() -> None:
    report = Report(0.0)
    report.add(0.0, "request", "first")
    report.attempt = 1
    report.add(0.0, "request", "second")
    report.add(0.0, "request", "first again", attempt=0)
    assert [event.attempt for event in report] == [0, 1, 0]


def test_the_farthest_progress_of_any_attempt() -> None:
    assert Report(0.0).progress is Progress.NOT_SENT
    report = Report(0.0)
    report.add(0.0, "request", "reset", progress=Progress.SENT)
    report.add(0.0, "connect", "refused")
    assert report.progress is Progress.SENT


def test_events_of_one_phase() -> None:
    report = Report(0.0)
    for phase in ("pool", "connect", "connect", "request"):
        report.add(0.0, phase, "what")
    assert len(report.of_phase("connect")) == 2
    assert report.of_phase("lookup") == []


def test_a_note_is_kept_once() -> None:
    report = Report(0.0)
    for text in ("no TCP_INFO here", "no TCP_INFO here", "sticky"):
        report.note(text)
    assert report.notes == ("no TCP_INFO here", "sticky")


def test_a_report_reads_as_a_table() -> None:
    report = Report(0.0)
    code = errno.ECONNREFUSED
    report.add(0.0204, "connect", "refused", address="10.0.0.1:80", local_port=40_000, errno=code)
    report.add(12.5, "lookup", "no address", address="orders.shop.svc:80")
    report.add(13.0, "decision", "given up", attempt=1)
    report.note("this machine tells no TCP state")
    assert str(report).splitlines() == [
        "   0.020 s  #0  connect    10.0.0.1:80 (from port 40000)  refused [ECONNREFUSED]",
        "  12.500 s  #0  lookup     orders.shop.svc:80  no address",
        "  13.000 s  #1  decision   given up",
        "note: this machine tells no TCP state",
    ]
    assert repr(report) == "<Report: 3 events, nothing sent>"


@pytest.mark.parametrize(
    ("code", "name"), [(errno.EINVAL, "EINVAL"), (99_999, "99999"), (-2, "-2")]
)
def test_an_errno_without_a_name_is_a_number(code: int, name: str) -> None:
    assert str(Event(0.0, 0, "lookup", "what", errno=code)).endswith(f"what [{name}]")


def test_no_errno_leaves_no_brackets() -> None:
    assert str(Event(0.0, 0, "pool", "what")).endswith("what")


def outage(events: int) -> Report:
    """A request that was sent, then so many dials, then the end."""
    report = Report(0.0)
    report.add(0.0, "request", "reset", progress=Progress.SENT)
    for nth in range(events):
        report.add(float(nth), "connect", f"dial {nth}")
    report.add(float(events), "decision", "given up")
    return report


def test_a_long_outage_does_not_grow_the_report() -> None:
    report = outage(2000)
    assert len(report) == MAX_EVENTS
    assert report.dropped == 2002 - MAX_EVENTS
    assert "... and 1502 more events" in str(report)


def test_a_short_one_is_kept_whole() -> None:
    report = outage(MAX_EVENTS - 2)
    assert (len(report), report.dropped) == (MAX_EVENTS, 0)
    assert "more events" not in str(report)


def test_the_beginning_and_the_end_are_kept() -> None:
    """How it ended is what a report is read for."""
    report = outage(2000)
    assert [event.what for event in report][:3] == ["reset", "dial 0", "dial 1"]
    assert [event.what for event in report][-3:] == ["dial 1998", "dial 1999", "given up"]
    lines = str(report).splitlines()
    assert lines[FIRST_KEPT] == "... and 1502 more events"
    assert lines[FIRST_KEPT - 1].endswith(f"dial {FIRST_KEPT - 2}")
    assert lines[-1].endswith("given up")


def test_progress_is_not_forgotten_with_the_event_that_told_it() -> None:
    report = outage(200)
    report.add(200.0, "request", "reset", progress=Progress.RESPONSE_BEGUN)
    for nth in range(2000):
        report.add(float(nth), "connect", f"dial {nth}")
    assert max(event.progress for event in report) is Progress.SENT
    assert report.progress is Progress.RESPONSE_BEGUN
