"""What a call's policy says of its repeats, between `core.call`, which decides, and the driver.

The caller's strategies are told how each attempt ended before the machine decides; the machine's
budget is the target's, with the call's own figures; a router's own repeats are read out of an
answer; its sticky cookies are left out of what is sent again. Made when something is amiss, so that
a call that is answered at once has none of it. Refuses nothing itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast import events
from outlast.core.budget import BudgetPlan
from outlast.core.call import Await, Call, CallPlan, Failure, Next, Repeat, Try
from outlast.core.classify import Progress
from outlast.core.cookies import without_cookies
from outlast.core.upstream import read_upstream
from outlast.errors import TransportFailure
from outlast.http.message import Head, Headers
from outlast.service.table import Service
from outlast.strategies import Strategies

if TYPE_CHECKING:
    from outlast.http.call_context import CallContext
    from outlast.http.family import Family, FamilyRequest

__all__ = ["Repeats"]

COOKIE = b"cookie"


class _Purse:
    """The target's retry budget, by one call's figures."""

    __slots__ = ("_plan", "_service")

    def __init__(self, service: Service, plan: BudgetPlan) -> None:
        self._service = service
        self._plan = plan

    def take(self, now: float) -> bool:
        """See `core.call.Budget`."""
        return self._service.take(now, self._plan)


class Repeats:
    """One call's machine, and what it is told. One owner; not thread-safe. `written`: requests of
    which a byte was written before there was any of this."""

    __slots__ = ("_call", "_policy", "_request", "_strategies", "machine")

    def __init__(self, call: CallContext, written: int) -> None:
        policy = self._policy = call.policy
        self._call = call
        self._request = call.request
        self._strategies = Strategies(
            policy.backoff, policy.stop, policy.retry_if, call.report.started
        )
        purse = _Purse(call.service, policy.retry_budget)
        self.machine = Call(self._plan(call), purse, call.engine.rng)
        for _ in range(written):
            self.machine.written()

    def _plan(self, call: CallContext) -> CallPlan:
        policy, request, strategies = self._policy, self._request, self._strategies
        dry = policy.dry_run
        return CallPlan(
            attempts=policy.attempts,
            deadline=call.deadline,
            statuses=frozenset(policy.retry_status),
            safe=request.safe,
            replayable=request.body.replayable,
            backoff=strategies.backoff,
            retry_after_cap=policy.retry_after_limit,
            named_statuses=frozenset(policy.unsafe_status.get(request.method, ())),
            least=0.0 if call.pace is None else call.pace.least(),
            stop=strategies.stop,
            count_only=frozenset(each for each in dry if isinstance(each, Repeat)),
        )

    # -- what became of an attempt ---------------------------------------------------------

    def answered(self, number: int, head: Head, retry_after: float | None, now: float) -> Next:
        """See `Call.answered`."""
        wanted = self._strategies.answered(lambda: self._response(head), self._call.written, now)
        step = self.machine.answered(
            number,
            head.status,
            retry_after,
            now,
            upstream=read_upstream(head.header),
            wanted=wanted,
        )
        self._count(now)
        return step

    def failed(self, number: int, failure: TransportFailure, how: Failure, now: float) -> Next:
        """See `Call.failed`; `how` without the condition's word."""
        sent = how.progress is not Progress.NOT_SENT or how.refused
        wanted = self._strategies.failed(
            lambda: self._error(failure), self._call.written, now, sent=sent
        )
        how = Failure(how.progress, how.final, how.refused, how.unacknowledged, wanted)
        step = self.machine.failed(number, how, now)
        self._count(now)
        return step

    def suspect(self, number: int, now: float) -> Next:
        """See `Call.suspect`."""
        step = self.machine.suspect(number, now)
        self._count(now)
        return step

    def late(self, number: int, sent_at: float, now: float) -> Try | Await:
        """See `Call.hedge`; `sent_at`: when the first byte of the request was written."""
        pace = self._call.pace
        assert pace is not None
        step = pace.start_hedge(lambda: self.machine.hedge(number, now))
        self._count(now)
        if isinstance(step, Try) and events.wanted(events.HedgeStarted):
            target = self._call.service.target.text
            events.emit(
                events.HedgeStarted(at=now, target=target, attempt=step.number, after=now - sent_at)
            )
        return step

    def _count(self, now: float) -> None:
        held_back = self.machine.held_back
        if held_back is not None:
            self._call.service.hold_back(held_back, now)

    # -- what the caller's strategies see --------------------------------------------------

    def _response(self, head: Head) -> object:
        """The answer as the caller would have it, without its body."""
        family, given = self._family()
        return family.response(head.status, headers=head.headers, request=given)

    def _error(self, failure: TransportFailure) -> BaseException:
        """The failure as the caller would be given it."""
        family, given = self._family()
        failure.report = self._call.report
        error = family.error(failure, given)
        error.__cause__ = failure.cause
        return error

    def _family(self) -> tuple[Family, FamilyRequest]:
        family, given = self._request.family, self._request.given
        assert family is not None
        assert given is not None
        return family, given

    # -- what is sent again ----------------------------------------------------------------

    def headers(self) -> Headers:
        """Those of a repeated request: without a router's sticky cookies, if they are named."""
        headers, names = self._request.headers, self._policy.sticky_cookies
        if not names:
            return headers
        found = []
        for name, value in headers:
            kept = without_cookies(value, names) if name.lower() == COOKIE else value
            if kept is not None:
                found.append((name, kept))
        return found
