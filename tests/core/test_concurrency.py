"""The limit that finds itself: it grows in use, sinks before a queue, is cut by refusals."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from outlast.core.concurrency import AdaptiveLimit, AdaptivePlan


class Server:
    """Serves `places` requests at once; the others queue. Sends windows of answers to a limit."""

    def __init__(self, places: int, plan: AdaptivePlan | None = None) -> None:
        self.places = places
        self.limit = AdaptiveLimit(plan or AdaptivePlan())
        self.now = 0.0

    def windows(self, count: int, in_flight: int | None = None, slower: float = 1.0) -> int:
        """So many seconds with so many in flight, or with as many as the limit allows."""
        for _ in range(count):
            busy = self.limit.limit if in_flight is None else in_flight
            seconds = 0.1 * slower * max(1.0, busy / self.places)
            for _ in range(20):
                self.now += 0.06
                self.limit.answered(self.now, seconds, busy)
        return self.limit.limit


@pytest.mark.parametrize(
    "figures",
    [
        {"least": 0},
        {"least": 30},
        {"start": 300},
        {"most": 10},
        {"queue": -1},
        {"start": "20"},
        {"most": 99.5},
        {"least": True},
    ],
)
def test_plans_that_make_no_sense_are_refused(figures: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^adaptive: "):
        AdaptivePlan(**figures)


def test_it_begins_where_the_plan_says() -> None:
    assert AdaptiveLimit(AdaptivePlan(start=7)).limit == 7


def test_it_grows_while_it_is_used_and_times_hold() -> None:
    assert Server(10_000).windows(300) == 200


def test_it_does_not_grow_while_it_is_not_used() -> None:
    assert Server(10_000).windows(300, in_flight=9) == 20


def test_a_judgement_needs_ten_answers() -> None:
    limit = AdaptiveLimit(AdaptivePlan())
    for second in range(9):
        limit.answered(float(second), 0.1, 20)
    assert limit.limit == 20
    limit.answered(9.0, 0.1, 20)
    assert limit._limit == pytest.approx(20.8)


def test_a_queue_makes_it_sink() -> None:
    server = Server(40)
    before = server.windows(60)
    assert before > 40
    slow = server.windows(30, slower=4.0)
    assert slow < before / 2


def test_it_never_falls_below_the_least_nor_by_more_than_a_tenth_at_once() -> None:
    server = Server(40, AdaptivePlan(least=5))
    server.windows(20)
    before = server.limit._limit
    server.windows(1, slower=100.0)
    assert server.limit._limit >= 0.9 * before
    for _ in range(200):
        server.now += 1.1
        server.limit.answered(server.now, 0.0, 5, refused=True)
    assert server.limit.limit == 5


def test_a_refusal_cuts_once_in_a_window_and_its_time_is_no_measure() -> None:
    limit = AdaptiveLimit(AdaptivePlan())
    for tick in range(100):
        limit.answered(tick * 0.01, 99.0, 20, refused=True)
    limit.answered(1.0, 99.0, 20, refused=True)
    assert limit._limit == pytest.approx(18.0)
    for tick in range(10):
        limit.answered(1.0 + tick * 0.2, 0.1, 20)
    assert limit._limit > 18.0, "the refusals' times have spoilt the average"


def test_times_that_grow_a_little_are_no_queue() -> None:
    server = Server(10_000)
    server.windows(40)
    before = server.limit._limit
    server.windows(1, slower=1.4)
    assert server.limit._limit > before


def test_a_refusal_in_a_bad_window_cuts_no_deeper() -> None:
    """Refused and queueing is one trouble, not two."""
    limit = AdaptiveLimit(AdaptivePlan(start=100))
    for tick in range(11):
        limit.answered(0.1 * tick, 0.1, 100)
    before = limit._limit
    for tick in range(21, 41):
        limit.answered(0.05 * tick, 9.9, 100, refused=tick == 30)
    assert limit._limit == pytest.approx(0.9 * before)


def test_a_bad_time_that_is_over_does_not_hide_the_next() -> None:
    server = Server(10_000)
    server.windows(20)
    server.windows(300, slower=20.0)
    before = server.windows(40)
    assert server.windows(10, slower=6.0) < before


def test_after_a_bad_time_it_recovers() -> None:
    server = Server(1000)
    server.windows(20)
    server.windows(300, slower=10.0)
    assert server.windows(60) > 60


def test_answers_that_take_no_time_are_no_trouble() -> None:
    limit = AdaptiveLimit(AdaptivePlan())
    for tick in range(100):
        limit.answered(tick * 0.1, 0.0, 20)
    assert limit.limit > 20


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_it_stays_within_its_bounds(seed: int) -> None:
    rng = Random(seed)
    limit, now = AdaptiveLimit(AdaptivePlan(least=2, start=4, most=9)), 0.0
    for _ in range(2000):
        now += rng.expovariate(20.0)
        limit.answered(now, rng.expovariate(1.0), rng.randrange(12), refused=rng.random() < 0.1)
        assert 2 <= limit.limit <= 9, f"seed {seed}"
