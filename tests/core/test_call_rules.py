"""What the policy and the proxies on the way have to say: condition, stop, counts, dry run."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.core.call import Accept, Await, Call, Failure, GiveUp, Next, Repeat, Try
from outlast.core.classify import Progress
from outlast.core.deadline import Deadline
from outlast.core.upstream import Upstream
from tests.core.calls import NOT_SENT, SENT, Purse, call, unwritten

REFUSED = Failure(Progress.NOT_SENT, refused=True)


# --- the policy's own condition -----------------------------------------------------------------


def test_a_condition_chooses_answers_in_place_of_the_statuses() -> None:
    assert call().answered(0, 500, None, 0.0, wanted=True) == Try(1, 0.1, "status 500")
    why = "an answer, by the policy's own condition"
    assert call().answered(0, 503, None, 0.0, wanted=False) == Accept(0, why)


@pytest.mark.parametrize("plan", [{"safe": False}, {"replayable": False}])
def test_a_condition_makes_nothing_safe(plan: dict[str, Any]) -> None:
    step = call(**plan).answered(0, 500, None, 0.0, wanted=True)
    assert isinstance(step, Accept)


def test_a_named_status_still_takes_a_condition() -> None:
    named: dict[str, Any] = {"safe": False, "named_statuses": frozenset({503})}
    assert isinstance(call(**named).answered(0, 503, None, 0.0, wanted=True), Try)
    assert isinstance(call(**named).answered(0, 500, None, 0.0, wanted=True), Accept)
    assert isinstance(call(**named).answered(0, 503, None, 0.0, wanted=False), Accept)


@pytest.mark.parametrize(
    ("progress", "refused"), [(Progress.SENT, False), (Progress.NOT_SENT, True)]
)
def test_a_condition_forbids_to_repeat_a_failure(progress: Progress, refused: bool) -> None:
    failure = Failure(progress, refused=refused, wanted=False)
    step = call().failed(0, failure, 0.0)
    assert isinstance(step, GiveUp)
    assert step.why.endswith("; the policy's own condition does not repeat it")
    assert isinstance(call().failed(0, Failure(progress, refused=refused, wanted=True), 0.0), Try)


def test_a_condition_is_not_asked_where_nothing_was_sent() -> None:
    step = unwritten().failed(0, Failure(Progress.NOT_SENT, wanted=False), 0.0)
    assert step == Try(1, 0.0, "nothing was sent")


def test_a_condition_does_not_make_a_failure_repeatable() -> None:
    for failure in (
        Failure(Progress.SENT, final=True, wanted=True),
        Failure(Progress.BODY, wanted=True),
    ):
        assert isinstance(call().failed(0, failure, 0.0), GiveUp)
    step = call(safe=False).failed(0, Failure(Progress.SENT, wanted=True), 0.0)
    assert step == GiveUp(0, "not idempotent and maybe sent")


# --- the policy's own stop ----------------------------------------------------------------------


def test_a_stop_is_told_requests_wait_and_time() -> None:
    asked: list[tuple[int, float, float]] = []

    def stop(requests: int, wait: float, now: float) -> bool:
        asked.append((requests, wait, now))
        return len(asked) == 4

    machine = call(attempts=9, stop=stop)
    assert machine.failed(0, SENT, 1.0) == Try(1, 1.1, "idempotent and unanswered")
    assert machine.failed(1, NOT_SENT, 2.0) == Try(2, 2.0, "nothing was sent")
    machine.written()
    assert machine.suspect(2, 3.0) == Try(3, 3.0, "suspect")
    step = machine.failed(3, NOT_SENT, 4.0)
    assert isinstance(step, Await)
    assert "the policy's own stop has come" in step.why
    assert asked == [(1, 0.1, 1.0), (1, 0.0, 2.0), (2, 0.0, 3.0), (2, 0.0, 4.0)]


def test_a_stop_costs_no_budget() -> None:
    purse = Purse()
    step = call(purse, stop=lambda *_: True).answered(0, 503, None, 0.0)
    assert step == Accept(0, "status 503; the policy's own stop has come")
    assert purse.asked == 0


# --- what is left of the deadline ---------------------------------------------------------------


@pytest.mark.parametrize(("now", "starts"), [(9.0, True), (9.39, True), (9.41, False)])
def test_what_cannot_succeed_before_the_deadline_is_not_started(now: float, starts: bool) -> None:
    figures: dict[str, Any] = {"deadline": Deadline(10.0), "least": 0.5}
    purse = Purse()
    step = call(purse, **figures).failed(0, SENT, now)
    assert isinstance(step, Try) is starts
    assert purse.asked == starts
    unsent = unwritten(**figures).failed(0, NOT_SENT, now + 0.1)
    assert isinstance(unsent, Try) is starts
    if not starts:
        told = "less than 0.5 s are left of the deadline, too few to succeed"
        assert step.why == f"idempotent and unanswered; {told}"
        assert unsent.why == told


# --- proxies that repeat ------------------------------------------------------------------------


@pytest.mark.parametrize(("made", "starts"), [(1, True), (2, True), (3, False), (99, False)])
def test_a_proxys_requests_count_against_the_attempts(made: int, starts: bool) -> None:
    step = call().answered(0, 503, None, 0.0, upstream=Upstream(made))
    assert isinstance(step, Try) is starts
    if not starts:
        by = f"all 3 attempts are used, {made - 1} of them by a router"
        assert step == Accept(0, f"status 503; {by}")


def test_its_requests_add_up_over_the_call() -> None:
    machine = call(attempts=5)
    assert isinstance(machine.answered(0, 503, None, 0.0, upstream=Upstream(2)), Try)
    machine.written()
    assert isinstance(machine.answered(1, 503, None, 0.0, upstream=Upstream(2)), Try)
    machine.written()
    step = machine.failed(2, SENT, 0.0)
    assert isinstance(step, Accept)
    assert "all 5 attempts are used, 2 of them by a router" in step.why


def test_an_overloaded_proxy_forbids_every_repeat() -> None:
    told = Upstream(stop="x-envoy-overloaded")
    purse = Purse()
    step = call(purse).answered(0, 503, None, 0.0, upstream=told)
    assert step == Accept(0, "status 503; x-envoy-overloaded forbids it")
    assert purse.asked == 0
    beside = call(attempts=9)
    beside.hedge(0, 0.0)
    beside.written()
    assert isinstance(beside.answered(0, 503, None, 0.0, upstream=told), Await)
    last = beside.failed(1, NOT_SENT, 0.0)
    assert isinstance(last, Accept)
    assert last.number == 0


def test_an_answer_that_nobody_repeats_forbids_nothing() -> None:
    step = call().answered(0, 200, None, 0.0, upstream=Upstream(stop="x-envoy-overloaded"))
    assert step == Accept(0, "an answer")


# --- dry run ------------------------------------------------------------------------------------


def play(machine: Call, rule: Repeat) -> Next:
    """What leads to a repeat by this rule."""
    if rule is Repeat.STATUS:
        return machine.answered(0, 503, None, 1.0)
    if rule is Repeat.SUSPECT:
        return machine.suspect(0, 1.0)
    if rule is Repeat.HEDGE:
        return machine.hedge(0, 1.0)
    return machine.failed(0, NOT_SENT if rule is Repeat.UNSENT else SENT, 1.0)


@pytest.mark.parametrize("rule", list(Repeat))
def test_a_dry_run_only_counts(rule: Repeat) -> None:
    """Each rule holds back its own repeat, at no cost, and no other."""
    for played in Repeat:
        purse = Purse()
        machine = call(purse, count_only=frozenset({rule}))
        step = play(machine, played)
        if played is rule:
            assert not isinstance(step, Try)
            assert step.why.endswith(f"; a dry run only counts it ({rule.value})")
            assert machine.held_back is rule
            assert purse.asked == 0
        else:
            assert isinstance(step, Try)
            assert step.rule is played
            assert machine.held_back is None


def test_what_would_not_have_been_repeated_is_not_counted() -> None:
    only = frozenset(Repeat)
    for plan in ({"attempts": 1}, {"safe": False}, {"deadline": Deadline(1.0)}):
        machine = call(count_only=only, **plan)
        machine.answered(0, 503, None, 1.0)
        assert machine.held_back is None


def test_what_was_held_back_is_told_once() -> None:
    machine = call(count_only=frozenset({Repeat.SUSPECT}))
    machine.suspect(0, 1.0)
    assert machine.held_back is Repeat.SUSPECT
    machine.answered(0, 200, None, 2.0)
    assert machine.held_back is None


def test_a_refused_request_is_repeated_as_unanswered() -> None:
    step = call().failed(0, REFUSED, 1.0)
    assert isinstance(step, Try)
    assert step.rule is Repeat.UNANSWERED
