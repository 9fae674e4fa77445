"""The figures of health: their defaults, and what is refused."""

from __future__ import annotations

import math

import pytest

from outlast.core.health import HealthPlan, Rule, rules


def test_the_defaults_are_the_designs() -> None:
    plan = HealthPlan()
    assert (plan.connect_failures, plan.gateway_errors) == (3, 5)
    assert (plan.failure_rate, plan.least_requests, plan.window) == (0.5, 10, 10)
    assert (plan.base, plan.cap, plan.jitter) == (5.0, 60.0, 0.2)
    assert (plan.slow_start, plan.least_weight) == (10.0, 0.1)
    assert plan.count_only == frozenset()


@pytest.mark.parametrize(
    ("figure", "value", "words"),
    [
        ("connect_failures", 0, "connect_failures: 0 is not a whole number from 1"),
        ("suspicions", 1.5, "suspicions: 1.5 is not a whole number from 1"),
        ("first_byte_timeouts", True, "first_byte_timeouts: True is not a whole number"),
        ("resets", -1, "resets: -1 is not a whole number"),
        ("gateway_errors", "5", "gateway_errors: '5' is not a whole number"),
        ("gateway_errors", None, "to 1e\\+06, such as 5"),
        ("least_requests", 0, "least_requests: 0 is not a whole number"),
        ("good_answers", 0, "good_answers: 0 is not a whole number"),
        ("window", 0, "window: 0 is not a whole number from 1 to 60, such as 10"),
        ("window", 61, "window: 61 is not a whole number from 1 to 60"),
        ("window", 10.0, "window: 10.0 is not a whole number"),
        ("failure_rate", 0, "failure_rate: 0 is not a number from 0.01 to 1, such as 0.5"),
        ("failure_rate", 1.1, "failure_rate: 1.1 is not a number"),
        ("latency", 0.0, "latency: 0.0 is not a number from 0.001 to 86400, such as 0.25"),
        ("base", 0.0, "base: 0.0 is not a number from 0.001"),
        ("base", math.nan, "base: nan is not a number"),
        ("cap", 4.9, "cap: 4.9 is not a number from 5 to 86400, such as 60.0"),
        ("cap", math.inf, "cap: inf is not a number"),
        ("jitter", 1.0, "jitter: 1.0 is not a number from 0 to 0.99"),
        ("slow_start", -1, "slow_start: -1 is not a number"),
        ("least_weight", 0, "least_weight: 0 is not a number from 0.001 to 1"),
        ("count_only", "suspect", "rules: 'suspect' is one word; write a set"),
        ("count_only", {"jitter"}, "'jitter' is not a valid Rule; the rules are connect_failures,"),
    ],
)
def test_what_cannot_be_meant_is_refused(figure: str, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        HealthPlan(**{figure: value})  # type: ignore[arg-type]  # what cannot be meant


def test_what_can_be_is_taken() -> None:
    plan = HealthPlan(latency=0.5, base=1, cap=1, jitter=0, slow_start=0, failure_rate=1)
    assert plan.latency == 0.5


def test_rules_go_by_their_words() -> None:
    assert rules(["check", Rule.NODE]) == {Rule.CHECK, Rule.NODE}
    assert rules(rule.value for rule in Rule) == set(Rule)
    plan = HealthPlan(count_only={"gateway_errors"})
    assert plan.count_only == {Rule.GATEWAY_ERRORS}
