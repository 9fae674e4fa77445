"""What the races of a target know of refusals."""

from __future__ import annotations

from outlast.core.refusals import MOST, Refusals


def test_a_refusal_is_true_for_half_a_second() -> None:
    refusals = Refusals()
    refusals.refused("a", 10.0)
    assert refusals.lately("a", 10.0)
    assert refusals.lately("a", 10.49)
    assert not refusals.lately("a", 10.5)
    assert not refusals.lately("b", 10.0)


def test_the_last_one_counts() -> None:
    refusals = Refusals()
    refusals.refused("a", 10.0)
    refusals.refused("a", 10.4)
    assert refusals.lately("a", 10.8)


def test_those_that_refused_longest_ago_are_forgotten_first() -> None:
    refusals = Refusals()
    for number in range(MOST):
        refusals.refused(number, 1.0)
    refusals.refused(0, 1.0)
    refusals.refused("new", 1.0)
    assert not refusals.lately(1, 1.0)
    assert refusals.lately(0, 1.0)
    assert refusals.lately("new", 1.0)
