"""Chance: by name and number, the same everywhere; the arithmetic of time-outs."""

from __future__ import annotations

import pytest

from outlast.testing.simnet.draws import Draws
from outlast.testing.simnet.rules import SECOND, bucket, jiffies, model, rounded_expiry


def test_a_draw_is_its_name_and_number() -> None:
    draws = Draws(7)
    first = draws.uniform("worker 3/dial", 2)
    draws.uniform("worker 1/dial", 2)
    assert draws.uniform("worker 3/dial", 2) == first
    assert Draws(7).uniform("worker 3/dial", 2) == first
    others = {draws.uniform("worker 3/dial", 3), Draws(8).uniform("worker 3/dial", 2)}
    assert len(others - {first}) == 2


def test_draws_are_the_same_on_every_python() -> None:
    draws = Draws(7)
    assert draws.uniform("a", 1) == 0.574372734683583
    assert draws.rng("a").random() == 0.9733080591306875


def test_draws_are_even() -> None:
    draws = Draws(1)
    seen = [draws.below(10, "x", n) for n in range(10_000)]
    assert min(seen.count(n) for n in range(10)) > 900
    assert {draws.between(3, 5, "y", n) for n in range(100)} == {3, 4, 5}


@pytest.mark.parametrize(
    ("boundary", "base", "cap", "seconds"),
    [
        (15, 0.2, 120, 924.6),
        (5, 0.2, 120, 12.6),
        (8, 0.2, 120, 102.2),
        (15, 0.2, 1, 14.4),
        (15, 0.2, 2, 27.0),
        (6, 1, 120, 127),
        (6, 1, 1, 7),
        (6, 1, 2, 13),
        (7, 1, 120, 247),
    ],
)
def test_how_long_the_kernel_tries(boundary: int, base: float, cap: float, seconds: float) -> None:
    assert model(boundary, round(base * SECOND), round(cap * SECOND)) == round(seconds * SECOND)


@pytest.mark.parametrize(
    ("delay", "granule"),
    [(0, 4), (0.251, 4), (0.252, 32), (2.0, 32), (2.1, 256), (16, 256), (17, 2048), (130, 16384)],
)
def test_the_timer_wheel(delay: float, granule: int) -> None:
    assert bucket(round(delay * SECOND)) == granule * 1000
    now = 123_456_789
    late = rounded_expiry(now, now + round(delay * SECOND)) - now - round(delay * SECOND)
    assert 0 < late <= granule * 1000


def test_jiffies_round_up() -> None:
    assert [jiffies(us) for us in (0, 1, 4000, 4001)] == [0, 4000, 4000, 8000]
