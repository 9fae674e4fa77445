"""Events as values: frozen, small, told in a sentence, fit for labels; none is forgotten."""

from __future__ import annotations

import dataclasses
import math
import pickle
import re

import pytest

from outlast import event_kinds, events
from outlast.events import KINDS, OutlastEvent
from tests.event_samples import dial_failed, ejected, finished, one_of_each

SENTENCES = """
dns://orders:8080: 10.0.0.1:8080 joined
dns://orders:8080: 10.0.0.1:8080 left
dns://orders:8080: 10.0.0.1:8080 ejected for 5.0 s: 3 connects in a row failed (connect_failures)
dns://orders:8080: 10.0.0.1:8080 returned after 5.5 s: answered
dns://orders:8080: 10.0.0.1:8080 checked down: status 500
dns://orders:8080: panic: 3 of 4 out
dns://orders:8080: panic over after 8.0 s
dns://orders:8080: orders looked up in 2.0 ms: 10.0.0.1, 10.0.0.2
dns://orders:8080: connect to 10.0.0.1:8080 failed in 1.0 ms: refused [ECONNREFUSED]
dns://orders:8080: 10.0.0.1:8080 connected in 2.0 ms, handshake in 20.0 ms, 2 dials
dns://orders:8080: 10.0.0.1:8080 reused after 3.500 s idle
dns://orders:8080: 10.0.0.1:8080 closed after 60.0 s: idle
dns://orders:8080: 10.0.0.1:8080 suspect: 3 repeats unacked
dns://orders:8080: waited 0.250 s for a connection
dns://orders:8080: attempt 0 at 10.0.0.1:8080 failed (response, sent, no response): \
connection reset [ECONNRESET]; repeated: idempotent and unanswered
dns://orders:8080: hedged by attempt 1 after 50.0 ms
dns://orders:8080: not repeated, a dry run (retry_status)
dns://orders:8080: GET ended in 30.0 ms and 2 attempts: 200
dns://orders:8080: the budget for retries is exhausted
dns://orders:8080: 10.0.0.1:8080 is full: in_flight at 10
"""


def test_there_is_a_sample_of_every_kind() -> None:
    assert [type(event) for event in one_of_each()] == list(KINDS)


def test_every_kind_is_listed_and_public() -> None:
    defined = {
        value
        for value in vars(event_kinds).values()
        if isinstance(value, type) and issubclass(value, OutlastEvent)
    }
    assert defined - {OutlastEvent} == set(KINDS)
    assert {kind.__name__ for kind in defined} <= set(events.__all__)


def test_each_is_told_in_a_sentence() -> None:
    assert "\n".join(map(str, one_of_each())) == SENTENCES.strip()


def test_other_words() -> None:
    assert "in 1.0 ms: no answer" in str(dial_failed(errno=None))
    assert str(finished(status=None, error="ReadTimeout")).endswith("2 attempts: ReadTimeout")
    assert "[98765]" in str(dial_failed(errno=98765))
    assert "ejected until its check passes: " in str(dataclasses.replace(ejected(), until=math.inf))
    assert "would be ejected (dry run) for" in str(ejected(enforced=False))
    waited = events.PoolWaited(at=1.0, target="t", seconds=5.0, granted=False)
    assert str(waited).endswith("for a connection in vain")
    slow = dataclasses.replace(finished(), seconds=2.5, attempts=1)
    assert "in 2.50 s and 1 attempt:" in str(slow)


@pytest.mark.parametrize("event", one_of_each(), ids=lambda event: type(event).__name__)
def test_each_is_a_small_frozen_value(event: OutlastEvent) -> None:
    assert not hasattr(event, "__dict__")
    assert hash(event) == hash(dataclasses.replace(event))
    assert pickle.loads(pickle.dumps(event)) == event
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.at = 2.0  # type: ignore[misc]  # that is the test
    assert all(
        isinstance(value, (str, int, float, bool, tuple, type(None)))
        for value in map(event.__getattribute__, (f.name for f in dataclasses.fields(event)))
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_is_explained_or_says_it_all(kind: type[OutlastEvent]) -> None:
    """Fields whose name says it all are left out of the docstrings."""
    plain = {"at", "target", "address", "why", "up", "method", "local_port", "name"}
    plain |= {"errno", "status", "attempt", "seconds"}
    names = {field.name for field in dataclasses.fields(kind)}
    explained = set(re.findall(r"`(\w+)`", kind.__doc__ or ""))
    assert names - plain - explained == set()
