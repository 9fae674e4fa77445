"""docs/events.md against the code: every event with its fields, every metric under both names."""

from __future__ import annotations

import dataclasses
import logging
import re

import pytest

from outlast.event_log import LEVELS
from outlast.events import KINDS, OutlastEvent
from outlast.telemetry.measures import MEASURES
from outlast.telemetry.states import STATES
from tests.docs.pages import page

ROWS = list(page("docs/events.md").rows())


def code(cell: str) -> list[str]:
    """What stands in code in a cell."""
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_is_told_with_its_fields(kind: type[OutlastEvent]) -> None:
    (row,) = (row for row in ROWS if len(row) == 3 and kind.__name__ in code(row[0]))
    names = {field.name for field in dataclasses.fields(kind)} - {"at", "target"}
    shared = len(code(row[0])) > 1  # two kinds in one row have the fields of both
    assert names <= set(code(row[2]))
    assert shared or names == set(code(row[2]))


def test_every_metric_is_told_under_both_names() -> None:
    told = {
        code(row[0])[-1]: (code(row[1])[0], row[2])
        for row in ROWS
        if len(row) == 3 and any("outlast_" in name for name in code(row[1]))
    }
    for measure in MEASURES:
        if measure.name in ("request.duration", "requests.finished"):
            continue
        end = "_seconds" if measure.buckets else "_total"
        labels = [*measure.labels, *(["address"] if measure.by_address else [])]
        name = f"outlast_{measure.name.replace('.', '_')}{end}"
        assert told.pop(f"outlast.{measure.name}") == (name, ", ".join(labels) or "-")
    for state in STATES:
        name = f"outlast_{state.name.replace('.', '_')}{'_seconds' * (state.unit == 's')}"
        assert told.pop(f"outlast.{state.name}") == (name, ", ".join(state.labels) or "-")
    assert set(told) == {"http.client.request.duration"}


def test_every_level_is_told() -> None:
    told = {
        logging.getLevelName(row[0].split(",")[0]): set(code(row[1]))
        for row in ROWS
        if row[0].split(",")[0] in ("WARNING", "INFO", "DEBUG")
    }
    for kind, level in LEVELS.items():
        assert kind.__name__ in told[level]
