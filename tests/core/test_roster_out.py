"""Endpoints that are out: panic, the dead, trials, and what is left when all are out."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from outlast.core.balance import P2C, Balance, LeastRequest, RoundRobin
from outlast.core.endpoint import Why
from outlast.core.health import Evidence, Fault, Rule, Standing
from outlast.core.roster import Roster
from tests.core.crowd import BALANCES, blame, bury, fail, names, of, roster_of, shares


def whys(roster: Roster[str], now: float, picks: int = 50) -> set[Why]:
    rng = Random(5)
    return {pick.why for _ in range(picks) if (pick := roster.pick(now, rng)) is not None}


# --- panic ------------------------------------------------------------------------------------


@pytest.mark.parametrize("balance", [P2C(), LeastRequest(), RoundRobin()], ids=repr)
@pytest.mark.parametrize(
    ("total", "out", "panic"),
    [
        *((1, 1, True), (2, 1, False), (2, 2, True), (3, 1, False), (3, 2, True), (3, 3, True)),
        *((5, 2, False), (5, 3, True), (5, 5, True), (500, 250, False), (500, 251, True)),
    ],
)
def test_being_out_on_answers_counts_until_more_than_half_are(
    balance: Balance, total: int, out: int, panic: bool
) -> None:
    roster = roster_of(total, balance)
    blame(roster, names(total)[:out], now=1.0)
    assert roster.panic is panic
    got = shares(roster, 8000, now=1.1)
    bad = sum(got[name] for name in names(total)[:out])
    assert bad == pytest.approx(out / total if panic else 0.0, rel=0.1)


@pytest.mark.parametrize("balance", BALANCES, ids=repr)
@pytest.mark.parametrize(("total", "out"), [(2, 1), (3, 2), (5, 4), (500, 499)])
def test_the_dead_are_not_asked_while_one_lives(balance: Balance, total: int, out: int) -> None:
    roster = roster_of(total, balance)
    bury(roster, names(total)[:out], now=1.0)
    assert shares(roster, 300, now=1.1)[f"e{total - 1}"] == 1.0


def buried(total: int) -> Roster[str]:
    """All dead; the last one has answered last."""
    roster = roster_of(total)
    for at, name in enumerate(names(total)):
        of(roster, name).health.succeeded(0.1 + at / 1000)
    bury(roster, names(total), now=1.0)
    return roster


@pytest.mark.parametrize("total", [1, 2, 3, 5, 500])
def test_the_dead_take_turns_with_the_one_that_answered_last(total: int) -> None:
    """So that whoever has come back is found soon, however many wait in step."""
    roster = buried(total)
    picks = [roster.pick(1.1, Random(1)) for _ in range(2 * total)]
    counts = Counter(pick.endpoint.key for pick in picks if pick is not None)
    assert counts[f"e{total - 1}"] == total + 1
    assert {counts[name] for name in names(total - 1)} <= {1}
    avoid = {f"e{at}" for at in range(total // 2)}
    for _ in range(2 * total):
        pick = roster.pick(1.1, Random(1), avoid=avoid)
        assert pick is not None
        assert pick.endpoint.key not in avoid


@pytest.mark.parametrize("total", [1, 2, 3, 5, 500])
def test_of_the_dead_the_one_that_answered_last_is_asked_first(total: int) -> None:
    roster = buried(total)
    pick = roster.pick(1.1, Random(1))
    assert pick is not None
    assert (pick.endpoint.key, pick.why, pick.trial) == (f"e{total - 1}", Why.LAST_RESORT, False)
    avoid = {f"e{total - 1}"}
    pick = buried(total).pick(1.1, Random(1), avoid=avoid)
    assert pick is not None
    assert pick.endpoint.key == f"e{max(0, total - 2)}"
    assert pick.why is (Why.NO_OTHER if total == 1 else Why.LAST_RESORT)


def test_those_that_answer_badly_are_better_than_the_dead() -> None:
    roster = roster_of(3)
    bury(roster, ["e0", "e1"], now=1.0)
    blame(roster, ["e2"], now=1.0)
    assert shares(roster, 100, now=1.1)["e2"] == 1.0
    assert whys(roster, 1.1) == {Why.PANIC}


def test_without_panic_those_out_on_answers_are_the_last_resort() -> None:
    roster = roster_of(3, panic=0.0)
    blame(roster, ["e0", "e1"], now=1.0)
    assert shares(roster, 100, now=1.1)["e2"] == 1.0
    bury(roster, ["e2"], now=1.0)
    assert whys(roster, 1.1) == {Why.LAST_RESORT}
    assert shares(roster, 100, now=1.1)["e2"] == 0.0


def test_evidence_that_turns_moves_an_endpoint() -> None:
    """Dead, and it answered badly: it lives."""
    roster = roster_of(3)
    bury(roster, ["e0", "e1", "e2"], now=1.0)
    fail(roster, "e1", Fault.GATEWAY, now=1.1)
    assert of(roster, "e1").health.evidence is Evidence.ANSWERS
    assert shares(roster, 100, now=1.1)["e1"] == 1.0


# --- trials -----------------------------------------------------------------------------------


@pytest.mark.parametrize("balance", [P2C(), LeastRequest(), RoundRobin()], ids=repr)
def test_one_that_is_due_gets_one_trial_at_a_time(balance: Balance) -> None:
    roster = roster_of(4, balance)
    bury(roster, ["e2"], now=1.0)
    endpoint = of(roster, "e2")
    until = endpoint.health.until
    assert shares(roster, 200, now=until - 0.001)["e2"] == 0.0
    rng = Random(1)
    picks = [roster.pick(until, rng) for _ in range(50)]
    trials = [pick for pick in picks if pick and pick.trial]
    assert [pick.endpoint.key for pick in trials] == ["e2"]
    assert trials[0].why is Why.TRIAL
    assert endpoint.health.standing is Standing.TRIAL
    assert all(pick.endpoint.key != "e2" for pick in picks if pick and not pick.trial)


def test_a_trial_without_a_verdict_is_given_back() -> None:
    roster = roster_of(2)
    bury(roster, ["e0"], now=1.0)
    for now in (100.0, 100.5):
        pick = roster.pick(now, Random(1))
        assert pick is not None
        assert pick.trial
        of(roster, "e0").health.untried(now + 0.1)
        roster.changed(of(roster, "e0"))


def test_a_trial_that_is_forgotten_is_made_again() -> None:
    """Nothing was heard for `cap`: whoever made it is gone."""
    roster = roster_of(2)
    bury(roster, ["e0"], now=1.0)
    first = roster.pick(100.0, Random(1))
    assert first is not None
    assert first.trial
    assert shares(roster, 100, now=159.0)["e0"] == 0.0
    again = roster.pick(161.0, Random(1))
    assert again is not None
    assert again.trial


def test_a_trial_that_fails_is_waited_for_again() -> None:
    roster = roster_of(2)
    bury(roster, ["e0"], now=1.0)
    assert roster.pick(100.0, Random(1)) is not None
    fail(roster, "e0", Fault.CONNECT, now=100.1)
    assert shares(roster, 100, now=100.2)["e0"] == 0.0
    pick = roster.pick(of(roster, "e0").health.until, Random(1))
    assert pick is not None
    assert pick.trial


def test_one_to_be_avoided_has_no_trial() -> None:
    roster = roster_of(3)
    bury(roster, ["e0"], now=1.0)
    for _ in range(20):
        pick = roster.pick(100.0, Random(1), avoid=("e0",))
        assert pick is not None
        assert not pick.trial
    pick = roster.pick(100.0, Random(1))
    assert pick is not None
    assert pick.trial


def test_a_check_alone_returns_what_a_check_has_put_out() -> None:
    roster = roster_of(2)
    of(roster, "e0").health.eject(Rule.CHECK, Evidence.DEATH, "no answer", 1.0, Random(1))
    roster.changed(of(roster, "e0"))
    assert shares(roster, 100, now=1e6)["e0"] == 0.0
    of(roster, "e0").health.checked(True, 1e6, Random(1))
    roster.changed(of(roster, "e0"))
    assert shares(roster, now=1e6 + 10)["e0"] == pytest.approx(0.5, rel=0.1)


def test_one_put_out_again_while_it_was_due_is_no_longer_due() -> None:
    roster = roster_of(3)
    fail(roster, "e0", Fault.CONNECT, now=1.0)  # aside for five seconds
    assert roster.pick(7.0, Random(1), avoid=("e0",)) is not None  # its time has come
    bury(roster, ["e0"], now=7.5)
    assert shares(roster, 100, now=7.6)["e0"] == 0.0


def test_the_dead_that_are_due_are_tried_before_the_last_resort() -> None:
    roster = roster_of(2)
    bury(roster, names(2), now=1.0)
    rng = Random(1)
    picks = [roster.pick(100.0, rng) for _ in range(4)]
    assert [pick.trial for pick in picks if pick] == [True, True, False, False]


def test_an_only_endpoint_that_nobody_picks_takes_no_more_room_with_each_failure() -> None:
    """A heap of trials that nobody takes off grew for ever; found by churn."""
    roster = roster_of(1)
    endpoint = of(roster, "e0")
    for number in range(1000):
        now = 10.0 * number
        endpoint.health.failed(Fault.CONNECT, now, Random(number))
        roster.changed(endpoint)
        endpoint.health.succeeded(now + 1.0)
        roster.changed(endpoint)
    assert len(roster._due) < 30
    endpoint.health.failed(Fault.CONNECT, 1e6, Random(1))
    roster.changed(endpoint)
    pick = roster.pick(1e6 + 100.0, Random(1))
    assert pick is not None
    assert pick.trial
