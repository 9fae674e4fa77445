"""What the figures come to: faults of ten seconds and of ten minutes, met by steady requests."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from random import Random

import pytest

from outlast.core.health import Fault, Health, HealthPlan, Standing

RATE = 50  # requests a second that would be its share


class Life:
    """An endpoint that answers 503 from second 0 to `healed`, while it is used as it should be."""

    def __init__(self, seed: int, healed: float, until: float) -> None:
        self.health, rng = Health(HealthPlan()), Random(seed)
        self.bad: list[float] = []  # when a request met a 503
        self.trials: list[float] = []
        self.returned = self.full = 0.0
        share = 0.0
        for tick in range(-10 * RATE, int(until * RATE)):
            now = 1000.0 + tick / RATE
            if self.health.due(now):
                self.health.try_out(now)
                self.trials.append(now - 1000.0)
            elif self.health.standing is Standing.IN and tick >= 0:
                share += self.health.weight(now)
                if share < 1.0:
                    continue
                share -= 1.0
            elif tick >= 0:
                continue
            self.request(now - 1000.0, healed, rng)

    def request(self, at: float, healed: float, rng: Random) -> None:
        if 0 <= at < healed:
            self.bad.append(at)
            self.health.failed(Fault.GATEWAY, 1000.0 + at, rng)
        elif self.health.succeeded(1000.0 + at) is not None:
            self.returned, self.full = at, self.health.full_at - 1000.0


@pytest.mark.parametrize("seed", range(1, 21))
def test_a_fault_of_ten_seconds_is_over_within_twenty_more(seed: int) -> None:
    life = Life(seed, healed=10.0, until=40.0)
    assert 10.0 <= life.returned < life.full <= 30.0
    assert [at for at in life.bad if at > 1.0] == life.trials[:-1]  # after that only trials met it
    assert len(life.bad) <= 5 + 2


@pytest.mark.parametrize("seed", range(1, 21))
def test_after_a_fault_of_ten_minutes_it_is_back_in_one_and_whole_ten_seconds_later(
    seed: int,
) -> None:
    life = Life(seed, healed=600.0, until=700.0)
    assert 600.0 <= life.returned <= 672.0
    assert life.full == pytest.approx(life.returned + 10.0)
    gaps = [later - sooner for sooner, later in zip(life.trials[4:], life.trials[5:], strict=False)]
    assert all(48.0 <= gap <= 72.1 for gap in gaps)
    assert len(life.bad) <= 5 + 18


def test_all_that_is_kept_of_an_endpoint_is_small() -> None:
    """2 KiB are there for the whole endpoint."""
    plan, rng = HealthPlan(), Random(7)

    def made() -> Health:
        return Health(plan)

    def used() -> Health:
        health = Health(plan)
        health.succeeded(1000.0)
        return health

    def blamed() -> Health:
        health = used()
        for fault in (Fault.RESET, Fault.SLOW):
            health.failed(fault, 1000.0, rng)
        return health

    assert memory(made) < 400
    assert memory(used) < 700
    assert memory(blamed) < 1300


def memory(make: Callable[[], object]) -> float:
    """Bytes that one of a thousand takes."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [make() for _ in range(1000)]
        return (tracemalloc.get_traced_memory()[0] - before) / len(kept)
    finally:
        tracemalloc.stop()
