"""The re-dial bucket and the retry budget, by exact figures."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from outlast.core.budget import BudgetPlan, RedialBucket, RetryBudget, WindowCount
from tests.core.world import drained


def takes(bucket: RedialBucket | RetryBudget, now: float, most: int = 2000) -> int:
    """How many can be taken at once."""
    return next((nth for nth in range(most) if not bucket.take(now)), most)


# --- the window -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "left"), [(3.2, 5), (4.0, 5), (9.99, 5), (10.0, 4), (12.99, 4), (13.0, 0), (99.0, 0)]
)
def test_events_leave_the_window_with_their_second(now: float, left: int) -> None:
    window = WindowCount(10)
    window.add(0.9)
    window.add(3.2, 4)
    assert window.advance(now) == left == window.total


def test_a_window_begins_at_any_time_of_the_clock() -> None:
    window = WindowCount(10)
    window.add(1_000_000.5)
    assert window.advance(1_000_009.9) == 1
    assert window.advance(1_000_010.0) == 0


def test_a_clock_that_steps_back_loses_nothing() -> None:
    window = WindowCount(10)
    window.add(20.0)
    window.add(15.0)
    assert window.advance(15.0) == 2
    assert window.advance(29.9) == 2
    assert window.advance(30.0) == 0


def test_a_slot_is_used_again() -> None:
    window = WindowCount(3)
    for second in range(10):
        window.add(float(second))
        assert window.total == min(second + 1, 3)


# --- the re-dial bucket -----------------------------------------------------------------------


def test_a_fresh_bucket_holds_fifty() -> None:
    assert RedialBucket(7.0).level(7.0) == 50.0
    assert takes(RedialBucket(7.0), 7.0) == 50


@pytest.mark.parametrize(
    ("later", "level"),
    [(0.0, 0), (0.05, 0), (0.1, 1), (1.0, 10), (4.99, 49), (5.0, 50), (9e9, 50)],
)
def test_it_refills_by_ten_a_second(later: float, level: int) -> None:
    bucket = drained(100.0)
    assert takes(bucket, 100.0 + later + 1e-9) == level


def test_refilling_does_not_depend_on_how_often_one_looks() -> None:
    bucket = drained()
    for tick in range(1, 1001):
        bucket.level(tick / 500)
    assert bucket.level(2.0) == pytest.approx(20.0)


def test_a_clock_that_steps_back_refills_nothing() -> None:
    bucket = drained(100.0)
    bucket.level(90.0)
    assert bucket.level(100.0) == 0.0
    assert bucket.level(101.0) == 10.0


def test_a_win_gives_back_what_the_race_took_and_earns_one() -> None:
    bucket = RedialBucket(0.0)
    for _ in range(30):
        assert bucket.take(0.0)
    bucket.won(30, 0.0)
    assert bucket.level(0.0) == 51.0


def test_each_win_of_the_last_ten_seconds_makes_room_for_one() -> None:
    bucket = RedialBucket(0.0)
    for _ in range(200):
        bucket.won(0, 3.0)
    assert bucket.capacity(3.0) == 250.0
    assert takes(bucket, 3.0) == 250
    assert bucket.capacity(12.9) == 250.0
    assert bucket.capacity(13.0) == 50.0


def test_room_that_is_gone_takes_its_content_along() -> None:
    bucket = RedialBucket(0.0)
    for _ in range(200):
        bucket.won(0, 3.0)
    assert bucket.level(13.0) == 50.0


def test_a_thousand_is_the_limit() -> None:
    bucket = RedialBucket(0.0)
    for _ in range(5000):
        bucket.won(3, 1.0)
    assert bucket.capacity(1.0) == 1000.0
    assert takes(bucket, 1.0) == 1000


def test_what_comes_back_never_overflows() -> None:
    bucket = RedialBucket(0.0)
    bucket.won(500, 0.0)
    assert bucket.level(0.0) == 51.0


def test_a_part_of_a_dial_is_none() -> None:
    bucket = drained()
    assert not bucket.take(0.09)
    assert bucket.take(0.11)
    assert not bucket.take(0.11)


# --- the retry budget -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "repeats"), [(0, 30), (9, 30), (10, 31), (99, 39), (1000, 130)]
)
def test_the_reserve_and_half_of_a_fifth_may_go_at_once(requests: int, repeats: int) -> None:
    budget = RetryBudget()
    for _ in range(requests):
        budget.request(5.0)
    assert takes(budget, 5.0) == repeats
    assert budget.left(5.0) < 1.0


def test_the_rest_goes_a_tenth_a_second_until_the_fifth_is_spent() -> None:
    budget = RetryBudget()
    for _ in range(1000):
        budget.request(0.0)
    granted = [takes(budget, float(second)) for second in range(10)]
    assert granted == [130, 23, 23, 23, 23, 8, 0, 0, 0, 0]


def test_an_outage_is_no_wave_of_repeats() -> None:
    """Two minutes in which every request wants two: after the first second none has twice the
    mean, and the waves of windows that end together die away."""
    budget, granted = RetryBudget(), Counter[int]()
    for tick in range(200 * 150):
        now = tick / 200
        budget.request(now)
        for _ in range(2 * (now >= 30)):
            granted[int(now)] += budget.take(now)
    seconds = [200 + granted[second] for second in range(31, 150)]
    assert max(seconds) <= 1.5 * sum(seconds) / len(seconds)
    assert max(seconds[-30:]) <= 1.1 * min(seconds[-30:])


def test_what_was_granted_comes_back_after_the_window() -> None:
    budget = RetryBudget()
    assert takes(budget, 0.5) == 30
    assert takes(budget, 9.99) == 0
    assert takes(budget, 10.0) == 30


def test_requests_earn_for_the_window_only() -> None:
    budget = RetryBudget()
    for _ in range(100):
        budget.request(0.0)
    assert budget.left(9.9) == 40.0
    assert budget.left(10.0) == 30.0


def test_a_slow_client_may_always_repeat() -> None:
    """One request a second, each repeated twice: for an hour nothing is refused."""
    budget = RetryBudget()
    for second in range(3600):
        budget.request(float(second))
        assert budget.take(second + 0.1)
        assert budget.take(second + 0.2)


def test_a_steady_storm_gets_a_fifth_and_the_reserve() -> None:
    budget, granted = RetryBudget(), 0
    for tick in range(60_000):
        budget.request(tick / 1000)
        granted += budget.take(tick / 1000)
    assert 0.19 * 60_000 <= granted <= 0.2 * 60_000 + 30 * 6


def test_other_figures() -> None:
    budget = RetryBudget(ratio=0.5, per_second=0.1)
    for _ in range(10):
        budget.request(0.0)
    assert takes(budget, 0.0) == 3


# --- figures of a call's own ------------------------------------------------------------------


def test_a_call_may_bring_figures_of_its_own() -> None:
    """To one count: what others have taken is gone for it too."""
    budget = RetryBudget()
    for _ in range(100):
        budget.request(0.0)
    assert budget.left(0.0) == 40.0
    assert budget.left(0.0, BudgetPlan(0.5, 0.0)) == 25.0
    assert budget.left(0.0, BudgetPlan(0.0, 0.1)) == 1.0
    assert budget.take(0.0, BudgetPlan(0.0, 0.1))
    assert not budget.take(0.0, BudgetPlan(0.0, 0.1))
    assert budget.left(0.0) == 39.0


def test_nothing_is_granted_where_the_call_forbids_it() -> None:
    assert not RetryBudget().take(0.0, BudgetPlan(0, 0))


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        ((-0.1, 3), "ratio -0.1 is not a number from 0; write (0.2, 3.0)"),
        ((math.inf, 3), "ratio inf"),
        ((math.nan, 3), "ratio nan"),
        ((True, 3), "ratio True"),
        ((0.2, "3"), "per_second '3'"),
    ],
)
def test_figures_that_make_no_sense_are_refused(figures: tuple[Any, Any], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        BudgetPlan(*figures)
    assert str(caught.value).startswith(f"retry_budget: {text}")
