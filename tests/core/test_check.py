"""When checks are due, and what rows of results mean; against a simple model of the rule."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.check import Check, CheckPlan

EXACT = CheckPlan(jitter=0.0)


def results(check: Check, passes: str, *, took: float = 0.0) -> list[bool | None]:
    """`passes`: a letter for each check, + or -; each begins when it is due."""
    now, told, rng = 1000.0, [], Random(7)
    for letter in passes:
        now = max(now, check.due_at)
        check.begun(now)
        assert check.due_at == math.inf
        told.append(check.ended(letter == "+", now + took, rng))
    return told


@pytest.mark.parametrize(
    ("passes", "told"),
    [
        ("+", [True]),
        ("-+", [None, True]),  # at the start the first pass is enough
        ("---", [None, None, False]),
        ("+++", [True, None, None]),
        ("+---", [True, None, None, False]),
        ("+--+--+--", [True, *[None] * 8]),
        ("+---+", [True, None, None, False, None]),
        ("+---++", [True, None, None, False, None, True]),
        ("+---+-+-++", [True, None, None, False, *[None] * 5, True]),
        ("+-----", [True, None, None, False, None, None]),
    ],
)
def test_rise_and_fall(passes: str, told: list[bool | None]) -> None:
    assert results(Check(EXACT), passes) == told


def test_in_trouble_it_is_asked_more_often() -> None:
    check, now, rng = Check(EXACT), 1000.0, Random(7)
    assert check.due_at < now
    assert check.up is None
    gaps = []
    for letter in "-++-+---+++":
        check.begun(now)
        check.ended(letter == "+", now + 0.1, rng)
        gaps.append(check.due_at - now)
        now = check.due_at
    assert gaps == [0.5, 2.0, 2.0, 0.5, 2.0, 0.5, 0.5, 0.5, 0.5, 2.0, 2.0]


def test_a_check_that_takes_longer_is_followed_at_once() -> None:
    check = Check(EXACT)
    check.begun(1000.0)
    check.ended(False, 1000.9, Random(7))
    assert check.due_at == 1000.9


def test_chance_keeps_checks_apart() -> None:
    rng, gaps = Random(7), []
    for _ in range(500):
        check = Check(CheckPlan())
        check.begun(1000.0)
        check.ended(True, 1000.0, rng)
        gaps.append(check.due_at - 1000.0)
    assert 1.6 <= min(gaps) < 1.62
    assert 2.38 < max(gaps) <= 2.4


def test_it_says_how_long_a_death_may_go_unnoticed() -> None:
    assert CheckPlan().detects_within == pytest.approx(2.4 + 2 * 1.0 + 1.0)
    slow = CheckPlan(interval=10.0, fast_interval=5.0, timeout=1.0, fall=2, jitter=0.0)
    assert slow.detects_within == 10.0 + 5.0 + 1.0


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"interval": 0.0}, "interval: 0.0 is not from 0.01 to 86400 s"),
        ({"fast_interval": 1e9}, "fast_interval: 1000000000.0 is not from 0.01"),
        ({"timeout": math.nan}, "timeout: nan is not from 0.01"),
        ({"rise": 0}, "rise: 0 is not a whole number from 1 to 1000"),
        ({"rise": True}, "rise: True is not a whole number"),
        ({"fall": 2.5}, "fall: 2.5 is not a whole number"),
        ({"fast_interval": 3.0}, "fast_interval: 3.0 is longer than interval: 2.0"),
        ({"jitter": 1.0}, "jitter: 1.0 is not a share"),
        ({"jitter": -0.1}, "jitter: -0.1 is not a share"),
    ],
)
def test_what_cannot_be_meant_is_refused(figures: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        CheckPlan(**figures)  # type: ignore[arg-type]  # rise and fall are whole numbers


@given(
    passes=st.text("+-", max_size=60),
    rise=st.integers(1, 4),
    fall=st.integers(1, 4),
)
def test_the_verdict_is_what_the_last_row_of_enough_results_says(
    passes: str, rise: int, fall: int
) -> None:
    check = Check(CheckPlan(rise=rise, fall=fall))
    told = results(check, passes)
    up: bool | None = None
    for number in range(len(passes)):
        so_far = passes[: number + 1]
        before, enough = up, 1 if up is None else rise
        if so_far.endswith("+" * enough):
            up = True
        elif so_far.endswith("-" * fall):
            up = False
        assert told[number] == (None if up == before else up)
    assert check.up == up
