"""Drives one call: runs attempts, tells `core.call` what became of them, does what it says.

Usually one attempt, alone. One that is suspect, or late and to be hedged, gets company: all are
stepped in the same thread or task, the first answer wins and the others are ended at once.
"""

from __future__ import annotations

from outlast import events
from outlast.core.call import Accept, Failure, GiveUp, Next, Repeat, Try
from outlast.core.classify import Progress, parse_retry_after
from outlast.errors import TransportFailure
from outlast.http.announcing import answered, attempt_failed, failed
from outlast.http.answer import Answer
from outlast.http.attempt import Attempt, Outcome
from outlast.http.call_context import CallContext
from outlast.http.engine import Engine
from outlast.http.message import Request
from outlast.http.paced import PacedAttempt, attempt_of
from outlast.http.ways import DIRECTLY
from outlast.net.dial import errno_of
from outlast.net.run import Strands, sleep_until

__all__ = ["run_call"]

HOLD = 65_536  # bytes of a retryable answer that are kept, in case nothing better comes


async def run_call(engine: Engine, request: Request) -> Answer:
    """Carry one call out. Raises TransportFailure with its report."""
    way = engine.settings.way
    call = CallContext(engine, request if way is DIRECTLY else way.request(request))
    call.service.request(call.report.started)
    first = Attempt(call, 0) if call.pace is None else attempt_of(call, 0)
    try:
        outcome = await first.go()
        head = first.head
        if (
            head is not None
            and outcome is Outcome.ANSWERED
            and (head.status < call.doubts_from or not call.doubts(head.status))
        ):
            first.heard_out()
            answer = first.answer()
        else:
            answer = await _Driver(call).run(first, outcome)
    except TransportFailure as failure:
        failure.report = call.report
        if events.listening:
            failed(call, failure)
        raise
    if events.listening:
        answered(call, answer)
    return answer


class _Driver:
    """One call under way."""

    __slots__ = ("answers", "attempts", "call", "failures", "out")

    def __init__(self, call: CallContext) -> None:
        self.call = call
        self.attempts: dict[int, Attempt] = {}  # those that are out
        self.failures: dict[int, TransportFailure] = {}
        self.answers: dict[int, Answer] = {}  # those that may still be given to the caller
        self.out: Strands[int, Outcome] | None = None

    async def run(self, first: Attempt, outcome: Outcome) -> Answer:
        """What follows from the first attempt's outcome."""
        self.attempts[first.number] = first
        try:
            step = await self._tell(first, outcome)
            while True:
                if isinstance(step, Accept) and step.number in self.answers:
                    self._overtake()
                    return self.answers.pop(step.number)
                if isinstance(step, (Accept, GiveUp)):
                    raise self.failures[step.number]
                if isinstance(step, Try):
                    await self._start(step)
                number, outcome = await self._next()
                step = await self._tell(self.attempts[number], outcome)
        finally:
            self.end()

    def end(self) -> None:
        """Whatever is still out or held is ended."""
        if self.out is not None:
            self.out.close()
        for attempt in self.attempts.values():
            attempt.drop()
        for answer in self.answers.values():
            answer.close()

    # -- attempts --------------------------------------------------------------------------

    async def _start(self, step: Try) -> None:
        if step.at > self.call.now():
            await sleep_until(step.at)
        hedge = step.rule is Repeat.HEDGE  # what it stands beside is not doubted
        place = not hedge and self._take_place()
        started = self.attempts[step.number] = attempt_of(self.call, step.number, place=place)
        started.headers = self.call.repeats.headers()

    def _overtake(self) -> None:
        """An answer is there: so long at least the attempts would have taken that are out."""
        for each in self.attempts.values():
            if isinstance(each, PacedAttempt):
                each.overtaken()

    def _take_place(self) -> bool:
        """A suspect connection gives its place in the pool to the attempt beside it."""
        pool = self.call.engine.pool
        held = [attempt.lease for attempt in self.attempts.values() if attempt.lease is not None]
        return any(pool.disown(lease.connection) for lease in held)

    async def _next(self) -> tuple[int, Outcome]:
        """The next attempt that has something to say."""
        if self.out is None and len(self.attempts) == 1:
            (number,) = self.attempts
            return number, await self.attempts[number].go()
        if self.out is None:
            self.out = Strands(self.call.engine.network)
        for number, attempt in self.attempts.items():
            if number not in self.out:
                self.out.start(number, attempt.go())
        ended = await self.out.next()
        assert ended is not None  # without an end to the wait it only ends with a strand
        number, outcome = ended
        if isinstance(outcome, BaseException):
            raise outcome
        return number, outcome

    # -- what became of them ---------------------------------------------------------------

    async def _tell(self, attempt: Attempt, outcome: Outcome) -> Next:
        if not self.call.request.body.replayable:
            self.call.repeats.machine.consumed()
        if outcome is Outcome.SUSPECT:
            return self._suspect(attempt)
        if outcome is Outcome.LATE:
            return self._late(attempt)
        del self.attempts[attempt.number]
        if outcome is Outcome.FAILED:
            return self._failed(attempt)
        return await self._answered(attempt)

    def _suspect(self, attempt: Attempt) -> Next:
        step = self.call.repeats.suspect(attempt.number, self.call.now())
        self._note(attempt, f"suspect: {attempt.evidence}", step)
        return step

    def _late(self, attempt: Attempt) -> Next:
        now = self.call.now()
        assert isinstance(attempt, PacedAttempt)
        assert attempt.sent_at is not None
        step = self.call.repeats.late(attempt.number, attempt.sent_at, now)
        self._note(attempt, f"late: no answer after {now - attempt.sent_at:.3f} s", step)
        return step

    def _failed(self, attempt: Attempt) -> Next:
        now = self.call.now()
        failure = attempt.failure
        assert failure is not None
        self.failures[attempt.number] = failure
        before = self.call.report.progress
        if attempt.progress is Progress.NOT_SENT and before is not Progress.NOT_SENT:
            failure.message = f"{failure.message}, but an earlier attempt was: {before}"
        step = self.call.repeats.failed(
            attempt.number,
            failure,
            Failure(
                attempt.progress,
                final=failure.final,
                refused=attempt.refused,
                unacknowledged=attempt.unacknowledged,
            ),
            now,
        )
        self._note(attempt, failure.message, step)
        if events.listening:
            attempt_failed(self.call, attempt, step, None)
        trace = self.call.request.trace
        if trace is not None and attempt.used is not None:
            trace.attempt_failed(attempt.used.exchange, failure)
        return step

    async def _answered(self, attempt: Attempt) -> Next:
        call = self.call
        answer = self.answers[attempt.number] = attempt.answer()
        head = answer.head
        wait = None
        if head.status in (429, 503):
            wall_clock = call.engine.network.wall_clock()
            wait = parse_retry_after(head.header(b"retry-after"), wall_clock)
        step = call.repeats.answered(attempt.number, head, wait, call.now())
        attempt.heard_out(wait or 0.0)
        if attempt.number or not isinstance(step, Accept) or call.doubts(head.status):
            self._note(attempt, f"answered {head.status}", step)
        if events.listening and (isinstance(step, Try) or head.status in call.policy.retry_status):
            attempt_failed(call, attempt, step, head.status)
        if isinstance(step, Accept):
            return step
        return await self._hold(attempt, answer, step)

    async def _hold(self, attempt: Attempt, answer: Answer, step: Next) -> Next:
        """Keep an answer that something better may follow; one too big to keep is taken."""
        try:
            if await answer.hold(HOLD):
                return step
        except TransportFailure as failure:
            del self.answers[attempt.number]
            self.failures[attempt.number] = failure
            return step
        step = Accept(attempt.number, "its body is too big to be kept while trying again")
        self._note(attempt, "not repeated", step)
        return step

    def _note(self, attempt: Attempt, what: str, step: Next) -> None:
        used = attempt.used
        cause = None if attempt.failure is None else attempt.failure.cause
        self.call.report.add(
            self.call.now(),
            "request",
            f"{what}: {_words(step, what)}",
            address="" if used is None else str(used.address),
            local_port=0 if used is None else used.connection.stream.local_port,
            errno=errno_of(cause),
            progress=attempt.progress,
            attempt=attempt.number,
        )


def _words(step: Next, what: str) -> str:
    """What is done now, and why unless `what` has said it."""
    why = "" if step.why in what else f" ({step.why})"
    if isinstance(step, Try):
        return f"repeated{why}"
    if isinstance(step, Accept):
        return f"answer of attempt {step.number} taken{why}"
    return f"not repeated{why}" if isinstance(step, GiveUp) else step.why
