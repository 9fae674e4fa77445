"""Where a report is found."""

from __future__ import annotations

from types import SimpleNamespace

from outlast.core.report import Report, report_of


def test_a_report_is_found_on_exceptions_and_responses() -> None:
    report = Report(0.0)
    error = ValueError()
    assert report_of(error) is None
    vars(error)["report"] = report
    assert report_of(error) is report
    assert report_of(SimpleNamespace(extensions={"outlast": report})) is report
    assert report_of(SimpleNamespace(extensions={"outlast": "other"})) is None
    assert report_of(SimpleNamespace(extensions={})) is None
    assert report_of(None) is None
