"""Hedging: after which delay, and how much of it."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from outlast.core.hedge import EVEN, MOST_SAVED, SIZE, HedgeDelay, HedgePlan

P95 = HedgePlan(percentile=0.95)
FIXED = HedgePlan(delay=0.05)


def after(*times: float) -> HedgeDelay:
    hedging = HedgeDelay()
    for seconds in times:
        hedging.took(seconds)
    return hedging


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        ({}, "give a delay or a percentile, such as HedgePlan(delay=0.05)"),
        ({"delay": 0.1, "percentile": 0.9}, "give a delay or a percentile"),
        ({"delay": -1.0}, "delay -1.0 is no time in seconds, such as 0.05"),
        ({"delay": math.nan}, "delay nan is no time"),
        ({"percentile": 0.0}, "percentile 0.0 is not as 0.95"),
        ({"percentile": 1.0}, "percentile 1.0 is not as 0.95"),
        ({"percentile": 95}, "percentile 95 is not as 0.95"),
        ({"percentile": 0.9, "least": -0.1}, "least -0.1 is no time"),
        ({"delay": "50ms"}, "delay '50ms' is no time in seconds"),
        ({"delay": math.inf}, "delay inf is no time in seconds"),
        ({"percentile": "p95"}, "percentile 'p95' is not as 0.95"),
        ({"percentile": True}, "percentile True is not as 0.95"),
        ({"percentile": 0.9, "warm_up": 0}, "warm_up 0 is no whole number from 1, such as 20"),
        ({"percentile": 0.9, "warm_up": 2.5}, "warm_up 2.5 is no whole number from 1"),
    ],
)
def test_plans_that_make_no_sense_are_refused(figures: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        HedgePlan(**figures)
    assert str(caught.value).startswith("hedge: ")
    assert text in str(caught.value)


def test_a_fixed_delay_needs_no_knowledge_and_has_no_share() -> None:
    hedging = HedgeDelay()
    assert hedging.after(FIXED) == 0.05
    for _ in range(100):
        assert hedging.allows(FIXED)
        hedging.hedged(FIXED)
    hedging.begun(FIXED)
    assert not hedging.allows(P95)


def test_a_percentile_waits_until_enough_is_known() -> None:
    assert after(*[0.01] * 19).after(P95) is None
    assert after(*[0.01] * 20).after(P95) == pytest.approx(0.01 * EVEN)
    assert after(0.3).after(HedgePlan(percentile=0.5, warm_up=1)) == pytest.approx(0.3 * EVEN)


def test_the_next_response_is_late_with_the_chance_that_was_asked_for() -> None:
    """Of twenty known times even the longest is not late: 1 in 21 will be longer."""
    delay = after(*map(float, range(1, 21))).after(P95)
    assert delay == pytest.approx(20 * EVEN)


def test_a_very_fast_target_is_not_hedged_at_once() -> None:
    assert after(*[0.00001] * 20).after(P95) == 0.001
    assert after(*[0.0] * 20).after(HedgePlan(percentile=0.95, least=0.25)) == 0.25


def test_requests_that_all_take_the_same_time_are_not_late() -> None:
    delay = after(*[0.01] * SIZE).after(P95)
    assert delay is not None
    assert delay > 0.01


def test_old_response_times_are_forgotten() -> None:
    assert after(*[9.0] * SIZE, *[0.01] * SIZE).after(P95) == pytest.approx(0.01 * EVEN)


def test_the_quickest_answer_is_known_after_a_while() -> None:
    assert after(*[0.01] * 19).quickest() == 0.0
    assert after(*[0.03] * 10, 0.01, *[0.02] * 10).quickest() == 0.01
    assert after(0.01, *[0.02] * SIZE).quickest() == 0.02


def test_a_share_must_be_earned() -> None:
    hedging = HedgeDelay()
    for _ in range(19):
        hedging.begun(P95)
        assert not hedging.allows(P95)
    hedging.begun(P95)
    hedging.begun(P95)  # twenty times 0.05 may fall short of 1 by rounding
    assert hedging.allows(P95)
    hedging.hedged(P95)
    assert not hedging.allows(P95)


def test_no_more_than_so_many_hedges_are_saved_up() -> None:
    hedging = HedgeDelay()
    for _ in range(10_000):
        hedging.begun(P95)
    granted = 0
    while hedging.allows(P95):
        hedging.hedged(P95)
        granted += 1
    assert granted == MOST_SAVED


@pytest.mark.parametrize("seed", range(1, 11))
def test_hedges_stay_within_their_share_and_find_the_tail(seed: int) -> None:
    """4,000 calls, every fortieth takes a second; a hedge takes the usual time."""
    rng, hedging = Random(seed), HedgeDelay()
    hedges, totals = 0, list[float]()
    for _ in range(4000):
        hedging.begun(P95)
        first = 1.0 if rng.random() < 0.025 else rng.uniform(0.005, 0.015)
        delay = hedging.after(P95)
        total = first
        if delay is not None and first > delay and hedging.allows(P95):
            hedging.hedged(P95)
            hedges += 1
            total = min(first, delay + rng.uniform(0.005, 0.015))
        hedging.took(total)  # of the first request: what it took, or had taken when overtaken
        totals.append(total)
    totals.sort()
    assert hedges <= 0.05 * 4000, f"seed {seed}"
    assert totals[3960] <= 0.2, f"seed {seed}; without hedging: 1 s"


def test_the_delay_does_not_sink_with_hedges_that_win() -> None:
    """What a hedge has overtaken counts with the time that it had taken until then."""
    rng, hedging = Random(7), HedgeDelay()
    delays = list[float]()
    for _ in range(6000):
        first = rng.uniform(0.0, 0.1)
        delay = hedging.after(P95)
        if delay is not None and first > delay:
            first = delay + 0.001  # a hedge that wins at once
        hedging.took(first)
        delays.append(delay or 0.0)
    assert min(delays[3000:]) >= 0.085
