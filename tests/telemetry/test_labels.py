"""Labels: what may be one, and how many there can be."""

from __future__ import annotations

import os
import signal

import pytest

from outlast.events import CallFinished
from outlast.service import table
from outlast.telemetry import labels
from outlast.telemetry.labels import OTHER, Labels, errno_label, method_label
from outlast.telemetry.measures import Measure


@pytest.mark.parametrize(
    ("method", "label"), [("GET", "GET"), ("PATCH", "PATCH"), ("get", OTHER), ("BREW", OTHER)]
)
def test_methods(method: str, label: str) -> None:
    assert method_label(method) == label


@pytest.mark.parametrize(("number", "label"), [(None, ""), (111, "ECONNREFUSED"), (98765, "98765")])
def test_errnos(number: int | None, label: str) -> None:
    assert errno_label(number) == label


def test_as_many_targets_as_the_table_keeps() -> None:
    assert labels.MOST_TARGETS == table.MAX_TARGETS


def test_targets() -> None:
    names = Labels(most_targets=2)
    assert [names.target(text) for text in "abcab"] == ["a", "b", OTHER, "a", "b"]
    assert names.address("a", "10.0.0.1:80") == "10.0.0.1:80"
    assert names.address("c", "10.0.0.1:80") == ""


def test_an_address_ends_with_its_endpoint() -> None:
    names = Labels()
    names.left("a", "10.0.0.1:80")
    assert names.address("a", "10.0.0.1:80") == ""
    assert names.address("b", "10.0.0.1:80") == "10.0.0.1:80"
    names.joined("a", "10.0.0.1:80")
    names.joined("a", "10.0.0.2:80")
    assert names.address("a", "10.0.0.1:80") == "10.0.0.1:80"


def test_those_that_left_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "MOST_DEPARTED", 2)
    names = Labels()
    for address in ("a:1", "b:1", "c:1"):
        names.left("t", address)
    assert [names.address("t", each) for each in ("a:1", "b:1", "c:1")] == ["a:1", "", ""]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_child_of_a_fork_has_a_lock_of_its_own() -> None:
    names = Labels()
    with names.lock:
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # a lock that is never let go ends here
            with names.lock:
                os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)


@pytest.mark.parametrize("wrong", [{"labels": ("colour",)}, {"of": "colour"}])
def test_a_metric_of_a_field_that_its_event_lacks_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="x: CallFinished has no field 'colour'"):
        Measure(kind=CallFinished, name="x", text="X.", **wrong)  # type: ignore[arg-type]  # a table
