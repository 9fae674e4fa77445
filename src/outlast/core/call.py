"""One call: which attempts it makes, which answer it takes, when it gives up.

A pure machine. It is told what became of each attempt and says what comes next; it decides
by how far a request got (DESIGN section 2), the attempt count, the retry budget and the
deadline. Nothing sent costs no attempt, for any method; a written request costs one of
`attempts`. Sources: RFC 9110 section 9.2.2; Envoy's and Finagle's retry policies.

Attempts that are suspect stay out, and an answer of theirs still counts; what comes next is decided
as if they were gone. So at most one attempt that is not suspect is out at a time. What is started
beside a suspect one starts at once or not at all: who pauses does not hear it.

It refuses to send an unsafe request twice, to repeat without a budget, to repeat what the
caller's own read timeout has ended, and to repeat once a response body is under way.
Not thread-safe; one call has one owner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeAlias

from outlast.core.backoff import asked_for
from outlast.core.classify import (
    Progress,
    Verdict,
    may_repeat_after_failure,
    may_repeat_after_status,
)
from outlast.core.deadline import Deadline

__all__ = ["Accept", "Await", "Call", "CallPlan", "Failure", "GiveUp", "Next", "Try"]

MAX_UNSENT = 8  # attempts that failed with nothing sent; each used up a connection or a race


class Budget(Protocol):
    """Where repeats come from: a `RetryBudget`, or one behind a lock."""

    def take(self, now: float) -> bool:
        """Grant one repeat; False if there is none."""


@dataclass(frozen=True, slots=True)
class CallPlan:
    """The figures of one call. `backoff(retry, rng)` gives seconds; retry counts from 1."""

    attempts: int
    deadline: Deadline
    statuses: frozenset[int]
    safe: bool
    replayable: bool
    backoff: Callable[[int, Random], float]
    retry_after_cap: float
    named_statuses: frozenset[int] = frozenset()  # repeated by the policy's word, safe or not


@dataclass(frozen=True, slots=True)
class Failure:
    """How an attempt ended without a usable answer.

    `final`: the caller's own limit has ended it (read, write, pool, connect timeout, deadline)
    or repeating cannot help. It is raised as it is, unless another attempt is still out or there
    is an answer to fall back on: a repeat never makes things worse. Where a request that was
    sent has ended so, nothing new is started any more.

    `refused`: it was sent, and the server has said that it did not act on it because it takes no
    more for now: a repeat is safe, but counts and waits as any.

    `unacknowledged`: it was sent, the peer's kernel has acknowledged none of it, and the policy
    lets such be repeated whatever the method.
    """

    progress: Progress
    final: bool = False
    refused: bool = False
    unacknowledged: bool = False


@dataclass(frozen=True, slots=True)
class Try:
    """Start attempt `number` at `at`: on an endpoint that this call has not tried, else on a new
    connection, because pooled ones may share what broke the last one.
    """

    number: int
    at: float
    why: str


@dataclass(frozen=True, slots=True)
class Accept:
    """Return the answer of attempt `number` to the caller."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Await:
    """Nothing new to start: go on waiting for the attempts that are still out, suspect or not."""

    why: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Raise what attempt `number` failed with."""

    number: int
    why: str


Next: TypeAlias = Try | Accept | Await | GiveUp


class Call:
    """One call's decisions. Begin with attempt 0, then tell and obey."""

    __slots__ = (
        "_budget",
        "_ended",
        "_fallback",
        "_out",
        "_plan",
        "_replayable",
        "_rng",
        "_started",
        "_suspects",
        "_unsent",
        "_written",
    )

    def __init__(self, plan: CallPlan, budget: Budget, rng: Random) -> None:
        self._plan = plan
        self._replayable = plan.replayable
        self._budget = budget
        self._rng = rng
        self._out = {0}
        self._suspects: set[int] = set()
        self._started = 1
        self._written = 0
        self._unsent = 0
        self._fallback: int | None = None
        self._ended: int | None = None  # was sent, and ended by the caller's limit

    def consumed(self) -> None:
        """The body has been partly taken from its source: it cannot be sent again."""
        self._replayable = False

    def written(self) -> None:
        """A byte of an attempt's request has been written."""
        self._written += 1

    def answered(self, number: int, status: int, retry_after: float | None, now: float) -> Next:
        """Attempt `number` has a response head; `retry_after` in seconds, if it said so."""
        self._out.discard(number)
        plan = self._plan
        named = status in plan.named_statuses
        verdict = may_repeat_after_status(
            status,
            listed=plan.named_statuses if named else plan.statuses,
            safe=plan.safe or named,
            replayable=self._replayable,
        )
        if not verdict.repeat:
            return Accept(number, verdict.why)
        self._fallback = number
        if self._trusted:
            return Await(f"{verdict.why}; another attempt is still out")
        again = self._again(verdict, now, asked=retry_after)
        if isinstance(again, Try):
            return again
        return Await(f"{again}; a suspect one is still out") if self._out else Accept(number, again)

    def failed(self, number: int, failure: Failure, now: float) -> Next:
        """Attempt `number` ended without an answer."""
        self._out.discard(number)
        unsent = failure.progress is Progress.NOT_SENT and not failure.refused
        self._unsent += unsent
        if failure.final and not unsent and self._ended is None:
            self._ended = number
        if self._trusted:
            return Await("another attempt is still out")
        again = self._after(failure, now, unsent=unsent)
        if isinstance(again, Try):
            return again
        if self._out:
            return Await(f"{again}; a suspect one is still out")
        return self._last(number, again)

    def suspect(self, number: int, now: float) -> Next:
        """There is evidence against the peer of attempt `number`: may another start beside it?"""
        self._suspects.add(number)
        plan = self._plan
        if not (plan.safe and self._replayable):
            return Await("suspect, but it may not be repeated")
        if self._trusted:
            return Await("suspect; another attempt is already out")
        again = self._again(Verdict(True, "suspect"), now, asked=0.0)
        return again if isinstance(again, Try) else Await(f"waited for: {again}")

    # -- reckoning -------------------------------------------------------------------------

    @property
    def _trusted(self) -> bool:
        """Whether an attempt is out that is not suspect."""
        return not self._out <= self._suspects

    def _after(self, failure: Failure, now: float, *, unsent: bool) -> Try | str:
        """What may follow a failure, or why nothing may."""
        if failure.final:
            return "no repeat can help, or the caller's own limit has come"
        verdict = may_repeat_after_failure(
            failure.progress,
            safe=self._plan.safe or failure.unacknowledged,
            replayable=self._replayable,
        )
        if not verdict.repeat:
            return verdict.why
        if failure.refused:
            verdict = Verdict(True, "refused before it was processed")
        elif failure.unacknowledged:
            verdict = Verdict(True, "never acknowledged, and the policy repeats such")
        return self._unsent_again(verdict, now) if unsent else self._again(verdict, now)

    def _last(self, number: int, why: str) -> Next:
        if self._fallback is not None:
            return Accept(self._fallback, f"the last answer there was; {why}")
        return GiveUp(number if self._ended is None else self._ended, why)

    def _barred(self) -> str | None:
        """Why nothing new may start any more, if so."""
        if self._ended is not None:
            return f"the caller's limit has ended attempt {self._ended}"
        if self._unsent > MAX_UNSENT:
            return f"{self._unsent} connections failed before anything was sent"
        return None

    def _unsent_again(self, verdict: Verdict, now: float) -> Try | str:
        barred = self._barred()
        if barred is not None:
            return barred
        if self._plan.deadline.expired(now):
            return "the deadline has come"
        return self._start(now, verdict.why)

    def _again(self, verdict: Verdict, now: float, *, asked: float | None = None) -> Try | str:
        """A repeat that counts, or why there is none. `asked`: seconds, instead of the back-off."""
        plan = self._plan
        barred = self._barred()
        if barred is not None:
            return f"{verdict.why}; {barred}"
        if self._written >= plan.attempts:
            return f"{verdict.why}; all {plan.attempts} attempts are used"
        if asked is not None and asked > (0.0 if self._out else plan.retry_after_cap):
            return f"{verdict.why}; Retry-After asks for {asked:g} s"
        at = now + self._pause(asked, now)
        if at >= plan.deadline.at:
            return f"{verdict.why}; the deadline comes first"
        if not self._budget.take(now):
            return f"{verdict.why}; the retry budget is spent"
        return self._start(at, verdict.why)

    def _pause(self, asked: float | None, now: float) -> float:
        """Seconds until a repeat; none beside attempts that are out."""
        if self._out:
            return 0.0
        if asked is None:
            return self._plan.backoff(self._written, self._rng)
        return asked_for(asked, self._plan.deadline.at - now, self._rng) if asked else 0.0

    def _start(self, at: float, why: str) -> Try:
        number = self._started
        self._started += 1
        self._out.add(number)
        return Try(number, at, why)
