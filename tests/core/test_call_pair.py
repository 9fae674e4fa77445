"""Several attempts at once: who may start beside a suspect one, and who is waited for."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.core.call import MAX_UNSENT, Accept, Await, Call, Failure, GiveUp, Try
from outlast.core.classify import Progress
from outlast.core.deadline import Deadline
from tests.core.calls import BODY, NOT_SENT, SENT, Purse, call

SUSPECT = "suspect"


def test_a_suspect_request_gets_company_at_once() -> None:
    purse = Purse()
    assert call(purse).suspect(0, 3.0) == Try(1, 3.0, SUSPECT)
    assert purse.asked == 1


@pytest.mark.parametrize("plan", [{"safe": False}, {"replayable": False}])
def test_a_request_that_may_not_be_repeated_gets_no_company(plan: dict[str, Any]) -> None:
    assert call(**plan).suspect(0, 3.0) == Await("suspect, but it may not be repeated")


def test_one_attempt_at_most_is_out_that_is_not_suspect() -> None:
    machine = call(attempts=9)
    machine.suspect(0, 0.0)
    machine.written()
    assert machine.suspect(0, 1.0) == Await("suspect; another attempt is already out")


def test_company_that_is_suspect_too_gets_company() -> None:
    """An answer of any of them is taken."""
    machine = hedged(attempts=3)
    assert machine.suspect(1, 1.0) == Try(2, 1.0, SUSPECT)
    machine.written()
    assert machine.suspect(2, 2.0) == Await(f"waited for: {SUSPECT}; all 3 attempts are used")
    assert machine.answered(0, 200, None, 3.0) == Accept(0, "an answer")


@pytest.mark.parametrize(
    ("plan", "purse", "why"),
    [
        ({"attempts": 1}, Purse(), f"waited for: {SUSPECT}; all 1 attempts are used"),
        ({}, Purse(0), f"waited for: {SUSPECT}; the retry budget is spent"),
        ({"deadline": Deadline(3.0)}, Purse(), f"waited for: {SUSPECT}; the deadline comes first"),
    ],
)
def test_company_costs_what_any_repeat_costs(plan: dict[str, Any], purse: Purse, why: str) -> None:
    assert call(purse, **plan).suspect(0, 3.0) == Await(why)


def test_company_needs_no_longer_retry_after_than_nothing() -> None:
    assert call(retry_after_cap=0.0).suspect(0, 3.0) == Try(1, 3.0, SUSPECT)


def hedged(**figures: Any) -> Call:
    """Attempts 0 and 1 are out, both written; 0 is suspect."""
    machine = call(**figures)
    machine.suspect(0, 0.0)
    machine.written()
    return machine


def test_the_first_answer_wins() -> None:
    assert hedged().answered(1, 200, None, 1.0) == Accept(1, "an answer")
    assert hedged().answered(0, 200, None, 1.0) == Accept(0, "an answer")


def test_a_failure_waits_for_an_attempt_that_is_not_suspect() -> None:
    for failure in (NOT_SENT, SENT, BODY, Failure(Progress.SENT, True)):
        assert hedged().failed(0, failure, 1.0) == Await("another attempt is still out")


def test_a_retryable_answer_waits_for_an_attempt_that_is_not_suspect() -> None:
    machine = hedged()
    assert machine.answered(0, 503, None, 1.0) == Await("status 503; another attempt is still out")


BESIDE = "a suspect one is still out"


@pytest.mark.parametrize(
    ("failure", "why"),
    [(NOT_SENT, "nothing was sent"), (SENT, "idempotent and unanswered")],
)
def test_company_that_failed_is_replaced_at_once(failure: Failure, why: str) -> None:
    """As if the suspect attempt were gone; but whoever paused would not hear it."""
    assert hedged(attempts=3).failed(1, failure, 1.0) == Try(2, 1.0, why)


def test_company_that_was_answered_busy_is_replaced_at_once() -> None:
    assert hedged(attempts=3).answered(1, 503, None, 1.0) == Try(2, 1.0, "status 503")


def test_company_that_was_asked_to_wait_leaves_it_to_the_suspect_attempt() -> None:
    why = f"status 503; Retry-After asks for 0.5 s; {BESIDE}"
    assert hedged(attempts=3).answered(1, 503, 0.5, 1.0) == Await(why)


@pytest.mark.parametrize(
    ("figures", "purse", "why"),
    [
        ({"attempts": 2}, Purse(), "all 2 attempts are used"),
        ({"attempts": 9}, Purse(1), "the retry budget is spent"),
        ({"attempts": 9, "deadline": Deadline(1.0)}, Purse(), "the deadline comes first"),
    ],
)
def test_company_is_replaced_within_the_limits(
    figures: dict[str, Any], purse: Purse, why: str
) -> None:
    machine = call(purse, **figures)
    machine.suspect(0, 0.0)
    machine.written()
    assert machine.failed(1, SENT, 1.0) == Await(f"idempotent and unanswered; {why}; {BESIDE}")


def test_while_a_suspect_attempt_is_out_nothing_is_given_up() -> None:
    """Neither what no repeat can help, nor an answer that something better may follow."""
    for failure in (BODY, Failure(Progress.NOT_SENT, final=True), TIMED_OUT):
        assert isinstance(hedged(attempts=9).failed(1, failure, 1.0), Await)
    machine = hedged(attempts=2)
    why = f"status 503; all 2 attempts are used; {BESIDE}"
    assert machine.answered(1, 503, None, 1.0) == Await(why)
    step = machine.failed(0, SENT, 1.0)
    assert isinstance(step, Accept)
    assert step.number == 1


def test_when_both_failed_the_call_goes_on() -> None:
    """And pauses before it does: nobody is out that could be heard meanwhile."""
    machine = hedged(attempts=3)
    machine.failed(0, SENT, 1.0)
    assert machine.failed(1, SENT, 1.0) == Try(2, 1.2, "idempotent and unanswered")


def test_company_that_could_not_connect_is_followed_by_another_at_no_cost() -> None:
    purse = Purse()
    machine = call(purse, attempts=2)
    machine.suspect(0, 0.0)
    assert machine.failed(1, NOT_SENT, 1.0) == Try(2, 1.0, "nothing was sent")
    assert purse.asked == 1


def test_company_that_never_connects_is_bounded() -> None:
    machine = call(attempts=2)
    machine.suspect(0, 1.0)
    for number in range(1, MAX_UNSENT + 1):
        step = machine.failed(number, NOT_SENT, 1.0)
        assert step == Try(number + 1, 1.0, "nothing was sent")
    why = f"9 connections failed before anything was sent; {BESIDE}"
    assert machine.failed(MAX_UNSENT + 1, NOT_SENT, 1.0) == Await(why)


TIMED_OUT = Failure(Progress.SENT, final=True)


def test_after_the_callers_read_timeout_nothing_new_is_started() -> None:
    """Its company may still answer; when that fails too, the read timeout is what is raised."""
    for failure in (SENT, NOT_SENT, BODY, TIMED_OUT):
        machine = hedged(attempts=9)
        machine.failed(0, TIMED_OUT, 5.0)
        step = machine.failed(1, failure, 5.1)
        assert isinstance(step, GiveUp)
        assert step.number == 0


def test_after_the_callers_read_timeout_company_gets_no_company() -> None:
    machine = hedged(attempts=9)
    machine.failed(0, TIMED_OUT, 5.0)
    why = f"waited for: {SUSPECT}; the caller's limit has ended attempt 0"
    assert machine.suspect(1, 5.1) == Await(why)


def test_after_the_callers_read_timeout_any_answer_is_taken() -> None:
    machine = hedged(attempts=9)
    machine.failed(0, TIMED_OUT, 5.0)
    step = machine.answered(1, 503, None, 5.1)
    assert step == Accept(1, "status 503; the caller's limit has ended attempt 0")


def test_company_that_found_no_connection_does_not_end_the_call() -> None:
    """The connect limit ended the second attempt; the first was reset: it may be repeated."""
    machine = call(attempts=2)
    machine.suspect(0, 0.0)
    machine.failed(1, Failure(Progress.NOT_SENT, final=True), 1.0)
    assert isinstance(machine.failed(0, SENT, 2.0), Try)
