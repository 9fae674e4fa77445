"""One call: which attempts it makes, which answer it takes, when it gives up.

A pure machine. It is told what became of each attempt and says what comes next; it decides
by how far a request got (DESIGN section 2), the attempt count, the retry budget and the
deadline. Nothing sent costs no attempt, for any method; a written request costs one of
`attempts`. Sources: RFC 9110 section 9.2.2; Envoy's and Finagle's retry policies.

Attempts that are suspect stay out, and an answer of theirs still counts; what comes next is decided
as if they were gone. So at most one attempt that is not suspect is out at a time. What is started
beside a suspect one starts at once or not at all: who pauses does not hear it. A hedge stands
beside one that is merely late; both may win.

The caller's own strategies are asked for a wait, a stop and a condition; they can forbid what this
machine would do, and choose which answers are repeated, but not make an unsafe request safe.

It refuses to send an unsafe request twice, to repeat without a budget, to repeat what the
caller's own read timeout has ended, to repeat once a response body is under way, and to multiply
the repeats of a router or a mesh (`core.upstream`).
Not thread-safe; one call has one owner.
"""

from __future__ import annotations

from random import Random

from outlast.core.backoff import asked_for
from outlast.core.call_steps import (
    Accept,
    Await,
    Budget,
    CallPlan,
    Failure,
    GiveUp,
    Next,
    Repeat,
    Try,
)
from outlast.core.classify import (
    Progress,
    Verdict,
    may_repeat_after_failure,
    may_repeat_after_status,
)
from outlast.core.upstream import SILENT, Upstream

__all__ = ["Accept", "Await", "Call", "CallPlan", "Failure", "GiveUp", "Next", "Repeat", "Try"]

MAX_UNSENT = 8  # attempts that failed with nothing sent; each used up a connection or a race


class Call:
    """One call's decisions. Begin with attempt 0, then tell and obey.

    `held_back`: the repeat that the last step would have been, had `count_only` not named it.
    """

    __slots__ = (
        "_budget",
        "_elsewhere",
        "_ended",
        "_fallback",
        "_forbidden",
        "_hedged",
        "_out",
        "_plan",
        "_replayable",
        "_rng",
        "_started",
        "_suspects",
        "_unsent",
        "_written",
        "held_back",
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
        self._elsewhere = 0  # requests that a router or a mesh has made beyond ours
        self._forbidden = ""  # the header that forbids repeats
        self._hedged = False
        self.held_back: Repeat | None = None

    def consumed(self) -> None:
        """The body has been partly taken from its source: it cannot be sent again."""
        self._replayable = False

    def written(self) -> None:
        """A byte of an attempt's request has been written."""
        self._written += 1

    def answered(
        self,
        number: int,
        status: int,
        retry_after: float | None,
        now: float,
        *,
        upstream: Upstream = SILENT,
        wanted: bool | None = None,
    ) -> Next:
        """Attempt `number` has a response head; `retry_after` in seconds, if it said so.

        `wanted`: what the policy's own condition says of it, in place of its statuses; None where
        it has none.
        """
        self._told(number)
        self._elsewhere += upstream.attempts - 1
        verdict = self._verdict_on(status, wanted)
        if not verdict.repeat:
            return Accept(number, verdict.why)
        self._fallback = number
        self._forbidden = self._forbidden or upstream.stop
        if self._trusted:
            return Await(f"{verdict.why}; another attempt is still out")
        again = self._again(Repeat.STATUS, verdict, now, asked=retry_after)
        if isinstance(again, Try):
            return again
        return Await(f"{again}; a suspect one is still out") if self._out else Accept(number, again)

    def failed(self, number: int, failure: Failure, now: float) -> Next:
        """Attempt `number` ended without an answer."""
        self._told(number)
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
        self._told()
        self._suspects.add(number)
        if not (self._plan.safe and self._replayable):
            return Await("suspect, but it may not be repeated")
        if self._trusted:
            return Await("suspect; another attempt is already out")
        return self._beside(Repeat.SUSPECT, "suspect", now)

    def hedge(self, number: int, now: float) -> Try | Await:
        """Attempt `number`, whose request is written, is late: may another start beside it? At
        most once in a call, and not beside two."""
        self._told()
        if not (self._plan.safe and self._replayable):
            return Await("late, but it may not be repeated")
        if self._hedged:
            return Await("late; hedged before")
        if self._out != {number} or number in self._suspects:
            return Await("late; another attempt is already out, or it is suspect")
        self._hedged = True
        return self._beside(Repeat.HEDGE, "late", now)

    # -- reckoning -------------------------------------------------------------------------

    def _told(self, ended: int | None = None) -> None:
        """Something has happened, which may be an attempt's end."""
        self.held_back = None
        if ended is not None:
            self._out.discard(ended)

    def _beside(self, rule: Repeat, why: str, now: float) -> Try | Await:
        again = self._again(rule, Verdict(True, why), now, asked=0.0)
        return again if isinstance(again, Try) else Await(f"waited for: {again}")

    def _verdict_on(self, status: int, wanted: bool | None) -> Verdict:
        plan = self._plan
        if wanted is False:
            return Verdict(False, "an answer, by the policy's own condition")
        named = status in plan.named_statuses
        listed = plan.named_statuses if named else plan.statuses
        return may_repeat_after_status(
            status,
            listed=frozenset({status}) if wanted else listed,
            safe=plan.safe or named,
            replayable=self._replayable,
        )

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
        if failure.wanted is False and not unsent:
            return f"{verdict.why}; the policy's own condition does not repeat it"
        if failure.refused:
            verdict = Verdict(True, "refused before it was processed")
        elif failure.unacknowledged:
            verdict = Verdict(True, "never acknowledged, and the policy repeats such")
        if unsent:
            return self._unsent_again(verdict, now)
        return self._again(Repeat.UNANSWERED, verdict, now)

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
        return f"{self._forbidden} forbids it" if self._forbidden else None

    def _unsent_again(self, verdict: Verdict, now: float) -> Try | str:
        if self._plan.deadline.expired(now):
            return self._barred() or "the deadline has come"
        barred = self._barred() or self._late(now) or self._stopped(0.0, now)
        return barred or self._start(Repeat.UNSENT, now, verdict.why)

    def _again(
        self, rule: Repeat, verdict: Verdict, now: float, *, asked: float | None = None
    ) -> Try | str:
        """A repeat that counts, or why there is none. `asked`: seconds, instead of the back-off."""
        barred = self._barred() or self._used_up()
        if barred is None and asked is not None:
            if asked > (0.0 if self._out else self._plan.retry_after_cap):
                barred = f"Retry-After asks for {asked:g} s"
        if barred is not None:
            return f"{verdict.why}; {barred}"
        wait = self._pause(asked, now)
        barred = self._late(now + wait) or self._stopped(wait, now)
        if barred is not None:
            return f"{verdict.why}; {barred}"
        return self._start(rule, now + wait, verdict.why, paid=now)

    def _used_up(self) -> str | None:
        if self._written + self._elsewhere < self._plan.attempts:
            return None
        told = f", {self._elsewhere} of them by a router" if self._elsewhere else ""
        return f"all {self._plan.attempts} attempts are used{told}"

    def _late(self, at: float) -> str | None:
        """Why what begins at `at` comes too late, if so."""
        plan = self._plan
        if at >= plan.deadline.at:
            return "the deadline comes first"
        if plan.deadline.at - at < plan.least:
            return f"less than {plan.least:.3g} s are left of the deadline, too few to succeed"
        return None

    def _stopped(self, wait: float, now: float) -> str | None:
        stop = self._plan.stop
        stops = stop is not None and stop(self._written, wait, now)
        return "the policy's own stop has come" if stops else None

    def _pause(self, asked: float | None, now: float) -> float:
        """Seconds until a repeat; none beside attempts that are out."""
        if self._out:
            return 0.0
        if asked is None:
            return self._plan.backoff(self._written, self._rng)
        return asked_for(asked, self._plan.deadline.at - now, self._rng) if asked else 0.0

    def _start(self, rule: Repeat, at: float, why: str, *, paid: float | None = None) -> Try | str:
        """`paid`: when the budget is asked; None: for free."""
        if rule in self._plan.count_only:
            self.held_back = rule
            return f"{why}; a dry run only counts it ({rule.value})"
        if paid is not None and not self._budget.take(paid):
            return f"{why}; the retry budget is spent"
        number = self._started
        self._started += 1
        self._out.add(number)
        return Try(number, at, why, rule)
