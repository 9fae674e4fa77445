"""The wait before a repeated request."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.backoff import Backoff


@pytest.mark.parametrize(
    ("retry", "ceiling"), [(1, 0.025), (2, 0.05), (3, 0.1), (4, 0.2), (5, 0.25), (6, 0.25)]
)
def test_the_ceiling_doubles_up_to_the_cap(retry: int, ceiling: float) -> None:
    assert Backoff().ceiling(retry) == ceiling


@pytest.mark.parametrize("retry", [61, 2000, 10**9])
def test_a_long_outage_does_not_overflow(retry: int) -> None:
    assert Backoff().ceiling(retry) == 0.25
    assert Backoff(base=0.0, cap=1.0).ceiling(retry) == 0.0


@given(st.integers(1, 40), st.integers())
def test_the_wait_lies_between_nothing_and_the_ceiling(retry: int, seed: int) -> None:
    backoff = Backoff()
    assert 0.0 <= backoff.delay(retry, Random(seed)) <= backoff.ceiling(retry)


def test_the_whole_width_is_used() -> None:
    """Full jitter: clients that failed together do not come back together."""
    rng = Random(7)
    waits = sorted(Backoff().delay(5, rng) for _ in range(1000))
    assert waits[0] < 0.005
    assert waits[-1] > 0.245
    assert 0.11 < waits[500] < 0.14


def test_the_generator_is_the_callers() -> None:
    assert Backoff().delay(3, Random(5)) == Random(5).uniform(0.0, 0.1)


@pytest.mark.parametrize(("base", "cap"), [(-0.1, 1.0), (0.5, 0.1), (float("nan"), 1.0)])
def test_what_makes_no_sense_is_refused(base: float, cap: float) -> None:
    with pytest.raises(ValueError, match=r"backoff: .* such as Backoff\(base=0.025, cap=0.25\)"):
        Backoff(base, cap)
