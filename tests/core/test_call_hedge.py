"""A second attempt beside one that is merely late."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.core.call import Accept, Await, Call, Failure, GiveUp, Repeat, Try
from outlast.core.classify import Progress
from outlast.core.deadline import Deadline
from tests.core.calls import NOT_SENT, SENT, Purse, call


def hedged(**figures: Any) -> Call:
    """Attempts 0 and 1 are out, both written."""
    machine = call(**figures)
    assert isinstance(machine.hedge(0, 0.0), Try)
    machine.written()
    return machine


def test_a_late_request_gets_company_at_once_and_the_budget_pays() -> None:
    purse = Purse()
    step = call(purse).hedge(0, 3.0)
    assert step == Try(1, 3.0, "late")
    assert isinstance(step, Try)
    assert step.rule is Repeat.HEDGE
    assert purse.asked == 1


@pytest.mark.parametrize("plan", [{"safe": False}, {"replayable": False}])
def test_a_request_that_may_not_be_repeated_is_not_hedged(plan: dict[str, Any]) -> None:
    purse = Purse()
    assert call(purse, **plan).hedge(0, 3.0) == Await("late, but it may not be repeated")
    assert purse.asked == 0


def test_a_consumed_body_is_not_hedged() -> None:
    machine = call()
    machine.consumed()
    assert machine.hedge(0, 3.0) == Await("late, but it may not be repeated")


@pytest.mark.parametrize(
    ("plan", "purse", "why"),
    [
        ({"attempts": 1}, Purse(), "waited for: late; all 1 attempts are used"),
        ({}, Purse(0), "waited for: late; the retry budget is spent"),
        ({"deadline": Deadline(3.0)}, Purse(), "waited for: late; the deadline comes first"),
        ({"stop": lambda *_: True}, Purse(), "waited for: late; the policy's own stop has come"),
    ],
)
def test_a_hedge_costs_what_any_repeat_costs(plan: dict[str, Any], purse: Purse, why: str) -> None:
    assert call(purse, **plan).hedge(0, 3.0) == Await(why)


def test_a_call_is_hedged_once() -> None:
    machine = hedged(attempts=9)
    assert machine.hedge(0, 1.0) == Await("late; hedged before")
    assert machine.failed(0, SENT, 1.0) == Await("another attempt is still out")
    assert machine.hedge(1, 1.0) == Await("late; hedged before")


def test_a_hedge_that_was_refused_is_not_asked_for_again() -> None:
    purse = Purse(0)
    machine = call(purse)
    machine.hedge(0, 1.0)
    purse.left = 9
    assert machine.hedge(0, 2.0) == Await("late; hedged before")


def test_a_suspect_request_is_not_hedged_too() -> None:
    machine = call(attempts=9)
    machine.suspect(0, 0.0)
    machine.written()
    why = "late; another attempt is already out, or it is suspect"
    assert machine.hedge(0, 1.0) == Await(why)
    assert machine.hedge(1, 1.0) == Await(why)
    lonely = call(Purse(0))
    lonely.suspect(0, 0.0)
    assert lonely.hedge(0, 1.0) == Await(why)


def test_a_hedged_request_that_becomes_suspect_has_company_enough() -> None:
    assert hedged(attempts=9).suspect(0, 1.0) == Await("suspect; another attempt is already out")


def test_when_both_are_suspect_a_third_starts() -> None:
    machine = hedged(attempts=9)
    machine.suspect(0, 1.0)
    assert machine.suspect(1, 1.0) == Try(2, 1.0, "suspect")


def test_the_first_answer_wins() -> None:
    assert hedged().answered(0, 200, None, 1.0) == Accept(0, "an answer")
    assert hedged().answered(1, 200, None, 1.0) == Accept(1, "an answer")


def test_one_that_fails_waits_for_the_other() -> None:
    for failure in (NOT_SENT, SENT, Failure(Progress.SENT, True), Failure(Progress.BODY)):
        for number in (0, 1):
            step = hedged().failed(number, failure, 1.0)
            assert step == Await("another attempt is still out")


def test_a_bad_answer_waits_for_the_other_and_is_kept() -> None:
    machine = hedged(attempts=2)
    assert machine.answered(1, 503, None, 1.0) == Await("status 503; another attempt is still out")
    step = machine.failed(0, SENT, 1.0)
    assert isinstance(step, Accept)
    assert step.number == 1


def test_when_both_failed_the_call_goes_on() -> None:
    machine = hedged(attempts=3)
    machine.failed(0, SENT, 1.0)
    assert machine.failed(1, SENT, 1.0) == Try(2, 1.2, "idempotent and unanswered")


def test_when_the_callers_limit_ended_one_nothing_follows_the_other() -> None:
    machine = hedged(attempts=9)
    machine.failed(0, Failure(Progress.SENT, True), 1.0)
    step = machine.failed(1, SENT, 1.0)
    assert isinstance(step, GiveUp)
    assert step.number == 0


def test_a_repeat_may_be_hedged() -> None:
    machine = call(attempts=9)
    machine.answered(0, 503, None, 0.0)
    machine.written()
    assert machine.hedge(1, 1.0) == Try(2, 1.0, "late")
