"""tenacity's strategies on our clock: asked with our state, they say what they would say there."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import tenacity
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.core.backoff import Backoff
from outlast.core.call import Accept, Call, CallPlan, Failure, GiveUp, Try
from outlast.core.classify import Progress
from outlast.core.deadline import NEVER
from outlast.strategies import RetryOutcome, RetryState, Strategies
from tests.core.calls import STATUSES, Purse

WAITS: dict[str, Callable[[Any], float]] = {
    "fixed": tenacity.wait_fixed(2),
    "none": tenacity.wait_none(),
    "random": tenacity.wait_random(1, 3),
    "exponential": tenacity.wait_exponential(multiplier=0.1, max=3),
    "full jitter": tenacity.wait_random_exponential(multiplier=0.025, max=0.25),
    "jitter": tenacity.wait_exponential_jitter(multiplier=0.1, max=5),
    "incrementing": tenacity.wait_incrementing(1, 2, 9),
    "chain": tenacity.wait_chain(tenacity.wait_fixed(1), tenacity.wait_fixed(4)),
    "sum": tenacity.wait_fixed(1) + tenacity.wait_incrementing(0, 1),
    "exception": tenacity.wait_exception(lambda error: 7.0 if isinstance(error, OSError) else 1.0),
    "function": lambda state: state.idle_for + state.attempt_number,
}
STOPS: dict[str, Callable[[Any], bool]] = {
    "never": tenacity.stop_never,
    "attempt": tenacity.stop_after_attempt(3),
    "delay": tenacity.stop_after_delay(5),
    "before delay": tenacity.stop_before_delay(5),
    "any": tenacity.stop_after_attempt(9) | tenacity.stop_after_delay(2),
    "all": tenacity.stop_after_attempt(2) & tenacity.stop_after_delay(2),
    "function": lambda state: state.outcome is not None and state.outcome.failed,
}
CONDITIONS: dict[str, Callable[[Any], bool]] = {
    "always": tenacity.retry_always,
    "never": tenacity.retry_never,
    "type": tenacity.retry_if_exception_type(OSError),
    "not type": tenacity.retry_if_not_exception_type(OSError),
    "unless type": tenacity.retry_unless_exception_type(OSError),
    "exception": tenacity.retry_if_exception(lambda error: "reset" in str(error)),
    "cause": tenacity.retry_if_exception_cause_type(KeyError),
    "message": tenacity.retry_if_exception_message(match="conn.*"),
    "not message": tenacity.retry_if_not_exception_message(message="connection reset"),
    "result": tenacity.retry_if_result(lambda answer: answer == 503),
    "not result": tenacity.retry_if_not_result(lambda answer: answer == 200),
    "any": tenacity.retry_if_exception_type(OSError)
    | tenacity.retry_if_result(lambda answer: answer == 503),
    "all": tenacity.retry_if_exception_type(OSError)
    & tenacity.retry_if_exception(lambda error: "reset" in str(error)),
}


def caused() -> BaseException:
    error = ValueError("connection refused")
    error.__cause__ = KeyError()
    return error


OUTCOMES: list[int | BaseException] = [
    200,
    503,
    ConnectionResetError("connection reset"),
    TimeoutError("timed out"),
    caused(),
]


def theirs(
    outcome: object, attempt: int, now: float, idle: float = 0.0, wait: float = 0.0
) -> tenacity.RetryCallState:
    """tenacity's own state at the same moment of a call that began at 100."""
    state = tenacity.RetryCallState(retry_object=tenacity.Retrying(), fn=None, args=(), kwargs={})
    state.start_time, state.attempt_number, state.outcome_timestamp = 100.0, attempt, now
    failed = isinstance(outcome, BaseException)
    state.outcome = tenacity.Future.construct(attempt, outcome, failed)
    state.idle_for, state.upcoming_sleep = idle, wait
    return state


def told(strategies: Strategies, outcome: object, attempt: int, now: float) -> bool | None:
    if isinstance(outcome, BaseException):
        return strategies.failed(lambda: outcome, attempt, now)
    return strategies.answered(lambda: outcome, attempt, now)


def asking(
    wait: Any = None, stop: Any = None, condition: Any = None, now: float = 100.0
) -> Strategies:
    return Strategies(wait or Backoff(), stop, condition, now)


MOMENTS = st.floats(100.0, 110.0)
ATTEMPTS = st.integers(1, 12)
ENDINGS = st.sampled_from(OUTCOMES)
FEW = settings(max_examples=40)


# --- they say what tenacity's own would -------------------------------------------------------


@pytest.mark.parametrize("name", WAITS)
@FEW
@given(outcome=ENDINGS, attempt=ATTEMPTS, now=MOMENTS, seed=st.integers(0, 9))
def test_a_wait(name: str, outcome: object, attempt: int, now: float, seed: int) -> None:
    if name == "exception" and not isinstance(outcome, BaseException):
        return
    ours = asking(wait=WAITS[name])
    told(ours, outcome, attempt, now)
    random.seed(seed)
    found = ours.backoff(attempt, Random(1))
    random.seed(seed)
    assert found == WAITS[name](theirs(outcome, attempt, now))


@pytest.mark.parametrize("name", STOPS)
@FEW
@given(outcome=ENDINGS, attempt=ATTEMPTS, now=MOMENTS, wait=st.floats(0.0, 3.0))
def test_a_stop(name: str, outcome: object, attempt: int, now: float, wait: float) -> None:
    ours = asking(stop=STOPS[name])
    told(ours, outcome, attempt, now)
    state = theirs(outcome, attempt, now, wait=wait)
    assert ours.stop(attempt, wait, now) == STOPS[name](state)


@pytest.mark.parametrize("name", CONDITIONS)
@FEW
@given(outcome=ENDINGS, attempt=ATTEMPTS, now=MOMENTS)
def test_a_condition(name: str, outcome: object, attempt: int, now: float) -> None:
    ours = asking(condition=CONDITIONS[name])
    assert told(ours, outcome, attempt, now) == CONDITIONS[name](theirs(outcome, attempt, now))


def test_the_state_has_what_tenacitys_has() -> None:
    own = tenacity.RetryCallState(retry_object=tenacity.Retrying(), fn=None, args=(), kwargs={})
    state = RetryState(1.0)
    assert set(vars(own)) <= set(vars(state))
    assert state.seconds_since_start is None
    state.outcome_timestamp = 3.5
    assert state.seconds_since_start == 2.5


# --- the times are ours -----------------------------------------------------------------------


def test_waits_add_up_while_the_call_goes_on() -> None:
    """And a wait that is not made does not count."""
    seen = list[tuple[float, float]]()

    def stop(state: Any) -> bool:
        seen.append((state.idle_for, state.upcoming_sleep))
        return len(seen) == 3

    ours = asking(stop=stop)
    assert [ours.stop(1, wait, 101.0) for wait in (0.5, 2.0, 4.0)] == [False, False, True]
    assert seen == [(0.0, 0.5), (0.5, 2.0), (2.5, 4.0)]


def test_waits_add_up_without_a_stop_too() -> None:
    ours = asking(wait=lambda state: state.idle_for)
    assert ours.backoff(1, Random(1)) == 0.0
    ours.stop(1, 1.5, 101.0)
    assert ours.backoff(2, Random(1)) == 1.5


def test_without_an_outcome_there_is_none() -> None:
    ours = asking(stop=lambda state: state.outcome is None and state.seconds_since_start == 1.0)
    assert ours.stop(1, 0.0, 101.0)


def test_our_own_backoff_draws_from_the_calls_own_chance() -> None:
    found = asking(wait=Backoff(0.1, 0.4)).backoff(2, Random(7))
    assert found == Backoff(0.1, 0.4).delay(2, Random(7))


def test_outcomes_are_made_only_when_they_are_looked_at() -> None:
    made = list[str]()

    def response() -> str:
        made.append("response")
        return "answer"

    ours = asking(stop=tenacity.stop_after_attempt(2), condition=lambda state: bool(state.outcome))
    assert ours.answered(response, 1, 101.0) is True
    assert not ours.stop(1, 0.0, 101.0)
    assert made == []
    assert RetryOutcome(1, response).result() == "answer"
    assert made == ["response"]


def test_an_outcome_behaves_as_a_future() -> None:
    error = OSError("gone")
    answered, failed = RetryOutcome(2, lambda: 200), RetryOutcome(3, error=lambda: error)
    assert (answered.failed, answered.exception(), answered.result(0)) == (False, None, 200)
    assert (failed.failed, failed.exception(0)) == (True, error)
    assert (answered.done(), failed.attempt_number) == (True, 3)
    with pytest.raises(OSError, match="gone"):
        failed.result()
    assert RetryOutcome(1).result() is None


# --- what is refused while it is asked ----------------------------------------------------------


@pytest.mark.parametrize("wait", [-0.1, math.nan, "1", None, True])
def test_what_is_no_wait_is_refused(wait: Any) -> None:
    with pytest.raises(ValueError, match=r"^backoff: .* which is no wait in seconds, such as 0\.5"):
        asking(wait=lambda state: wait).backoff(1, Random(1))


def test_a_hidden_coroutine_is_refused() -> None:
    async def hidden(state: Any) -> bool:
        return True

    coroutine = hidden(None)
    with pytest.raises(ValueError, match=r"^stop: .* gave an awaitable; it must answer at once"):
        asking(stop=lambda state: coroutine).stop(1, 0.0, 101.0)
    with pytest.raises(ValueError, match=r"^retry_if: .* gave an awaitable"):
        asking(condition=lambda state: coroutine).answered(lambda: 200, 1, 101.0)
    coroutine.close()


def test_what_a_strategy_raises_reaches_the_caller() -> None:
    ours = asking(wait=tenacity.wait_exception(lambda error: 1.0))
    ours.answered(lambda: 503, 1, 101.0)
    with pytest.raises(RuntimeError):
        ours.backoff(1, Random(1))


# --- in a call ----------------------------------------------------------------------------------


def call(strategies: Strategies, **figures: Any) -> Call:
    plan: dict[str, Any] = {
        "attempts": 9,
        "deadline": NEVER,
        "statuses": STATUSES,
        "safe": True,
        "replayable": True,
        "backoff": strategies.backoff,
        "retry_after_cap": 10.0,
        "stop": strategies.stop,
        **figures,
    }
    machine = Call(CallPlan(**plan), Purse(), Random(1))
    machine.written()
    return machine


def test_a_call_waits_and_stops_as_it_is_told() -> None:
    ours = asking(
        wait=tenacity.wait_chain(tenacity.wait_fixed(1), tenacity.wait_fixed(3)),
        stop=tenacity.stop_before_delay(5),
    )
    machine = call(ours)
    first = machine.answered(0, 503, None, 100.0)
    assert isinstance(first, Try)
    assert first.at == 101.0
    machine.written()
    second = machine.answered(1, 503, None, 101.5)
    assert isinstance(second, Try)
    assert second.at == 104.5
    machine.written()
    last = machine.answered(2, 503, None, 104.6)
    assert last == Accept(2, "status 503; the policy's own stop has come")


def test_a_call_repeats_what_the_condition_wants() -> None:
    ours = asking(condition=tenacity.retry_if_result(lambda status: status == 500))
    for status, repeated in ((500, True), (503, False)):
        wanted = ours.answered(lambda status=status: status, 1, 100.0)  # type: ignore[misc]  # bound now
        step = call(ours).answered(0, status, None, 100.0, wanted=wanted)
        assert isinstance(step, Try) is repeated
    refused = ours.failed(OSError, 1, 100.0)
    step = call(ours).failed(0, Failure(Progress.SENT, wanted=refused), 100.0)
    assert isinstance(step, GiveUp)


def test_tenacity_is_not_imported_for_nothing() -> None:
    """It costs tens of milliseconds; whoever gives a strategy has it anyway."""
    import subprocess

    program = "import sys, outlast; outlast.Policy(hedge='p95'); print('tenacity' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "False"
