"""What one call does next, decision by decision."""

from __future__ import annotations

import math
from random import Random

import pytest

from outlast.core.backoff import Backoff
from outlast.core.budget import RetryBudget
from outlast.core.call import MAX_UNSENT, Accept, Await, Failure, GiveUp, Try
from outlast.core.classify import Progress
from outlast.core.deadline import Deadline
from tests.core.calls import BEGUN, BODY, NOT_SENT, SENT, STATUSES, Purse, call, unwritten

# --- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 301, 404, 500, 501, 599])
def test_an_answer_is_taken(status: int) -> None:
    assert call().answered(0, status, None, 0.0) == Accept(0, "an answer")


@pytest.mark.parametrize("status", sorted(STATUSES))
def test_a_retryable_status_is_repeated_after_the_back_off(status: int) -> None:
    assert call().answered(0, status, None, 5.0) == Try(1, 5.1, f"status {status}")


def test_the_back_off_is_told_how_many_requests_went_out() -> None:
    machine = call(backoff=lambda retry, rng: float(retry), attempts=4)
    for retry in (1, 2, 3):
        assert machine.answered(retry - 1, 503, None, 0.0) == Try(retry, retry, "status 503")
        machine.written()


def test_the_back_off_draws_from_the_callers_generator() -> None:
    machine = call(backoff=Backoff(base=1.0, cap=1.0).delay)
    step = machine.failed(0, SENT, 0.0)
    assert isinstance(step, Try)
    assert step.at == Random(1).uniform(0.0, 1.0)


def test_a_status_is_not_repeated_for_an_unsafe_request() -> None:
    why = "status 503, but not idempotent"
    assert call(safe=False).answered(0, 503, None, 0.0) == Accept(0, why)


def test_a_status_named_by_the_policy_is_repeated_for_an_unsafe_request() -> None:
    machine = call(safe=False, named_statuses=frozenset({500}))
    assert machine.answered(0, 500, None, 0.0) == Try(1, 0.1, "status 500")
    machine.written()
    assert machine.answered(1, 502, None, 0.0) == Accept(1, "status 502, but not idempotent")


def test_naming_a_status_does_not_make_an_unsafe_request_safe() -> None:
    machine = call(safe=False, named_statuses=frozenset({503}))
    assert machine.failed(0, SENT, 0.0) == GiveUp(0, "not idempotent and maybe sent")


def test_a_body_that_cannot_be_made_again_is_not_repeated_on_a_status() -> None:
    why = "status 503, but the body cannot be replayed"
    assert call(replayable=False).answered(0, 503, None, 0.0) == Accept(0, why)


def test_the_last_attempts_answer_is_taken_whatever_it_is() -> None:
    machine = call(attempts=1)
    assert machine.answered(0, 503, None, 0.0) == Accept(0, "status 503; all 1 attempts are used")


# --- Retry-After ------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [0.0, 0.5, 10.0])
def test_retry_after_is_honoured(wait: float) -> None:
    """Never earlier than it says; a little later, because everybody else was told the same."""
    moments = set()
    for seed in range(20):
        step = call(rng=Random(seed)).answered(0, 503, wait, 1.0)
        assert isinstance(step, Try)
        assert (step.number, step.why) == (1, "status 503")
        assert 1.0 + wait <= step.at <= 1.0 + 1.1 * wait
        moments.add(step.at)
    assert len(moments) == (20 if wait else 1)
    assert max(moments) - min(moments) >= 0.05 * wait


@pytest.mark.parametrize("wait", [10.5, math.inf])
def test_a_longer_retry_after_than_the_cap_returns_the_answer(wait: float) -> None:
    purse = Purse()
    why = f"status 503; Retry-After asks for {wait:g} s"
    assert call(purse).answered(0, 503, wait, 0.0) == Accept(0, why)
    assert purse.asked == 0


@pytest.mark.parametrize("wait", [2.0, 2.5])
def test_a_retry_after_past_the_deadline_returns_the_answer(wait: float) -> None:
    purse = Purse()
    machine = call(purse, deadline=Deadline(3.0))
    why = "status 503; the deadline comes first"
    assert machine.answered(0, 503, wait, 1.0) == Accept(0, why)
    assert purse.asked == 0


def test_a_retry_after_just_before_the_deadline_is_honoured() -> None:
    """What is added must not bring it to the deadline."""
    for seed in range(20):
        step = call(deadline=Deadline(3.0), rng=Random(seed)).answered(0, 503, 1.9, 1.0)
        assert isinstance(step, Try)
        assert 2.9 <= step.at < 3.0


# --- failures ---------------------------------------------------------------------------------


def test_an_idempotent_request_without_an_answer_is_repeated() -> None:
    assert call().failed(0, SENT, 2.0) == Try(1, 2.1, "idempotent and unanswered")


@pytest.mark.incident("FR-54")
def test_fr54_an_unsafe_request_that_was_sent_is_refused_with_the_reason() -> None:
    machine = call(safe=False, attempts=10)
    assert machine.failed(0, SENT, 0.0) == GiveUp(0, "not idempotent and maybe sent")


@pytest.mark.incident("FR-55")
@pytest.mark.parametrize("failure", [BEGUN, BODY])
def test_fr55_nothing_is_repeated_once_the_response_has_begun(failure: Failure) -> None:
    assert call().failed(0, failure, 0.0) == GiveUp(0, "the response had begun")


@pytest.mark.incident("FR-09")
@pytest.mark.parametrize("safe", [True, False])
def test_fr09_what_was_not_sent_is_repeated_at_once_for_any_method(safe: bool) -> None:
    purse = Purse()
    machine = unwritten(purse, safe=safe, attempts=1)
    assert machine.failed(0, NOT_SENT, 2.0) == Try(1, 2.0, "nothing was sent")
    assert purse.asked == 0


def test_what_was_not_sent_costs_no_attempt() -> None:
    machine = unwritten(safe=True, attempts=1)
    machine.failed(0, NOT_SENT, 0.0)
    machine.written()
    why = "idempotent and unanswered; all 1 attempts are used"
    assert machine.failed(1, SENT, 0.0) == GiveUp(1, why)


def test_what_was_not_sent_is_repeated_a_bounded_number_of_times() -> None:
    machine = unwritten()
    for number in range(MAX_UNSENT):
        assert machine.failed(number, NOT_SENT, 0.0) == Try(number + 1, 0.0, "nothing was sent")
    why = "9 connections failed before anything was sent"
    assert machine.failed(MAX_UNSENT, NOT_SENT, 0.0) == GiveUp(MAX_UNSENT, why)


def test_what_a_server_has_refused_is_repeated_whatever_the_method_but_counts_and_waits() -> None:
    refused = Failure(Progress.NOT_SENT, refused=True)
    machine = call(safe=False, attempts=3)
    for number, at in ((0, 2.1), (1, 2.2)):
        step = machine.failed(number, refused, 2.0)
        assert step == Try(number + 1, at, "refused before it was processed")
        machine.written()
    why = "refused before it was processed; all 3 attempts are used"
    assert machine.failed(2, refused, 2.0) == GiveUp(2, why)
    consumed = call(safe=False)
    consumed.consumed()
    why = "nothing was sent, but the body was partly consumed"
    assert consumed.failed(0, refused, 0.0) == GiveUp(0, why)


def test_what_was_not_sent_is_not_repeated_at_the_deadline() -> None:
    machine = unwritten(deadline=Deadline(5.0))
    assert machine.failed(0, NOT_SENT, 4.999) == Try(1, 4.999, "nothing was sent")
    assert machine.failed(1, NOT_SENT, 5.0) == GiveUp(1, "the deadline has come")


def test_a_consumed_body_is_never_repeated() -> None:
    machine = call()
    machine.consumed()
    why = "nothing was sent, but the body was partly consumed"
    assert machine.failed(0, NOT_SENT, 0.0) == GiveUp(0, why)
    machine = call()
    machine.consumed()
    assert machine.failed(0, SENT, 0.0) == GiveUp(0, "the body cannot be replayed")
    machine = call()
    machine.consumed()
    assert machine.suspect(0, 0.0) == Await("suspect, but it may not be repeated")


@pytest.mark.incident("FR-53")
@pytest.mark.parametrize("failure", [SENT, BEGUN, BODY])
@pytest.mark.parametrize("safe", [True, False])
def test_fr53_one_attempt_means_one_request(failure: Failure, safe: bool) -> None:
    assert isinstance(call(attempts=1, safe=safe).failed(0, failure, 0.0), GiveUp)
    assert isinstance(call(attempts=1, safe=safe).answered(0, 503, None, 0.0), Accept)
    assert isinstance(call(attempts=1, safe=safe).suspect(0, 0.0), Await)


def test_attempts_bound_the_requests_that_went_out() -> None:
    machine = call(attempts=3)
    assert isinstance(machine.failed(0, SENT, 0.0), Try)
    machine.written()
    assert isinstance(machine.failed(1, SENT, 0.0), Try)
    machine.written()
    why = "idempotent and unanswered; all 3 attempts are used"
    assert machine.failed(2, SENT, 0.0) == GiveUp(2, why)


def test_an_empty_budget_ends_the_call() -> None:
    machine = call(Purse(1))
    assert isinstance(machine.failed(0, SENT, 0.0), Try)
    machine.written()
    why = "idempotent and unanswered; the retry budget is spent"
    assert machine.failed(1, SENT, 0.0) == GiveUp(1, why)


def test_a_back_off_that_reaches_the_deadline_ends_the_call() -> None:
    machine = call(deadline=Deadline(1.0))
    why = "idempotent and unanswered; the deadline comes first"
    assert machine.failed(0, SENT, 0.9) == GiveUp(0, why)


# --- limits of the caller ---------------------------------------------------------------------


@pytest.mark.parametrize("progress", list(Progress))
def test_what_the_callers_own_limit_ended_is_raised(progress: Progress) -> None:
    why = "no repeat can help, or the caller's own limit has come"
    assert call().failed(0, Failure(progress, final=True), 0.0) == GiveUp(0, why)


@pytest.mark.parametrize(
    "failure",
    [SENT, NOT_SENT, BEGUN, Failure(Progress.SENT, True), Failure(Progress.NOT_SENT, True)],
)
def test_an_answer_there_was_is_better_than_a_later_error(failure: Failure) -> None:
    machine = call(attempts=2)
    machine.answered(0, 503, None, 0.0)
    if failure.progress is not Progress.NOT_SENT:
        machine.written()
    step = machine.failed(1, failure, 1.0)
    while isinstance(step, Try):
        step = machine.failed(step.number, failure, 1.0)
    assert isinstance(step, Accept)
    assert step.number == 0
    assert step.why.startswith("the last answer there was; ")


def test_the_last_of_several_answers_is_taken() -> None:
    machine = call(attempts=4)
    for number in range(3):
        machine.answered(number, 503, None, 0.0)
        machine.written()
    step = machine.failed(3, SENT, 0.0)
    assert isinstance(step, Accept)
    assert step.number == 2


# --- retry storms -----------------------------------------------------------------------------


@pytest.mark.incident("FR-57")
def test_fr57_a_thousand_calls_that_fail_together() -> None:
    """Granted when decided: those asleep in their back-off count. 20 %, half of it at once, and 3 a
    second for 10 s."""
    budget = RetryBudget()
    calls = [call(budget) for _ in range(1000)]
    for _ in calls:
        budget.request(0.0)
    steps = [machine.failed(0, SENT, 0.5) for machine in calls]
    assert sum(isinstance(step, Try) for step in steps) == 100 + 30


@pytest.mark.incident("FR-56")
@pytest.mark.parametrize(("per_second", "factor"), [(1000, 1.21), (1, 3.0)])
def test_fr56_a_storm_is_damped_and_a_slow_client_may_repeat(
    per_second: int, factor: float
) -> None:
    """60 s of nothing but failures, three attempts a call."""
    budget = RetryBudget()
    sent = 0
    calls = 60 * per_second
    for nth in range(calls):
        now = nth / per_second
        budget.request(now)
        step: object = Try(0, now, "")
        machine = unwritten(budget)
        while isinstance(step, Try):
            sent += 1
            machine.written()
            step = machine.failed(step.number, SENT, now)
    assert sent <= factor * calls
    if per_second == 1:
        assert sent == 3 * calls


def test_what_was_never_acknowledged_is_repeated_by_the_policys_word_alone() -> None:
    """Whatever the method; it counts and waits, and what cannot be sent again is not."""
    heard_nothing = Failure(Progress.SENT, unacknowledged=True)
    why = "never acknowledged, and the policy repeats such"
    assert call(safe=False).failed(0, heard_nothing, 2.0) == Try(1, 2.1, why)
    assert isinstance(call(safe=False).failed(0, SENT, 2.0), GiveUp)
    once = call(safe=False, attempts=1).failed(0, heard_nothing, 2.0)
    assert once == GiveUp(0, f"{why}; all 1 attempts are used")
    assert isinstance(call(safe=False, replayable=False).failed(0, heard_nothing, 2.0), GiveUp)
