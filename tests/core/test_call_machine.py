"""Whatever becomes of its attempts, a call keeps its promises and comes to an end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlast.core.backoff import Backoff
from outlast.core.call import (
    MAX_UNSENT,
    Accept,
    Await,
    Call,
    CallPlan,
    Failure,
    GiveUp,
    Next,
    Repeat,
    Try,
)
from outlast.core.classify import Progress
from outlast.core.deadline import Deadline
from outlast.core.upstream import SILENT, Upstream
from tests.examples import examples

TINY = 1e-9  # seconds, of rounding
CAP = 3.0  # the longest Retry-After that is waited for
NAMED = 418  # a status that the policy repeats for unsafe methods too
WAIT = Backoff(base=0.1, cap=0.4)


@dataclass
class Attempt:
    """An attempt that is out; `began` may still lie ahead."""

    began: float
    written: bool = False
    suspect: bool = False


class Purse:
    """A budget that counts."""

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        self.granted = 0

    def take(self, now: float) -> bool:
        if self.granted == self.repeats:
            return False
        self.granted += 1
        return True


class CallMachine(RuleBasedStateMachine):
    """Plays the driver. Every attempt ends as it likes; the call must stay within its limits."""

    @initialize(
        attempts=st.integers(1, 4),
        timeout=st.sampled_from([None, 0.3, 2.0, 10.0]),
        safe=st.sampled_from([True, True, True, False]),  # calls that may go on are longer
        replayable=st.sampled_from([True, True, True, True, False]),
        repeats=st.sampled_from([9, 9, 9, 1, 0]),
        seed=st.integers(0, 9),
        least=st.sampled_from([0.0, 0.2, 1.5]),
        patience=st.sampled_from([math.inf] * 4 + [0.5]),
        dry=st.sampled_from([frozenset[Repeat]()] * 4 + [frozenset({each}) for each in Repeat]),
    )
    def begin(
        self,
        attempts: int,
        timeout: float | None,
        safe: bool,
        replayable: bool,
        repeats: int,
        seed: int,
        least: float,
        patience: float,
        dry: frozenset[Repeat],
    ) -> None:
        self.now = 100.0
        self.least, self.stops, self.dry = least, self.now + patience, dry
        self.safe, self.replayable, self.attempts = safe, replayable, attempts
        self.deadline = Deadline.after(timeout, self.now)
        self.purse = Purse(repeats)
        statuses, named = frozenset({429, 503}), frozenset({NAMED})
        plan = CallPlan(
            *(attempts, self.deadline, statuses, safe, replayable, WAIT.delay, CAP, named, least),
            stop=lambda requests, wait, now: now + wait >= self.stops,
            count_only=dry,
        )
        self.call = Call(plan, self.purse, Random(seed))
        self.out = {0: Attempt(self.now)}
        self.begun = 1
        self.written = 0
        self.elsewhere = 0  # requests that a router has made beyond ours
        self.forbidden = False
        self.hedges = 0
        self.maybe_done = 0  # requests that the server may have acted upon, statuses apart
        self.paid = 0
        self.unsent = 0
        self.answers: list[int] = []
        self.failures: list[int] = []
        self.limit: int | None = None  # the first attempt that was sent and met the caller's limit
        self.ended: Accept | GiveUp | None = None

    def over(self) -> bool:
        return self.ended is not None

    def trusted(self) -> bool:
        """Whether somebody is out who is not suspect."""
        return not all(one.suspect for one in self.out.values())

    def running(self) -> list[int]:
        return sorted(number for number, one in self.out.items() if one.began <= self.now)

    # -- what may happen -------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.01, 0.1, 0.2, 1.0]))
    def time_passes(self, seconds: float) -> None:
        """The driver looks at the clock only where it waits."""
        self.now += seconds

    @precondition(lambda self: not self.over())
    @rule()
    def the_back_off_ends(self) -> None:
        self.now = max([self.now, *(one.began for one in self.out.values())])

    @precondition(lambda self: not self.over() and self.running())
    @rule(data=st.data())
    def a_byte_is_written(self, data: st.DataObject) -> None:
        attempt = self.out[data.draw(st.sampled_from(self.running()))]
        if not attempt.written:
            attempt.written = True
            self.written += 1
            self.call.written()

    @precondition(lambda self: not self.over())
    @rule(consumed=st.sampled_from([False] * 9 + [True]))
    def the_body_is_consumed(self, consumed: bool) -> None:
        if consumed:
            self.replayable = False
            self.call.consumed()

    @precondition(lambda self: not self.over() and self.running())
    @rule(
        data=st.data(),
        progress=st.sampled_from([Progress.SENT] * 4 + list(Progress)),
        final=st.sampled_from([False, False, False, True]),
        wanted=st.sampled_from([None] * 4 + [True, False]),
    )
    def an_attempt_fails(
        self, data: st.DataObject, progress: Progress, final: bool, wanted: bool | None
    ) -> None:
        """NOT_SENT may also be learnt after writing: GOAWAY says that it was not acted upon."""
        number = data.draw(st.sampled_from(self.running()))
        attempt = self.out[number]
        if progress is not Progress.NOT_SENT and not attempt.written:
            self.a_byte_of(attempt)
        del self.out[number]
        self.failures.append(number)
        self.maybe_done += progress is not Progress.NOT_SENT
        self.unsent += progress is Progress.NOT_SENT
        if final and progress is not Progress.NOT_SENT and self.limit is None:
            self.limit = number
        free = progress is Progress.NOT_SENT
        right = free or (progress is Progress.SENT and self.safe and wanted is not False)
        if free:
            room = self.room_for_one_unsent() and Repeat.UNSENT not in self.dry
        else:
            room = self.room_for_one_more(None, Repeat.UNANSWERED)
        step = self.call.failed(number, Failure(progress, final, wanted=wanted), self.now)
        if isinstance(step, Try):
            assert right
            assert not final
            assert self.replayable
            assert not self.trusted()
        elif right and self.replayable and not final and not self.trusted():
            assert not room
        self.obey(step, free=free)

    @precondition(lambda self: not self.over() and self.running())
    @rule(
        data=st.data(),
        status=st.sampled_from([200, 429, 503, 503, 503, NAMED, NAMED]),
        wait=st.sampled_from([None] * 6 + [0.0, 0.2, 1.0, CAP, CAP + 0.1, math.inf]),
        upstream=st.sampled_from([SILENT] * 6 + [Upstream(2), Upstream(4), Upstream(stop="x")]),
        wanted=st.sampled_from([None] * 4 + [True, False]),
    )
    def an_attempt_is_answered(
        self,
        data: st.DataObject,
        status: int,
        wait: float | None,
        upstream: Upstream,
        wanted: bool | None,
    ) -> None:
        number = data.draw(st.sampled_from(self.running()))
        self.a_byte_of(self.out.pop(number))
        self.answers.append(number)
        self.maybe_done += status != NAMED
        self.elsewhere += upstream.attempts - 1
        right = status == NAMED or (self.safe and (status in (429, 503) or wanted is True))
        right = right and wanted is not False
        self.forbidden |= bool(right and self.replayable and upstream.stop)
        room = self.room_for_one_more(wait, Repeat.STATUS)
        step = self.call.answered(number, status, wait, self.now, upstream=upstream, wanted=wanted)
        if isinstance(step, Try):
            assert right
            assert self.replayable
            assert not self.trusted()
            assert wait is None or (wait <= CAP and wait <= step.at - self.now <= 1.1 * wait + TINY)
        elif right and self.replayable and not self.trusted() and not (self.out and wait):
            assert not room
        if status == 200 and wanted is None:
            assert step == Accept(number, "an answer")
        self.obey(step, free=False)

    @precondition(lambda self: not self.over() and self.running())
    @rule(data=st.data())
    def an_attempt_is_suspect(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.running()))
        self.a_byte_of(self.out[number])
        self.out[number].suspect = True
        room = self.room_for_one_more(0.0, Repeat.SUSPECT) and not self.trusted()
        step = self.call.suspect(number, self.now)
        if isinstance(step, Try):
            assert self.safe
            assert self.replayable
            assert step.at == self.now
        else:
            assert isinstance(step, Await)
            assert not (room and self.safe and self.replayable)
        self.obey(step, free=False)

    @precondition(lambda self: not self.over() and self.running())
    @rule(data=st.data())
    def an_attempt_is_late(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.running()))
        self.a_byte_of(self.out[number])
        alone = len(self.out) == 1 and not self.out[number].suspect
        room = self.room_for_one_more(0.0, Repeat.HEDGE) and alone
        first = not self.hedges
        step = self.call.hedge(number, self.now)
        if alone and self.safe and self.replayable:
            self.hedges += 1
        if isinstance(step, Try):
            assert self.safe
            assert self.replayable
            assert first
            assert alone
            assert step.at == self.now
        else:
            assert isinstance(step, Await)
            assert not (room and first and self.safe and self.replayable)
        self.obey(step, free=False)

    def room_for_one_more(self, wait: float | None, rule: Repeat) -> bool:
        """Whether all limits surely allow one more request after `wait`, or after any back-off."""
        longest = WAIT.cap if wait is None else wait
        return (
            self.room_for_one_unsent()
            and rule not in self.dry
            and self.written + self.elsewhere < self.attempts
            and longest <= CAP
            and self.now + 1.1 * longest + self.least + TINY < self.deadline.at
            and self.now + 1.1 * longest + TINY < self.stops
            and self.purse.granted < self.purse.repeats
        )

    def room_for_one_unsent(self) -> bool:
        within = self.now + self.least + TINY < self.deadline.at and self.now < self.stops
        return self.limit is None and within and not self.forbidden and self.unsent <= MAX_UNSENT

    def a_byte_of(self, attempt: Attempt) -> None:
        if not attempt.written:
            attempt.written = True
            self.written += 1
            self.call.written()

    # -- what the call says ----------------------------------------------------------------

    def obey(self, step: Next, *, free: bool) -> None:
        if isinstance(step, Await):
            assert self.out, "nobody is out, and nothing is decided"
            self.held_back(step)
        elif isinstance(step, Try):
            assert self.call.held_back is None
            self.start(step, free=free)
        elif isinstance(step, Accept):
            assert step.number in self.answers
            assert step.number == self.answers[-1]
            self.held_back(step)
            self.ended = step
        else:
            self.held_back(step)
            self.give_up(step)

    def held_back(self, step: Await | Accept | GiveUp) -> None:
        """A dry run is told as such, and nothing else is."""
        rule = self.call.held_back
        assert (rule is not None) == ("a dry run" in step.why)
        assert rule is None or rule in self.dry

    def start(self, step: Try, *, free: bool) -> None:
        assert step.number == self.begun
        assert self.now <= step.at < self.deadline.at
        assert step.at + self.least <= self.deadline.at + TINY
        assert step.at < self.stops
        assert step.rule not in self.dry
        assert not self.forbidden
        assert step.at == self.now or not self.out, "nobody hears those that are out"
        assert self.limit is None
        assert self.unsent <= MAX_UNSENT
        if not free:
            self.paid += 1
            assert self.written + self.elsewhere < self.attempts
        self.out[step.number] = Attempt(step.at)
        self.begun += 1

    def give_up(self, step: GiveUp) -> None:
        assert not self.answers, "an answer was thrown away"
        assert not self.out
        assert step.number == (self.failures[-1] if self.limit is None else self.limit)
        self.ended = step

    # -- at every moment -------------------------------------------------------------------

    @invariant()
    def the_limits_hold(self) -> None:
        if not hasattr(self, "call"):
            return
        assert sum(not one.suspect for one in self.out.values()) <= 1 + (self.hedges > 0)
        assert self.purse.granted == self.paid
        assert self.begun <= 1 + self.paid + self.unsent
        if not self.safe:
            assert self.maybe_done <= 1, "an unsafe request may have been acted upon twice"

    @invariant()
    def no_more_requests_are_written_than_attempts(self) -> None:
        """Sent at last means written; what was taken back as not acted upon is replaced."""
        if hasattr(self, "call"):
            assert self.written <= self.attempts + self.unsent

    def teardown(self) -> None:
        """Whatever is still out fails, one after the other: the call ends, in bounded steps."""
        if not hasattr(self, "call"):
            return
        for _ in range(2 * (MAX_UNSENT + self.attempts) + 10):
            if self.over():
                return
            self.the_back_off_ends()
            number = max(self.out)
            del self.out[number]
            self.failures.append(number)
            self.unsent += 1
            self.obey(self.call.failed(number, Failure(Progress.NOT_SENT), self.now), free=True)
            self.the_limits_hold()
        raise AssertionError("the call does not end")


TestCallMachine = CallMachine.TestCase
TestCallMachine.settings = settings(max_examples=examples(500), stateful_step_count=30)
