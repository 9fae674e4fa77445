"""Rules that only count: what they would have done is told, once, and nothing changes."""

from __future__ import annotations

import math
from random import Random

import pytest

from outlast.core.health import Ejected, Evidence, Fault, Health, HealthPlan, Rule, Standing

NOW = 1000.0
CASES = [
    (Rule.CONNECT_FAILURES, Fault.CONNECT, 3),
    (Rule.SUSPECT, Fault.SUSPECT, 3),
    (Rule.FIRST_BYTE, Fault.FIRST_BYTE, 3),
    (Rule.RESETS, Fault.RESET, 5),
    (Rule.GATEWAY_ERRORS, Fault.GATEWAY, 5),
    (Rule.FAILURE_RATE, Fault.ERROR, 10),
    (Rule.LATENCY, Fault.SLOW, 10),
]
BY_FAULT = {fault: rule for rule, fault, _ in CASES}


def counting(*counted: Rule) -> Health:
    return Health(HealthPlan(jitter=0.0, count_only=frozenset(counted)))


def untouched(health: Health) -> bool:
    return (health.standing, health.evidence, health.rule, health.ejections) == (
        *(Standing.IN, None, None, 0),
    ) and health.weight(NOW) == 1.0


@pytest.mark.parametrize(("rule", "fault", "enough"), CASES)
def test_it_is_told_once_and_nothing_changes(rule: Rule, fault: Fault, enough: int) -> None:
    health, rng = counting(rule), Random(7)
    told = []
    for _ in range(enough + 30):
        told.append(health.failed(fault, NOW, rng))
        assert untouched(health)
    assert told.count(None) == len(told) - 1
    would = told[enough - 1]
    assert would is not None
    assert (would.rule, would.times, would.enforced) == (rule, 1, False)
    assert would.until == NOW + 5.0


def test_its_trial_is_the_first_outcome_after_its_time() -> None:
    health, rng = counting(Rule.GATEWAY_ERRORS), Random(7)
    for _ in range(5):
        health.failed(Fault.GATEWAY, NOW, rng)
    assert health.failed(Fault.GATEWAY, NOW + 4.9, rng) is None
    told = health.failed(Fault.ERROR, NOW + 5.0, rng)
    why = "its trial would have failed: server error"
    rule, evidence = Rule.GATEWAY_ERRORS, Evidence.ANSWERS
    assert told == Ejected(rule, evidence, why, NOW + 15.0, 2, enforced=False)
    assert health.succeeded(NOW + 14.9) is None
    assert health.failed(Fault.ERROR, NOW + 14.9, rng) is None
    assert health.succeeded(NOW + 15.0) is None  # it would have returned
    assert [health.failed(Fault.GATEWAY, NOW + 16.0, rng) for _ in range(4)] == [None] * 4
    again = health.failed(Fault.GATEWAY, NOW + 16.0, rng)
    assert again is not None
    assert (again.times, again.until) == (3, NOW + 36.0)
    assert untouched(health)


def test_a_connect_is_its_trial_where_it_would_be_a_real_one() -> None:
    for rule, fault, back in [
        (Rule.CONNECT_FAILURES, Fault.CONNECT, True),
        (Rule.FIRST_BYTE, Fault.FIRST_BYTE, False),
    ]:
        health, rng = counting(rule), Random(7)
        for _ in range(3):
            health.failed(fault, NOW, rng)
        health.connected(NOW + 4.9)
        assert health.failed(fault, NOW + 4.9, rng) is None
        health.connected(NOW + 5.0)
        told = health.failed(fault, NOW + 5.0, rng)
        assert (told is None) == back


@pytest.mark.parametrize(
    ("rule", "fault"), [(Rule.FAILURE_RATE, Fault.ERROR), (Rule.LATENCY, Fault.SLOW)]
)
def test_what_a_rate_has_counted_does_not_count_twice(rule: Rule, fault: Fault) -> None:
    health, rng = counting(rule), Random(7)
    assert sum(health.failed(fault, NOW, rng) is not None for _ in range(10)) == 1
    health.succeeded(NOW + 5.0)
    assert [health.failed(fault, NOW + 6.0, rng) for _ in range(5)] == [None] * 5
    assert untouched(health)


def test_nothing_is_set_aside_by_a_rule_that_only_counts() -> None:
    rng = Random(7)
    for fault in (Fault.CONNECT, Fault.SUSPECT, Fault.FIRST_BYTE):
        others = [rule for rule, other, _ in CASES if other is not fault]
        health = counting(BY_FAULT[fault])
        assert health.failed(fault, NOW, rng) is None
        assert health.standing is Standing.IN
        health = counting(*others)
        assert health.failed(fault, NOW, rng) is None
        assert health.standing is Standing.OUT


def test_a_trial_ends_by_whatever_fault() -> None:
    """Aside by a rule that holds, and tried in vain by one that counts only: aside it stays."""
    health, rng = counting(Rule.CONNECT_FAILURES), Random(7)
    health.failed(Fault.FIRST_BYTE, NOW, rng)
    assert health.failed(Fault.CONNECT, NOW + 1.0, rng) is None
    assert health.until == NOW + 5.0
    health.try_out(NOW + 5.0)
    assert health.failed(Fault.CONNECT, NOW + 5.0, rng) is None
    assert (health.standing, health.rule) == (Standing.OUT, Rule.FIRST_BYTE)
    assert health.until == NOW + 10.0


def test_nodes_and_checks_can_be_counted_only() -> None:
    health, rng = counting(Rule.NODE, Rule.CHECK), Random(7)
    told = health.eject(Rule.NODE, Evidence.DEATH, "node a", NOW, rng)
    assert told == Ejected(Rule.NODE, Evidence.DEATH, "node a", NOW + 5.0, 1, enforced=False)
    assert health.eject(Rule.NODE, Evidence.DEATH, "node a", NOW, rng) is None
    assert health.checked(True, NOW, rng, evidence=Evidence.DEATH) is None
    told = health.checked(False, NOW, rng)  # type: ignore[assignment]  # an ejection
    assert told is not None
    assert (told.rule, told.until, told.times) == (Rule.CHECK, math.inf, 2)
    assert health.checked(False, NOW, rng) is None
    assert health.succeeded(NOW + 99.0) is None
    assert health.checked(False, NOW + 99.0, rng) is None  # only a check would have returned it
    health.checked(True, NOW + 99.0, rng)
    assert health.checked(False, NOW + 99.0, rng) is not None
    assert untouched(health)


def test_a_pass_that_only_connects_leaves_the_shadow_of_bad_answers() -> None:
    health, rng = counting(Rule.GATEWAY_ERRORS), Random(7)
    for _ in range(5):
        health.failed(Fault.GATEWAY, NOW, rng)
    health.checked(True, NOW, rng, evidence=Evidence.DEATH)
    assert health.failed(Fault.GATEWAY, NOW + 5.0, rng) is not None


def test_while_it_is_really_out_nothing_is_counted() -> None:
    health, rng = counting(Rule.GATEWAY_ERRORS, Rule.CHECK), Random(7)
    told = [health.failed(Fault.GATEWAY, NOW, rng) for _ in range(5)]
    told += [health.failed(Fault.CONNECT, NOW + 1.0, rng) for _ in range(3)]
    assert [each.enforced for each in told if each is not None] == [False, True]
    assert [health.failed(Fault.GATEWAY, NOW + 5.5, rng) for _ in range(9)] == [None] * 9
    assert health.checked(False, NOW + 5.5, rng) is None
    assert health.rule is Rule.CONNECT_FAILURES


def test_good_answers_within_its_time_do_not_hide_the_one_after_it() -> None:
    health, rng = counting(Rule.FIRST_BYTE), Random(7)
    told = [health.failed(Fault.FIRST_BYTE, NOW, rng) for _ in range(3)]
    assert told[-1] is not None
    for after in (1.0, 2.0, 5.0):
        health.succeeded(NOW + after)
    assert health.failed(Fault.FIRST_BYTE, NOW + 6.0, rng) is None


def test_a_real_ejection_ends_the_shadow() -> None:
    health, rng = counting(Rule.GATEWAY_ERRORS), Random(7)
    for _ in range(5):
        health.failed(Fault.GATEWAY, NOW, rng)
    for _ in range(3):
        health.failed(Fault.CONNECT, NOW + 1.0, rng)
    assert health.connected(NOW + 2.0) is not None
    told = [health.failed(Fault.GATEWAY, NOW + 2.0, rng) for _ in range(5)]
    assert told[:-1] == [None] * 4
    assert told[-1] is not None
    assert (told[-1].times, told[-1].until) == (1, NOW + 7.0)
