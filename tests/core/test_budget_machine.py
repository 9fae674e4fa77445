"""The budgets against slow and simple models of themselves, through any history."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlast.core.budget import RedialBucket, RetryBudget
from tests.examples import examples

STEPS = st.sampled_from([0.0, 0.001, 0.05, 0.1, 0.3, 1.0, 1.0, 3.3, 9.9, 10.0, 60.0])
STARTS = st.sampled_from([0.0, 0.5, 17.25, 86_400.0])


def recent(events: Counter[int], now: float) -> int:
    """How many lie in the ten whole seconds that end with the one under way."""
    return sum(count for second, count in events.items() if int(now) - 9 <= second)


class RedialMachine(RuleBasedStateMachine):
    """Races that take, win and lose."""

    @initialize(start=STARTS)
    def begin(self, start: float) -> None:
        self.start = self.now = start
        self.bucket = RedialBucket(start)
        self.level = 50.0
        self.wins: Counter[int] = Counter()
        self.races: list[int] = []  # what the races under way have taken
        self.lost = 0

    def capacity(self) -> float:
        return min(1000.0, 50.0 + recent(self.wins, self.now))

    @rule(seconds=STEPS)
    def time_passes(self, seconds: float) -> None:
        self.level += 10.0 * seconds
        self.now += seconds
        self.level = min(self.level, self.capacity())
        self.bucket.level(self.now)  # as often as the model, whose capacity shrinks by steps

    @rule()
    def a_race_begins(self) -> None:
        self.races.append(0)

    @precondition(lambda self: self.races)
    @rule(dials=st.integers(1, 30))
    def the_last_race_dials(self, dials: int) -> None:
        for _ in range(dials):
            near = abs(self.level - 1.0) < 1e-6  # float sums may fall on either side
            granted = self.bucket.take(self.now)
            assert near or granted == (self.level >= 1.0)
            if granted:
                self.level -= 1.0
                self.races[-1] += 1

    @precondition(lambda self: self.races)
    @rule()
    def the_last_race_wins(self) -> None:
        taken = self.races.pop()
        self.wins[int(self.now)] += 1
        self.bucket.won(taken, self.now)
        self.level = min(self.capacity(), self.level + taken + 1)

    @precondition(lambda self: self.races)
    @rule()
    def the_last_race_is_lost(self) -> None:
        self.lost += self.races.pop()

    @rule(count=st.integers(1, 400))
    def many_races_win_at_once(self, count: int) -> None:
        for _ in range(count):
            self.bucket.won(0, self.now)
        self.wins[int(self.now)] += count
        self.level = min(self.capacity(), self.level + count)

    @invariant()
    def the_bucket_is_as_the_model_says(self) -> None:
        if hasattr(self, "bucket"):
            level = self.bucket.level(self.now)
            assert level == pytest.approx(self.level, abs=1e-6)
            assert 0.0 <= level <= self.bucket.capacity(self.now) <= 1000.0
            assert self.bucket.capacity(self.now) == self.capacity()

    @invariant()
    def what_lost_races_took_was_there(self) -> None:
        """50 at first, 10 a second, and one for each win."""
        if hasattr(self, "bucket"):
            had = 50 + 10 * (self.now - self.start) + self.wins.total()
            assert self.lost + sum(self.races) <= had + 1e-6


class RetryMachine(RuleBasedStateMachine):
    """Requests and repeats."""

    @initialize(
        start=STARTS,
        ratio=st.sampled_from([0.0, 0.1, 0.2, 1.0]),
        per_second=st.sampled_from([0.0, 0.1, 3.0]),
    )
    def begin(self, start: float, ratio: float, per_second: float) -> None:
        self.now = start
        self.ratio, self.reserve = ratio, 10 * per_second
        self.budget = RetryBudget(ratio, per_second)
        self.requests: Counter[int] = Counter()
        self.granted: Counter[int] = Counter()

    @rule(seconds=STEPS)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(count=st.integers(1, 300))
    def requests_come(self, count: int) -> None:
        for _ in range(count):
            self.budget.request(self.now)
        self.requests[int(self.now)] += count

    @rule(count=st.integers(1, 50))
    def repeats_are_asked_for(self, count: int) -> None:
        for _ in range(count):
            left = self.left()
            granted = self.budget.take(self.now)
            assert abs(left - 1.0) < 1e-6 or granted == (left >= 1.0)
            if granted:
                self.granted[int(self.now)] += 1

    def left(self) -> float:
        earned = self.ratio * recent(self.requests, self.now)
        spent = recent(self.granted, self.now)
        at_once = self.reserve + earned / 2 - spent
        evenly = (self.reserve + earned) / 10 - self.granted[int(self.now)]
        return min(self.reserve + earned - spent, max(at_once, evenly))

    @invariant()
    def the_budget_is_as_the_model_says(self) -> None:
        if hasattr(self, "budget"):
            assert self.budget.left(self.now) == pytest.approx(self.left(), abs=1e-6)

    @invariant()
    def no_window_grants_more_than_its_share(self) -> None:
        """What was earned may leave before what it paid for: then nothing is granted, no more."""
        if hasattr(self, "budget"):
            earning = recent(self.requests, self.now - 10)  # those of the last two windows
            assert recent(self.granted, self.now) <= self.ratio * earning + self.reserve + 1e-6


TestRedialMachine = RedialMachine.TestCase
TestRedialMachine.settings = settings(max_examples=examples(150), stateful_step_count=40)
TestRetryMachine = RetryMachine.TestCase
TestRetryMachine.settings = settings(max_examples=examples(100), stateful_step_count=40)
