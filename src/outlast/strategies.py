"""tenacity's strategies on this library's clock: `wait_*`, `stop_*` and `retry_if_*` in a policy.

tenacity asks a strategy with its `RetryCallState`. Here it is asked with a state that has the same
attributes, whose times come from the network's clock (virtual in tests) and whose attempts are
requests of which a byte was written. tenacity itself is never imported: whoever gives a strategy
has it. A plain function of the state does as well, as in tenacity.

What differs, because nothing unsafe may come of it: a strategy forbids repeats, spaces them and
chooses which answers are repeated; method, progress, `attempts`, budget and deadline hold beside
it. A `Retry-After` goes before a wait. A condition is asked of answers and of failures after
something was sent; where nothing was, the request has not been tried in a server's eyes. Beside a
suspect or a late request there is no outcome to look at, and no condition is asked.

Refuses coroutines, which would have to be awaited in the middle of a decision, and waits that are
no times. What a strategy raises reaches the caller.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

from outlast.core.backoff import Backoff

__all__ = ["Condition", "RetryOutcome", "RetryState", "Stop", "Strategies", "Wait", "strategy"]

Wait: TypeAlias = "Callable[[Any], float]"  # Any: their own types name tenacity's state
Stop: TypeAlias = "Callable[[Any], bool]"
Condition: TypeAlias = "Callable[[Any], bool]"

# tenacity's base classes, and what one of them is good for.
KINDS = {
    "wait_base": ("backoff", "wait_random_exponential(multiplier=0.025, max=0.25)"),
    "stop_base": ("stop", "stop_after_delay(5)"),
    "retry_base": ("retry_if", "retry_if_exception_type(httpx.ReadError)"),
}
FORMS = dict(KINDS.values())


def strategy(value: object, name: str) -> Any:
    """`value`, if it is a strategy that field `name` can ask. Else ValueError."""
    form = f"write {FORMS[name]}, or a function of a state like tenacity's RetryCallState"
    if isinstance(value, type):
        raise ValueError(f"{name}: {value!r} is a class, not a strategy made of it; {form}")
    if not callable(value):
        raise ValueError(f"{name}: {value!r} is no strategy; {form}")
    for base in type(value).__mro__:
        meant, _ = KINDS.get(base.__name__, (name, ""))
        if meant != name:
            raise ValueError(f"{name}: {value!r} is a strategy for {meant}; {form}")
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(type(value).__call__):
        raise ValueError(f"{name}: {value!r} is a coroutine; {form}")
    try:
        hash(value)
    except TypeError as error:
        raise ValueError(f"{name}: {value!r} has no hash, so no policy can hold it") from error
    return value


class RetryOutcome:
    """What became of the last attempt, as tenacity's Future shows it. Made when it is asked for."""

    __slots__ = ("_error", "_response", "attempt_number")

    def __init__(
        self,
        attempt_number: int,
        response: Callable[[], object] | None = None,
        error: Callable[[], BaseException] | None = None,
    ) -> None:
        self.attempt_number = attempt_number
        self._response = response
        self._error = error

    @property
    def failed(self) -> bool:
        """Whether it ended without an answer."""
        return self._error is not None

    def exception(self, timeout: float | None = None) -> BaseException | None:  # noqa: ARG002
        """The failure, as the caller would be given it; None for an answer. Never waits."""
        return None if self._error is None else self._error()

    def result(self, timeout: float | None = None) -> object:  # noqa: ARG002
        """The answer, without its body; raises the failure. Never waits."""
        if self._error is not None:
            raise self._error()
        return None if self._response is None else self._response()

    def done(self) -> bool:
        """Always."""
        return True


class RetryState:
    """What a strategy is asked with; the attributes of tenacity's RetryCallState.

    Times are the network's; `attempt_number` counts requests of which a byte was written;
    `outcome` is None beside a request that is still out.
    """

    def __init__(self, started: float) -> None:
        self.start_time = started
        self.attempt_number = 0
        self.outcome: RetryOutcome | None = None
        self.outcome_timestamp: float | None = None
        self.idle_for = 0.0
        self.upcoming_sleep = 0.0
        self.next_action: object = None
        self.retry_object: object = None
        self.fn: object = None
        self.args: tuple[object, ...] = ()
        self.kwargs: dict[str, object] = {}

    @property
    def seconds_since_start(self) -> float | None:
        """From the call's beginning to what was told last."""
        return None if self.outcome_timestamp is None else self.outcome_timestamp - self.start_time


class Strategies:
    """One call's strategies and what they are told. One owner; not thread-safe."""

    __slots__ = ("_backoff", "_condition", "_state", "_stop")

    def __init__(
        self, backoff: Backoff | Wait, stop: Stop | None, condition: Condition | None, now: float
    ) -> None:
        self._backoff = backoff
        self._stop = stop
        self._condition = condition
        self._state = RetryState(now)

    def answered(self, response: Callable[[], object], requests: int, now: float) -> bool | None:
        """An attempt was answered, after `requests` were written. `response` makes what the
        condition sees. Returns what it says; None: there is none, `wanted` of `Call.answered`."""
        return self._told(RetryOutcome(requests, response=response), now)

    def failed(
        self, error: Callable[[], BaseException], requests: int, now: float, *, sent: bool = True
    ) -> bool | None:
        """An attempt failed; `error` makes the exception. As `answered`, for `Failure.wanted`.
        `sent`: whether anything was; if not, there is nothing to ask the condition."""
        return self._told(RetryOutcome(requests, error=error), now, asks=sent)

    def _told(self, outcome: RetryOutcome, now: float, *, asks: bool = True) -> bool | None:
        state = self._state
        state.outcome = outcome
        state.outcome_timestamp = now
        state.attempt_number = outcome.attempt_number
        state.upcoming_sleep = 0.0
        if self._condition is None or not asks:
            return None
        return self._asked("retry_if", self._condition)

    def backoff(self, retry: int, rng: Random) -> float:
        """Seconds before a repeat: `CallPlan.backoff`. ValueError for what is no time."""
        if isinstance(self._backoff, Backoff):
            return self._backoff.delay(retry, rng)
        self._state.attempt_number = retry
        return _time(self._backoff(self._state), self._backoff)

    def stop(self, requests: int, wait: float, now: float) -> bool:
        """Whether to stop instead of waiting so long for a repeat: `CallPlan.stop`."""
        state = self._state
        state.attempt_number = requests
        state.outcome_timestamp = now
        state.upcoming_sleep = wait
        if self._stop is not None and self._asked("stop", self._stop):
            return True
        state.idle_for += wait
        return False

    def _asked(self, name: str, question: Callable[[Any], object]) -> bool:
        said = question(self._state)
        if inspect.isawaitable(said):
            raise ValueError(f"{name}: {question!r} gave an awaitable; it must answer at once")
        return bool(said)


def _time(wait: object, given_by: object) -> float:
    if isinstance(wait, (int, float)) and not isinstance(wait, bool) and wait >= 0:
        return float(wait)
    raise ValueError(
        f"backoff: {given_by!r} gave {wait!r}, which is no wait in seconds, such as 0.5"
    )
