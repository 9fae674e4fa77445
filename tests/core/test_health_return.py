"""How an ejected endpoint comes back: its time, its one trial, its checks, its slow start."""

from __future__ import annotations

import math
from random import Random

import pytest

from outlast.core.health import (
    Ejected,
    Evidence,
    Fault,
    Health,
    HealthPlan,
    Returned,
    Rule,
    Standing,
)

NOW = 1000.0
EXACT = HealthPlan(jitter=0.0)
TRIED = [rule for rule in Rule if rule is not Rule.CHECK]


def ejected(rule: Rule, plan: HealthPlan = EXACT) -> Health:
    """An endpoint that a rule has just put out, at NOW."""
    health, rng = Health(plan), Random(7)
    faults = {
        Rule.CONNECT_FAILURES: Fault.CONNECT,
        Rule.SUSPECT: Fault.SUSPECT,
        Rule.FIRST_BYTE: Fault.FIRST_BYTE,
        Rule.RESETS: Fault.RESET,
        Rule.GATEWAY_ERRORS: Fault.GATEWAY,
        Rule.FAILURE_RATE: Fault.ERROR,
        Rule.LATENCY: Fault.SLOW,
    }
    if rule in (Rule.NODE, Rule.CHECK):
        told = health.eject(rule, Evidence.DEATH, "from elsewhere", NOW, rng)
    else:
        told = None
        while told is None:
            told = health.failed(faults[rule], NOW, rng)
    assert told is not None
    assert told.rule is rule
    return health


# --- times --------------------------------------------------------------------------------------


def test_failed_trials_double_the_time_up_to_a_minute() -> None:
    health, rng, now, lengths = ejected(Rule.GATEWAY_ERRORS), Random(7), NOW, [5.0]
    for times in range(2, 9):
        now = health.until
        health.try_out(now)
        told = health.failed(Fault.ERROR, now, rng)
        assert told is not None
        assert told.why == "its trial failed: server error"
        assert (told.rule, told.times) == (Rule.GATEWAY_ERRORS, min(times, 5))
        lengths.append(told.until - now)
    assert lengths == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0, 60.0]
    assert health.ejections == 8


def test_chance_spreads_the_times_by_a_fifth() -> None:
    rng, lengths = Random(7), []
    for _ in range(500):
        health = Health(HealthPlan())
        told = health.eject(Rule.NODE, Evidence.DEATH, "", NOW, rng)
        assert told is not None
        lengths.append(told.until - NOW)
    assert 4.0 <= min(lengths) < 4.1
    assert 5.9 < max(lengths) <= 6.0
    assert sum(lengths) / 500 == pytest.approx(5.0, abs=0.1)


@pytest.mark.parametrize(
    ("well", "times"),
    [(0.0, 4), (9.9, 4), (10.0, 3), (29.9, 2), (30.0, 1), (1e6, 1)],
)
def test_each_window_of_health_takes_one_doubling_back(well: float, times: int) -> None:
    health, rng = ejected(Rule.NODE), Random(7)
    for _ in range(2):
        health.try_out(health.until)
        health.failed(Fault.CONNECT, health.until, rng)
    health.try_out(health.until)
    back = health.until
    assert health.succeeded(back) is not None
    told = health.eject(Rule.NODE, Evidence.DEATH, "", back + well, rng)
    assert told is not None
    assert told.times == times
    assert told.until == back + well + 5.0 * 2 ** (times - 1)


def test_hours_of_outage_are_forgiven_in_a_minute() -> None:
    health, rng = ejected(Rule.NODE), Random(7)
    for _ in range(100):
        health.try_out(health.until)
        health.failed(Fault.CONNECT, health.until, rng)
    health.try_out(health.until)
    health.succeeded(health.until)
    told = health.eject(Rule.NODE, Evidence.DEATH, "", health.until + 60.0, rng)
    assert told is not None
    assert told.times == 1


def test_what_was_aside_first_had_been_well_all_the_same() -> None:
    health, rng = ejected(Rule.CONNECT_FAILURES), Random(7)
    health.connected(NOW + 1.0)
    told = [health.failed(Fault.CONNECT, NOW + 11.0, rng) for _ in range(3)]
    assert told[-1] is not None
    assert told[-1].times == 1


# --- the trial ----------------------------------------------------------------------------------


def test_there_is_one_trial_at_a_time() -> None:
    health = ejected(Rule.GATEWAY_ERRORS)
    for early in (NOW, NOW + 4.9):
        assert not health.due(early)
        with pytest.raises(ValueError, match="no trial is due \\(out\\)"):
            health.try_out(early)
    health.try_out(NOW + 5.0)
    assert health.standing is Standing.TRIAL
    assert not health.due(NOW + 6.0)
    with pytest.raises(ValueError, match="no trial is due \\(trial\\)"):
        health.try_out(NOW + 6.0)


def test_nobody_tries_what_is_in() -> None:
    health = Health(EXACT)
    assert not health.due(NOW)
    with pytest.raises(ValueError, match="no trial is due \\(in\\)"):
        health.try_out(NOW)


def test_a_trial_without_a_word_leaves_the_next_due_at_once() -> None:
    health = ejected(Rule.GATEWAY_ERRORS)
    health.try_out(NOW + 5.0)
    health.untried(NOW + 5.5)
    assert not health.due(NOW + 5.4)
    assert health.due(NOW + 5.5)
    health.try_out(NOW + 5.5)
    health.succeeded(NOW + 6.0)
    health.untried(NOW + 6.0)  # it has told already
    assert health.standing is Standing.IN


def test_a_trial_that_is_never_heard_of_is_forgotten_after_the_longest_time_out() -> None:
    health = ejected(Rule.GATEWAY_ERRORS)
    health.try_out(NOW + 5.0)
    assert not health.due(NOW + 64.9)
    assert health.due(NOW + 65.0)
    health.try_out(NOW + 65.0)
    assert not health.due(NOW + 66.0)


@pytest.mark.parametrize("rule", TRIED)
def test_a_trial_that_is_answered_returns_it_with_slow_start(rule: Rule) -> None:
    health = ejected(rule)
    health.try_out(NOW + 5.0)
    told = health.succeeded(NOW + 6.0)
    assert told == Returned("its trial was answered", 6.0)
    assert health.standing is Standing.IN
    assert (health.evidence, health.rule, health.why) == (None, None, "")
    shares = {0.0: 0.1, 0.5: 0.1, 1.0: 0.1, 2.0: 0.2, 5.0: 0.5, 9.0: 0.9, 10.0: 1.0, 99.0: 1.0}
    for after, share in shares.items():
        assert health.weight(NOW + 6.0 + after) == pytest.approx(share)
    assert health.full_at == NOW + 16.0


@pytest.mark.parametrize("rule", TRIED)
@pytest.mark.parametrize("trial", [True, False])
def test_a_connect_refutes_what_connects_have_said_and_no_more(rule: Rule, trial: bool) -> None:
    health = ejected(rule)
    if trial:
        health.try_out(NOW + 5.0)
    told = health.connected(NOW + 5.0)
    if rule in (Rule.CONNECT_FAILURES, Rule.SUSPECT, Rule.NODE):
        assert told == Returned("a connection to it stands", 5.0)
        assert health.weight(NOW + 5.0) == (0.1 if trial else 1.0)
        assert not health.suspect
    else:
        assert told is None
        assert health.standing is (Standing.TRIAL if trial else Standing.OUT)


@pytest.mark.parametrize("fault", Fault)
def test_any_fault_fails_the_trial(fault: Fault) -> None:
    health = ejected(Rule.GATEWAY_ERRORS)
    health.try_out(NOW + 5.0)
    told = health.failed(fault, NOW + 5.0, Random(7))
    dead = fault in (Fault.CONNECT, Fault.SILENT, Fault.SUSPECT, Fault.FIRST_BYTE)
    evidence = Evidence.DEATH if dead else Evidence.ANSWERS
    why = f"its trial failed: {fault.value}"
    assert told == Ejected(Rule.GATEWAY_ERRORS, evidence, why, NOW + 15.0, 2, enforced=True)
    assert (health.standing, health.evidence) == (Standing.OUT, evidence)


def test_after_the_return_old_faults_do_not_count() -> None:
    health, rng = ejected(Rule.FAILURE_RATE), Random(7)
    health.try_out(NOW + 5.0)
    health.succeeded(NOW + 5.0)
    assert [health.failed(Fault.ERROR, NOW + 5.0, rng) for _ in range(9)] == [None] * 9
    assert health.failed(Fault.ERROR, NOW + 5.0, rng) is not None


def test_an_ejection_ends_slow_start() -> None:
    health, rng = ejected(Rule.GATEWAY_ERRORS), Random(7)
    health.try_out(NOW + 5.0)
    health.succeeded(NOW + 5.0)
    assert health.weight(NOW + 7.0) == pytest.approx(0.2)
    health.eject(Rule.NODE, Evidence.DEATH, "", NOW + 7.0, rng)
    health.connected(NOW + 8.0)
    assert health.weight(NOW + 8.0) == 1.0


def test_slow_start_can_be_off() -> None:
    health = ejected(Rule.NODE, HealthPlan(jitter=0.0, slow_start=0.0))
    health.try_out(NOW + 5.0)
    health.succeeded(NOW + 5.0)
    assert health.weight(NOW + 5.0) == 1.0


# --- before its time ----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [Rule.CONNECT_FAILURES, Rule.SUSPECT, Rule.FIRST_BYTE, Rule.NODE])
def test_an_answer_refutes_death_at_once_and_without_slow_start(rule: Rule) -> None:
    health = ejected(rule)
    assert health.succeeded(NOW + 1.0) == Returned("it has answered", 1.0)
    assert health.weight(NOW + 1.0) == 1.0


@pytest.mark.parametrize(
    "rule", [Rule.RESETS, Rule.GATEWAY_ERRORS, Rule.FAILURE_RATE, Rule.LATENCY]
)
def test_five_good_answers_in_a_row_refute_bad_ones(rule: Rule) -> None:
    health = ejected(rule)
    told = [health.succeeded(NOW + 1.0) for _ in range(4)]
    told.append(health.failed(Fault.ERROR, NOW + 1.0, Random(7)))  # type: ignore[arg-type]  # None
    told += [health.succeeded(NOW + 2.0) for _ in range(4)]
    assert told == [None] * 9
    assert health.succeeded(NOW + 3.0) == Returned("5 good answers in a row", 3.0)
    assert health.weight(NOW + 3.0) == 1.0


def test_evidence_follows_what_is_met_while_it_is_out() -> None:
    """So that panic does not send requests to one that has died since."""
    health, rng = ejected(Rule.GATEWAY_ERRORS), Random(7)
    seen = []
    for fault in (Fault.SILENT, Fault.CONNECT, Fault.RESET, Fault.GATEWAY, Fault.SUSPECT):
        assert health.failed(fault, NOW, rng) is None
        seen.append(health.evidence)
    health.succeeded(NOW)
    seen.append(health.evidence)
    answers, death = Evidence.ANSWERS, Evidence.DEATH
    assert seen == [answers, death, death, answers, death, answers]
    assert health.until == NOW + 5.0  # and its time stays


# --- node and checks ----------------------------------------------------------------------------


def test_the_nodes_word_ejects_who_is_in_and_whoever_is_aside() -> None:
    rng = Random(7)
    for faults in ([], [Fault.CONNECT]):
        health = Health(EXACT)
        for fault in faults:
            health.failed(fault, NOW - 1.0, rng)
        told = health.eject(Rule.NODE, Evidence.DEATH, "node a", NOW, rng)
        assert told == Ejected(Rule.NODE, Evidence.DEATH, "node a", NOW + 5.0, 1, enforced=True)
        assert health.eject(Rule.NODE, Evidence.DEATH, "again", NOW, rng) is None
        assert health.why == "node a"
        health.try_out(NOW + 5.0)
        assert health.eject(Rule.NODE, Evidence.DEATH, "again", NOW, rng) is None
        assert health.standing is Standing.TRIAL


def test_what_a_check_has_ended_only_a_check_begins_again() -> None:
    health, rng = Health(EXACT), Random(7)
    told = health.checked(False, NOW, rng)
    why = "its check failed"
    assert told == Ejected(Rule.CHECK, Evidence.DEATH, why, math.inf, 1, enforced=True)
    assert health.checked(False, NOW, rng, evidence=Evidence.ANSWERS, why="status 404") is None
    assert (health.evidence, health.why) == (Evidence.ANSWERS, "status 404")
    assert not health.due(NOW + 1e9)
    assert [health.succeeded(NOW) for _ in range(9)] == [None] * 9
    assert health.connected(NOW) is None
    assert health.checked(True, NOW + 2.0, rng) == Returned("its check passed", 2.0)
    assert health.weight(NOW + 2.0) == 0.1


def test_a_checks_word_holds_over_other_evidence_and_over_a_trial() -> None:
    rng = Random(7)
    for trial in (False, True):
        health = ejected(Rule.GATEWAY_ERRORS)
        if trial:
            health.try_out(NOW + 5.0)
        assert health.checked(False, NOW + 5.0, rng) is None
        assert (health.standing, health.rule) == (Standing.OUT, Rule.CHECK)
        assert health.until == math.inf
        assert health.succeeded(NOW + 5.0) is None  # the trial's own answer
        assert health.evidence is Evidence.ANSWERS


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("trial", [False, True])
def test_a_check_that_is_answered_ends_any_ejection_at_once(rule: Rule, trial: bool) -> None:
    health = ejected(rule)
    if trial and rule is not Rule.CHECK:
        health.try_out(NOW + 5.0)
    told = health.checked(True, NOW + 5.0, Random(7), why="status 200")
    assert told == Returned("status 200", 5.0)
    assert health.standing is Standing.IN
    assert health.weight(NOW + 5.0) == 0.1
    assert health.checked(True, NOW + 5.0, Random(7)) is None


@pytest.mark.parametrize("rule", Rule)
def test_a_check_that_only_connects_says_nothing_of_answers(rule: Rule) -> None:
    health = ejected(rule)
    told = health.checked(True, NOW + 1.0, Random(7), evidence=Evidence.DEATH)
    dials = (Rule.CONNECT_FAILURES, Rule.SUSPECT, Rule.NODE, Rule.CHECK)
    assert (told is not None) == (rule in dials)


def test_a_check_ends_an_aside_too_and_nobody_hears_of_it() -> None:
    health, rng = Health(EXACT), Random(7)
    health.failed(Fault.SUSPECT, NOW, rng)
    assert health.checked(True, NOW + 1.0, rng, evidence=Evidence.DEATH) is None
    assert health.standing is Standing.IN
    assert not health.suspect
    assert health.weight(NOW + 1.0) == 1.0
