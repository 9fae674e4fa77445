"""What counts against an endpoint, and when it is enough: rows, rates, and what is set aside."""

from __future__ import annotations

from random import Random

import pytest

from outlast.core.health import Ejected, Evidence, Fault, Health, HealthPlan, Rule, Standing

NOW = 1000.0
CONNECT, SILENT, SUSPECT, RESET = Fault.CONNECT, Fault.SILENT, Fault.SUSPECT, Fault.RESET
FIRST_BYTE, GATEWAY, ERROR, SLOW = Fault.FIRST_BYTE, Fault.GATEWAY, Fault.ERROR, Fault.SLOW
GOOD, DIALLED = "a good answer", "a connection"


def healthy(**figures: object) -> Health:
    return Health(HealthPlan(**figures))  # type: ignore[arg-type]  # figures of any kind


def live(health: Health, events: list[object], *, step: float = 0.0) -> list[Ejected | None]:
    """Let the events happen, `step` seconds apart."""
    rng, now, told = Random(7), NOW, []
    for event in events:
        if event is GOOD:
            health.succeeded(now)
        elif event is DIALLED:
            health.connected(now)
        else:
            assert isinstance(event, Fault)
            told.append(health.failed(event, now, rng))
        now += step
    return told


@pytest.mark.parametrize(
    ("events", "rule", "evidence"),
    [
        ([CONNECT] * 3, Rule.CONNECT_FAILURES, Evidence.DEATH),
        ([SILENT] * 3, Rule.CONNECT_FAILURES, Evidence.DEATH),
        ([SILENT, CONNECT, SILENT], Rule.CONNECT_FAILURES, Evidence.DEATH),
        ([SUSPECT] * 3, Rule.SUSPECT, Evidence.DEATH),
        ([FIRST_BYTE] * 3, Rule.FIRST_BYTE, Evidence.DEATH),
        ([RESET] * 5, Rule.RESETS, Evidence.ANSWERS),
        ([GATEWAY] * 5, Rule.GATEWAY_ERRORS, Evidence.ANSWERS),
        ([ERROR] * 10, Rule.FAILURE_RATE, Evidence.ANSWERS),
        # A connect takes nothing back that requests have said.
        ([GATEWAY, DIALLED] * 4 + [GATEWAY], Rule.GATEWAY_ERRORS, Evidence.ANSWERS),
        ([DIALLED, FIRST_BYTE] * 3, Rule.FIRST_BYTE, Evidence.DEATH),
        ([DIALLED, RESET] * 5, Rule.RESETS, Evidence.ANSWERS),
        # A failed dial is no answer: the row of gateway errors goes on.
        ([GATEWAY] * 4 + [CONNECT, GATEWAY], Rule.GATEWAY_ERRORS, Evidence.ANSWERS),
        ([GATEWAY] * 4 + [RESET, GATEWAY], Rule.GATEWAY_ERRORS, Evidence.ANSWERS),
        # Half of ten, of both kinds, in whatever order.
        ([GOOD] * 5 + [ERROR] * 5, Rule.FAILURE_RATE, Evidence.ANSWERS),
        ([GOOD, ERROR] * 5, Rule.FAILURE_RATE, Evidence.ANSWERS),
        ([GOOD, RESET, GOOD, GATEWAY] * 2 + [GOOD, RESET], Rule.FAILURE_RATE, Evidence.ANSWERS),
        ([GOOD] * 6 + [ERROR] * 4 + [FIRST_BYTE] * 2, Rule.FAILURE_RATE, Evidence.DEATH),
    ],
)
def test_enough_ejects_and_one_less_does_not(
    events: list[object], rule: Rule, evidence: Evidence
) -> None:
    health = healthy()
    *before, last = live(health, events)
    assert before == [None] * len(before)
    assert last is not None
    assert (last.rule, last.evidence, last.times, last.enforced) == (rule, evidence, 1, True)
    assert NOW + 4.0 <= last.until <= NOW + 6.0
    assert (health.standing, health.evidence, health.rule) == (Standing.OUT, evidence, rule)
    assert (health.until, health.why, health.ejections) == (last.until, last.why, 1)


@pytest.mark.parametrize(
    "events",
    [
        [GOOD] * 30,
        [CONNECT, CONNECT, DIALLED, CONNECT, CONNECT],
        [CONNECT, CONNECT, GOOD, CONNECT, CONNECT],
        [CONNECT, CONNECT, ERROR, CONNECT, CONNECT],  # a bad answer is a sign of life
        [SUSPECT, SUSPECT, DIALLED, SUSPECT, SUSPECT],
        [SUSPECT, SUSPECT, GATEWAY, SUSPECT, SUSPECT],
        [FIRST_BYTE, FIRST_BYTE, GATEWAY, FIRST_BYTE, FIRST_BYTE],
        [CONNECT, SUSPECT, FIRST_BYTE, CONNECT, SUSPECT, FIRST_BYTE],  # each kind apart
        [RESET] * 4 + [ERROR] + [RESET] * 4,
        [GATEWAY] * 4 + [GOOD] + [GATEWAY] * 4,
        [GATEWAY] * 4 + [ERROR] + [GATEWAY] * 4,
        [GATEWAY] * 4 + [SLOW] + [GATEWAY] * 4,
        [ERROR] * 9,
        [GOOD] * 6 + [ERROR] * 5,
        [GOOD, DIALLED, CONNECT, CONNECT] * 8,  # a dial is no request
        [GOOD, GOOD, SUSPECT, SUSPECT] * 8,  # a suspect request has not ended
        [GOOD, SLOW] * 4,
    ],
)
def test_less_does_not_eject(events: list[object]) -> None:
    health = healthy()
    assert set(live(health, events)) <= {None}
    assert health.ejections == 0


def test_what_is_older_than_the_window_is_forgotten() -> None:
    assert live(healthy(), [ERROR] * 10, step=1.0)[-1] is not None
    assert set(live(healthy(), [ERROR] * 60, step=1.2)) == {None}
    assert live(healthy(window=20), [ERROR] * 10, step=1.2)[-1] is not None


def test_slow_answers_eject_by_a_rule_of_their_own() -> None:
    (*before, last) = live(healthy(latency=0.5), [GOOD, SLOW] * 5)
    assert before == [None] * 4
    assert last is not None
    assert (last.rule, last.evidence) == (Rule.LATENCY, Evidence.ANSWERS)
    assert last.why == "5 of 10 requests in 10 s: slow"
    assert set(live(healthy(latency=0.5), [SLOW, ERROR, GOOD] * 8)) == {None}


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([CONNECT] * 3, "failed connect, 3 in a row"),
        ([GATEWAY] * 5, "gateway error, 5 in a row"),
        ([GOOD] * 3 + [ERROR] * 7, "7 of 10 requests in 10 s: failed"),
    ],
)
def test_an_ejection_says_why(events: list[object], why: str) -> None:
    last = live(healthy(), events)[-1]
    assert last is not None
    assert last.why == why


def test_figures_are_the_users() -> None:
    health = healthy(connect_failures=1, base=2.0, jitter=0.0)
    (told,) = live(health, [CONNECT])
    assert told is not None
    assert told.until == NOW + 2.0


# --- aside --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", Fault)
def test_what_sets_aside_at_once(fault: Fault) -> None:
    """As for a failed dial, a suspect connection and an overdue response it has been so far."""
    health = healthy()
    assert live(health, [fault]) == [None]
    aside = fault in (CONNECT, SUSPECT, FIRST_BYTE)
    assert (health.standing is Standing.OUT) == aside
    assert health.suspect == (fault is SUSPECT)
    assert health.ejections == 0
    if aside:
        assert health.evidence is Evidence.DEATH
        assert health.why == fault.value
        assert NOW + 4.0 <= health.until <= NOW + 6.0


@pytest.mark.parametrize(
    ("fault", "by_connect"), [(CONNECT, True), (SUSPECT, True), (FIRST_BYTE, False)]
)
@pytest.mark.parametrize("sign", [DIALLED, GOOD, GATEWAY, ERROR, SLOW])
def test_a_sign_of_life_takes_it_back(fault: Fault, by_connect: bool, sign: object) -> None:
    health = healthy()
    live(health, [fault, sign])
    back = by_connect or sign is not DIALLED
    assert (health.standing is Standing.IN) == back
    assert (health.evidence is None) == back
    assert health.weight(NOW) == 1.0
    assert not health.suspect


def test_an_overdue_response_weighs_more_than_what_a_connect_can_take_back() -> None:
    for faults in ([CONNECT, FIRST_BYTE], [FIRST_BYTE, CONNECT]):
        health = healthy()
        live(health, [*faults, DIALLED])
        assert health.rule is Rule.FIRST_BYTE
        assert health.standing is Standing.OUT


def test_another_failure_begins_the_time_anew() -> None:
    health = healthy(jitter=0.0)
    live(health, [CONNECT, CONNECT], step=2.0)
    assert health.until == NOW + 2.0 + 5.0


def test_when_the_time_is_up_one_is_to_try() -> None:
    rng, health = Random(7), healthy(jitter=0.0)
    health.failed(CONNECT, NOW, rng)
    assert not health.due(NOW + 4.9)
    assert health.due(NOW + 5.0)
    health.try_out(NOW + 5.0)
    assert health.standing is Standing.TRIAL
    assert not health.due(NOW + 9.0)
    assert health.failed(SILENT, NOW + 5.1, rng) is None  # aside again, and the second in a row
    assert (health.standing, health.until) == (Standing.OUT, NOW + 5.1 + 5.0)
    health.try_out(NOW + 10.1)
    told = health.failed(CONNECT, NOW + 10.2, rng)
    assert told is not None
    assert (told.times, told.until) == (1, NOW + 15.2)


def test_a_trial_after_an_aside_ends_with_any_word() -> None:
    for event, standing in [(RESET, Standing.OUT), (GATEWAY, Standing.IN), (GOOD, Standing.IN)]:
        health = healthy(jitter=0.0)
        live(health, [FIRST_BYTE])
        health.try_out(health.until)
        assert live(health, [event]) in ([None], [])
        assert health.standing is standing
        assert health.rule is (Rule.FIRST_BYTE if standing is Standing.OUT else None)
        assert health.weight(NOW) == 1.0


def test_it_costs_nothing_until_something_happens() -> None:
    health = healthy()
    assert health.connected(NOW) is None
    assert health.checked(True, NOW, Random(7)) is None
    assert health.succeeded(NOW) is None
    assert health.last_success == NOW
    live(health, [ERROR, GOOD])
    assert health.connected(NOW) is None
    assert health.standing is Standing.IN
