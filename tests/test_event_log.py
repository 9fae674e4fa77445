"""Events in Python's logging: levels, texts, fields, and silence until somebody asks."""

from __future__ import annotations

import dataclasses
import json
import logging
import math

import pytest

import outlast
from outlast import events
from outlast.event_log import LEVELS, fields, log_events
from outlast.events import OutlastEvent, emit, wanted
from tests.event_samples import attempt_failed, ejected, joined, one_of_each

# What a record has before anybody adds to it, and what logging refuses as `extra`.
OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def test_the_face_has_it() -> None:
    assert outlast.log_events is log_events


def test_silent_until_asked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1)
    for event in one_of_each():
        emit(event)
    assert caplog.records == []


def test_without_kinds_it_logs_what_an_operator_must_know(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with log_events():
        assert not wanted(events.CallFinished)  # a call that is well costs nothing
        assert not wanted(events.ConnectionReused)
        for event in one_of_each():
            emit(event)
    told = {record.outlast_event for record in caplog.records if hasattr(record, "outlast_event")}
    assert told == {kind.__name__ for kind, level in LEVELS.items() if level >= logging.INFO}
    assert {record.name for record in caplog.records} == {"outlast.events"}


def test_every_kind_has_a_level() -> None:
    assert set(LEVELS) == set(events.KINDS)


def test_the_record(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with log_events(events.EndpointEjected):
        emit(ejected())
        emit(joined())
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == str(ejected())
    assert record.__dict__["outlast_event"] == "EndpointEjected"
    assert record.__dict__["outlast_address"] == "10.0.0.1:8080"
    assert record.__dict__["outlast_until"] == 15.0


@pytest.mark.parametrize(
    ("event", "level"),
    [
        (ejected(), logging.WARNING),
        (ejected(enforced=False), logging.INFO),
        (
            events.CheckChanged(at=1.0, target="t", address="a:1", up=False, why="refused"),
            logging.WARNING,
        ),
        (events.CheckChanged(at=1.0, target="t", address="a:1", up=True, why="200"), logging.INFO),
        (attempt_failed(), logging.INFO),
    ],
)
def test_levels(event: OutlastEvent, level: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with log_events(OutlastEvent):
        emit(event)
    assert [record.levelno for record in caplog.records] == [level]


def test_a_level_and_a_logger_of_ones_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with log_events(OutlastEvent, logger="shop.network", level=logging.DEBUG):
        emit(ejected())
    assert [(each.name, each.levelno) for each in caplog.records] == [
        ("shop.network", logging.DEBUG)
    ]


def test_what_the_logger_drops_is_not_formatted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.ERROR, "outlast.events")
    monkeypatch.setattr("outlast.event_log.fields", None)
    with log_events() as subscription:
        emit(ejected())
        assert subscription.active  # else it has called None
    assert caplog.records == []


@pytest.mark.parametrize("event", one_of_each(), ids=lambda event: type(event).__name__)
def test_fields_clash_with_nothing_and_go_into_json(event: OutlastEvent) -> None:
    told = fields(event)
    assert not set(told) & OWN
    assert all(name.startswith("outlast_") for name in told)
    assert json.loads(json.dumps(told))["outlast_target"] == event.target


def test_progress_is_in_words() -> None:
    assert fields(attempt_failed())["outlast_progress"] == "sent, no response"


def test_infinity_is_none() -> None:
    forever = dataclasses.replace(ejected(), until=math.inf)
    assert fields(forever)["outlast_until"] is None
