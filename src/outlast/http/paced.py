"""An attempt with an eye on the clock: it ends at its own limit, and says when a hedge is due.

The attempt itself runs as ever, and is left where it waits when a time has come (`Resumable`), so
that every wait of it is bounded: for a place, for a connect, for room, for the head. What ends so
is not final, other than by the caller's own timeouts: `core.call` may repeat it. While the caller's
own code makes a body nothing can be ended; it ends with the next wait.
"""

from __future__ import annotations

import math

from outlast.core.classify import Progress, answer_fault
from outlast.errors import TransportFailure
from outlast.http.answer import MUTE
from outlast.http.attempt import Attempt, Outcome
from outlast.http.call_context import CallContext
from outlast.http.connection import Lease
from outlast.http.endings import excused
from outlast.http.pace import Pace
from outlast.http.watching import outcome
from outlast.net.run import Resumable

__all__ = ["PacedAttempt", "attempt_of"]

TOO_MANY = 429  # told at once, and no measure of what an answer takes (RFC 6585)
TOO_MUCH = frozenset({TOO_MANY, 503})  # of work, by an endpoint's own word


def attempt_of(call: CallContext, number: int, *, place: bool = False) -> Attempt:
    """Attempt `number` of a call; see `Attempt`."""
    if call.pace is None:
        return Attempt(call, number, place=place)
    return PacedAttempt(call, number, call.pace, place=place)


class PacedAttempt(Attempt):
    """See above. One owner; not thread-safe."""

    __slots__ = ("_hedge_at", "_limit", "_pace", "_seconds", "_whole_at", "_work", "sent_at")

    def __init__(self, call: CallContext, number: int, pace: Pace, *, place: bool) -> None:
        super().__init__(call, number, place=place)
        self._pace = pace
        self._work: Resumable[Outcome] | None = None
        self._limit = self._hedge_at = math.inf
        self._seconds = 0.0  # until `_limit`, when it began
        self.sent_at: float | None = None  # the first byte of the request
        self._whole_at: float | None = None  # the last one

    async def go(self) -> Outcome:
        """See `Attempt.go`."""
        work = self._work
        if work is None:
            if not self.started:
                self._start_clock()
            work = self._work = Resumable(self.call.engine.network, super().go())
        outcome = await work.until(self._next_stop)
        if outcome is None:
            if self.call.now() >= self._limit:
                return self._overrun(work)
            self._hedge_at = math.inf
            return Outcome.LATE
        self._work = None
        if outcome is Outcome.ANSWERED:
            self._timed()
        return outcome

    def drop(self) -> None:
        """See `Attempt.drop`."""
        work, self._work = self._work, None
        if work is not None:
            work.close()
        super().drop()

    def _start_clock(self) -> None:
        now = self.call.now()
        self._limit = self._pace.limit(self.call.written, now)
        self._seconds = self._limit - now

    def _next_stop(self) -> float:
        """When the attempt is to be left, as it waits now."""
        if self.sent_at is None and self.progress is not Progress.NOT_SENT:
            self.sent_at = self.call.now()
            self._hedge_at = self.sent_at + self._pace.hedge_after()
        if self.sent and self._whole_at is None:
            self._whole_at = self.call.now()
        return min(self._limit, self._hedge_at)

    # -- its times -------------------------------------------------------------------------

    def _timed(self) -> None:
        """It was answered: the first one's time is the target's response time, unless the answer
        is one that took no work."""
        if self.sent_at is None:
            self.sent_at = self.call.now()
        assert self.lease is not None
        self._timed_seat(self.lease, self.sent_at)
        if answer_fault(self.status) is None and self.status != TOO_MANY:
            self._count(self.sent_at)

    @property
    def _slow(self) -> bool:
        """Whether it takes too long by now."""
        return self._whole_at is not None and self._pace.slow(self.call.now() - self._whole_at)

    def heard_out(self, retry_after: float = 0.0) -> None:
        """See `Attempt.heard_out`."""
        if answer_fault(self.status) is not None or not self._slow:
            super().heard_out(retry_after)
            return
        now = self.call.now()
        self.call.service.spoke(self.address)
        self.call.health.slow(self.address, now)
        if self.turn is not None:
            self.turn.answered(self.status, now, retry_after)

    def _timed_seat(self, lease: Lease, sent_at: float) -> None:
        """What a limit that finds itself learns of."""
        seat = self.call.engine.pool.seats.get(lease)
        if seat is not None:
            seat.seconds = self.call.now() - sent_at
            seat.refused = self.status in TOO_MUCH

    def _blame(self, lease: Lease, failure: TransportFailure) -> None:
        seat = self.call.engine.pool.seats.get(lease)
        if seat is not None and failure.kind in MUTE:
            seat.refused = True
        super()._blame(lease, failure)

    def overtaken(self) -> None:
        """Another attempt is answered first: this one would have taken longer than so."""
        if self.sent_at is None:
            return
        if self._slow:
            self.call.health.slow(self.address, self.call.now())
        if self.turn is not None:
            self.turn.quit(self.call.now(), late=True)
        self._count(self.sent_at)

    def _count(self, sent_at: float) -> None:
        """An attempt that is not the call's first is no measure of the target's answers."""
        if self.number == 0:
            self._pace.took(self.call.now() - sent_at)

    def _overrun(self, work: Resumable[Outcome]) -> Outcome:
        """The attempt's own limit has come."""
        lease = self.lease
        failure = self.failure = self._too_slow(lease)
        if lease is not None:
            self._blame(lease, failure)
        self._work = None
        work.close()
        self.drop()
        return Outcome.FAILED

    def _too_slow(self, lease: Lease | None) -> TransportFailure:
        limit = f"{self._seconds:g} s (attempt_timeout)"
        if lease is not None:
            self._note_sent(lease)
            if lease.exchange.begun:
                self.progress = Progress.RESPONSE_BEGUN
        if lease is None or self.progress is Progress.NOT_SENT:
            where = "" if lease is None else f" by {lease.address}"
            return TransportFailure("ConnectTimeout", f"nothing was sent{where} within {limit}")
        told = f"no response from {lease.address} within {limit}; {outcome(lease)}"
        return excused(lease, TransportFailure("ReadTimeout", told))

    # -- out -------------------------------------------------------------------------------

    def _queue_start(self, lease: Lease) -> None:
        self.headers = self._pace.told(self.headers, self._limit, self.call.now())
        super()._queue_start(lease)
