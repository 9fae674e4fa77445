"""Who may come in: limits and pauses, as tables."""

from __future__ import annotations

import math

import pytest

from outlast.shims.forward.gate import LONGEST, SHORTEST, Gate


def test_as_many_as_there_are_places() -> None:
    gate = Gate(2)
    for _ in range(2):
        assert gate.admits(0.0)
        gate.entered()
    assert not gate.admits(0.0)
    gate.joined()
    gate.left()
    assert gate.admits(0.0)


def test_being_full_is_said_once_until_there_was_room_to_speak_of() -> None:
    gate = Gate(20)
    told = []
    for change in [*[gate.entered] * 20, *[gate.left, gate.entered] * 2]:
        change()
        told.append(gate.full_is_news())
    assert told == [*[False] * 19, True, *[False] * 4]
    for _ in range(2):
        gate.left()
        assert not gate.full_is_news()
    for _ in range(2):
        gate.entered()
    assert gate.full_is_news()
    assert not gate.full_is_news()


def test_as_many_as_may_wait_for_upstream_at_once() -> None:
    gate = Gate(100, dials=1)
    gate.entered()
    assert not gate.admits(0.0)
    assert not gate.full_is_news()
    gate.joined()
    assert gate.admits(0.0)


def test_without_descriptors_there_are_pauses_that_grow_and_are_told_once() -> None:
    gate, now, pauses = Gate(10), 0.0, []
    assert gate.due == math.inf
    assert gate.no_room(now) == SHORTEST
    for _ in range(8):
        assert not gate.admits(now)
        pauses.append(gate.due - now)
        gate.opened(now)
        assert not gate.admits(now)
        now = gate.due
        gate.opened(now)
        assert (gate.admits(now), gate.due) == (True, math.inf)
        assert gate.no_room(now) is None
    assert pauses[:3] == pytest.approx([SHORTEST, 2 * SHORTEST, 4 * SHORTEST])
    assert pauses[-1] == pytest.approx(LONGEST)


def test_somebody_who_leaves_ends_the_pause_and_who_enters_makes_the_next_one_news() -> None:
    gate = Gate(10)
    gate.entered()
    gate.joined()
    gate.no_room(0.0)
    gate.left()
    assert gate.admits(0.0)
    assert gate.no_room(0.0) is None
    gate.left()
    gate.entered()
    assert gate.no_room(0.0) == SHORTEST


def test_a_gate_that_is_closed_stays_closed() -> None:
    gate = Gate(10)
    gate.close()
    gate.left()
    assert not gate.admits(0.0)
    assert gate.due == math.inf


@pytest.mark.parametrize("most", [0, -1])
def test_a_gate_for_nobody_is_refused(most: int) -> None:
    with pytest.raises(ValueError, match=r"max_connections: .* lets nobody in"):
        Gate(most)
