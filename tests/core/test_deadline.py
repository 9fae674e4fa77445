"""Deadlines and stopwatches."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from outlast.core.deadline import NEVER, Deadline, Stopwatch

MOMENTS = st.floats(0.0, 1e6)
SECONDS = st.floats(0.0, 1e4)


def test_a_timeout_becomes_a_point_in_time_once() -> None:
    deadline = Deadline.after(2.5, 10.0)
    assert deadline == Deadline(12.5)
    assert [deadline.remaining(now) for now in (10.0, 12.0, 12.5, 99.0)] == [2.5, 0.5, 0.0, 0.0]
    assert [deadline.expired(now) for now in (10.0, 12.4, 12.5, 99.0)] == [False, False, True, True]


def test_no_timeout_is_never() -> None:
    assert Deadline.after(None, 10.0) == NEVER == Deadline()
    assert NEVER.remaining(1e9) == math.inf
    assert not NEVER.expired(1e9)


def test_the_earlier_one() -> None:
    early, late = Deadline(1.0), Deadline(2.0)
    assert early.earlier(late) is early
    assert late.earlier(early) is early
    assert early.earlier(NEVER) is early
    assert NEVER.earlier(late) is late


@given(MOMENTS, MOMENTS, MOMENTS)
def test_a_deadline_has_expired_when_nothing_remains(one: float, two: float, now: float) -> None:
    deadline = Deadline(one).earlier(Deadline(two))
    assert deadline.at == min(one, two)
    assert deadline.expired(now) == (deadline.remaining(now) == 0.0)


def test_a_stopwatch_is_spent_in_pieces() -> None:
    watch = Stopwatch(5.0)
    assert watch.deadline(100.0) == Deadline(105.0)
    watch.spend(100.0, 102.0)
    assert watch.left == 3.0
    assert watch.deadline(200.0) == Deadline(203.0)  # what lay between was not its business
    watch.spend(200.0, 209.0)
    assert watch.left == 0.0
    assert watch.deadline(300.0).expired(300.0)


def test_a_stopwatch_without_a_limit_never_runs_out() -> None:
    watch = Stopwatch(None)
    watch.spend(0.0, 1e9)
    assert watch.deadline(1e9) == NEVER


def test_a_clock_that_steps_back_gives_nothing_back() -> None:
    watch = Stopwatch(5.0)
    watch.spend(10.0, 9.0)
    assert watch.left == 5.0


@given(SECONDS, st.lists(SECONDS, max_size=8))
def test_pieces_never_add_up_to_more_than_the_whole(whole: float, pieces: list[float]) -> None:
    watch, now, spent = Stopwatch(whole), 0.0, 0.0
    for piece in pieces:
        used = min(piece, watch.deadline(now).remaining(now))
        watch.spend(now, now + used)
        now += used
        spent += used
    assert spent <= whole * (1 + 1e-9)
    assert watch.left >= 0.0
