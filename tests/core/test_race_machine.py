"""Whatever happens in whatever order, a race keeps its promises and comes to an end."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from outlast.core.budget import RedialBucket
from outlast.core.classify import ConnectFault
from outlast.core.race import (
    MAX_PASSED,
    REDIAL_GAP,
    REDIAL_LIFE,
    Abandon,
    Lost,
    Pause,
    Race,
    RacePlan,
    Resolve,
    Start,
)
from tests.examples import examples

NAMES = ["a", "b", "c", "d", "e", "f"]
FAULTS = [ConnectFault.REFUSED, ConnectFault.UNREACHABLE, ConnectFault.SILENT]
FAULTS += [ConnectFault.LOCAL, ConnectFault.HANDSHAKE]


@dataclass
class Dial:
    """A dial that is open, as a driver sees it."""

    address: str
    began: float
    alone: bool  # the first of those to its address that are open
    connected: float | None = None


class Witness:
    """A bucket that remembers when it was asked and what it granted."""

    def __init__(self, tokens: int | None) -> None:
        self.bucket = RedialBucket(0.0)
        self.left = tokens
        self.granted = 0
        self.refused_at = -math.inf
        self.returned: int | None = None

    def take(self, now: float) -> bool:
        if self.left is None:
            granted = self.bucket.take(now)
        else:
            granted = self.left > self.granted
        self.granted += granted
        if not granted:
            self.refused_at = now
        return granted

    def won(self, taken: int, now: float) -> None:
        self.returned = taken
        before = self.bucket.level(now)
        self.bucket.won(taken, now)
        after = self.bucket.level(now)
        assert after == min(self.bucket.capacity(now), before + taken + 1)


class RaceMachine(RuleBasedStateMachine):
    """Plays the driver: obeys every step, and tells anything that could happen."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.open: dict[int, Dial] = {}
        self.dials: dict[str, int] = {}
        self.faults: dict[str, int] = {}
        self.told: dict[str, int] = {}  # dials that were answered, or ended with an error
        self.closed: set[str] = set()
        self.looking = False
        self.lookups = 0
        self.until = 0.0
        self.last_start = -math.inf
        self.error_since_start = True
        self.unreachable = False  # that was the last error
        self.passed = 0
        self.ended: str | None = None
        self.begun = 0
        self.granted = 0

    @initialize(
        delay=st.sampled_from([0.02, 0.25, 0.6, 2.0]),
        patience=st.sampled_from([0.0, 0.5, 1.5]),
        deadline=st.sampled_from([0.5, 2.0, 5.0]),
        max_open=st.integers(1, 6),
        lookups=st.booleans(),
        known=st.booleans(),
        count=st.integers(0, 6),
        tokens=st.sampled_from([None, None, 0, 1, 3, 1000]),
        later=st.sampled_from([None, 0.5]),
        lately=st.booleans(),
    )
    def begin(
        self,
        delay: float,
        patience: float,
        deadline: float,
        max_open: int,
        lookups: bool,
        known: bool,
        count: int,
        tokens: int | None,
        later: float | None,
        lately: bool,
    ) -> None:
        self.lately = lately
        later = None if later is None else later * delay
        self.plan = RacePlan(delay, patience, deadline, max_open, lookups, known, later, lately)
        self.bucket = Witness(tokens)
        self.addresses = set(NAMES[:count])
        self.race: Race[str] = Race(self.plan, self.bucket, NAMES[:count])
        self.obey()

    # -- what may happen -------------------------------------------------------------------

    @precondition(lambda self: self.ended is None)
    @rule(share=st.sampled_from([0.1, 0.5, 1.0, 1.0, 1.0]))
    def time_passes(self, share: float) -> None:
        """To the moment the machine waits for, or part of the way: an idle wake-up."""
        self.now = self.until if share == 1.0 else self.now + share * (self.until - self.now)
        self.obey()

    @precondition(lambda self: self.ended is not None)
    @rule()
    def it_is_over(self) -> None:
        """Nobody asks any more."""

    @precondition(lambda self: self.ended is None)
    @rule(late=st.sampled_from([0.001, 0.3, 3.0]))
    def the_driver_oversleeps(self, late: float) -> None:
        self.now = self.until + late
        self.obey()

    @precondition(lambda self: self.ended is None and self.open)
    @rule(data=st.data(), fault=st.sampled_from(FAULTS))
    def a_dial_fails(self, data: st.DataObject, fault: ConnectFault) -> None:
        number = data.draw(st.sampled_from(sorted(self.open)))
        lost = self.open.pop(number)
        address = lost.address
        if lost.connected is None and fault is not ConnectFault.SILENT:
            self.told[address] = self.told.get(address, 0) + 1
        self.faults[address] = self.faults.get(address, 0) + 1
        for_good = fault in (ConnectFault.LOCAL, ConnectFault.HANDSHAKE)
        most = 24 if self.lately and lost.connected is None else 8
        if for_good or self.faults[address] >= most:
            self.closed.add(address)
        self.error_since_start = True
        self.unreachable = fault is ConnectFault.UNREACHABLE
        self.race.failed(number, fault)
        self.obey()

    @precondition(lambda self: self.ended is None and self.begun - 1 in self.open)
    @rule()
    def the_last_dial_is_passed_over(self) -> None:
        """A driver says so before it waits: until then nothing else has happened to the dial."""
        number = self.begun - 1
        dial = self.open[number]
        if dial.connected is not None or dial.began < self.now:
            return
        assert self.race.passed_over(number) == (self.passed < MAX_PASSED)
        if self.passed < MAX_PASSED:
            self.passed += 1
            del self.open[number]
            self.dials[dial.address] -= 1
            self.error_since_start = True
        self.obey()

    @precondition(lambda self: self.ended is None and self.open)
    @rule(data=st.data())
    def a_dial_connects(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.open)))
        if self.open[number].connected is None:
            self.open[number].connected = self.now
            self.told[self.open[number].address] = self.told.get(self.open[number].address, 0) + 1
            self.race.connected(number, self.now)
        self.obey()

    @precondition(lambda self: self.ended is None and self.open and self.begun > 3)
    @rule(data=st.data())
    def a_dial_wins(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.open)))
        losers = self.race.won(number, self.now)
        del self.open[number]
        assert sorted(losers) == sorted(self.open)
        self.open.clear()
        self.ended = "won"
        assert self.bucket.returned == self.bucket.granted

    @precondition(lambda self: self.ended is None and self.looking)
    @rule(found=st.lists(st.sampled_from(NAMES), max_size=4, unique=True))
    def the_name_resolves(self, found: list[str]) -> None:
        self.looking = False
        self.addresses |= set(found)
        self.race.resolved(found, self.now)
        self.obey()

    @precondition(lambda self: self.ended is None and self.looking)
    @rule(passing=st.booleans())
    def the_name_does_not_resolve(self, passing: bool) -> None:
        self.looking = False
        self.race.lookup_failed(self.now, passing=passing)
        self.obey()

    # -- what the machine says -------------------------------------------------------------

    def obey(self) -> None:
        for _ in range(len(self.open) + 6):
            step = self.race.step(self.now)
            if isinstance(step, Pause):
                assert self.now < step.until <= self.plan.deadline
                self.until = step.until
                self.paused_for_a_reason()
                return
            if isinstance(step, Lost):
                self.lost(step)
                return
            if isinstance(step, Start):
                self.start(step)
            elif isinstance(step, Abandon):
                self.abandon(step)
            else:
                assert isinstance(step, Resolve)
                assert self.plan.lookups
                assert not self.looking
                self.looking = True
                self.lookups += 1
        raise AssertionError("no pause")

    def start(self, step: Start[str]) -> None:
        assert step.dial == self.begun
        assert self.now < self.plan.deadline
        assert step.address in self.addresses - self.closed
        fewest = min(self.dials.get(name, 0) for name in self.addresses - self.closed)
        assert self.dials.get(step.address, 0) == fewest
        self.on_time(step.address)
        self.room(step.address)
        self.paid(step.address)
        alone = all(dial.address != step.address for dial in self.open.values() if dial.alone)
        self.open[step.dial] = Dial(step.address, self.now, alone)
        self.begun += 1
        self.dials[step.address] = fewest + 1
        self.last_start = self.now
        self.unreachable = False
        self.passed = self.passed if self.error_since_start else 0
        self.error_since_start = False

    def on_time(self, address: str) -> None:
        """At once after an error; else after the delay, and after patience with handshakes."""
        if self.error_since_start:
            return
        delay = self.plan.delay
        if self.plan.later_delay and self.dials.get(address, 0) - self.told.get(address, 0) >= 2:
            delay = self.plan.later_delay
        assert self.now >= self.last_start + delay
        for dial in self.open.values():
            assert dial.connected is None or self.now >= dial.connected + self.plan.patience

    def room(self, address: str) -> None:
        """A dial is started where there is room; the first to an address also without."""
        alone = sum(dial.alone for dial in self.open.values())
        cap = max(self.plan.max_open, alone + 1 if alone > 1 else 1)
        if len(self.open) >= cap:
            assert not self.dials.get(address)
            assert all(dial.alone or dial.connected is not None for dial in self.open.values())

    def paid(self, address: str) -> None:
        """One from the bucket for each dial but the first; or what an empty bucket allows."""
        granted = self.bucket.granted - self.granted
        self.granted = self.bucket.granted
        assert granted <= 1
        if granted:
            assert self.begun
        elif self.begun:
            assert self.bucket.refused_at == self.now
            if self.open or self.unreachable:
                assert self.now >= self.last_start + REDIAL_GAP
            if not self.open:
                assert not self.dials.get(address)

    def abandon(self, step: Abandon) -> None:
        dial = self.open.pop(step.dial)
        if self.now < self.plan.deadline:
            assert not dial.alone
            assert dial.connected is None
            older = [one for number, one in self.open.items() if number < step.dial]
            assert all(one.alone or one.connected is not None for one in older)

    def lost(self, step: Lost) -> None:
        assert not self.open
        assert step.timed_out == (self.now >= self.plan.deadline)
        assert self.race.step(self.now) == step
        if not step.timed_out:
            assert not self.looking
            assert self.lookups or not self.plan.lookups
            tried = {name for name in self.addresses if self.dials.get(name)}
            assert tried == self.addresses
            if self.bucket.refused_at < self.now:
                assert self.addresses == self.closed
        self.ended = "lost"

    def paused_for_a_reason(self) -> None:
        """With nothing out, a race waits only for a name, or for a second to be over."""
        gap = self.unreachable and self.now < self.last_start + REDIAL_GAP
        if not (self.open or self.looking or self.plan.lookups):
            assert gap
            assert self.bucket.refused_at == self.now

    # -- at every moment -------------------------------------------------------------------

    @invariant()
    def only_dials_that_may_stay_are_older_than_a_second(self) -> None:
        for dial in self.open.values():
            if not dial.alone and dial.connected is None:
                assert self.now < dial.began + REDIAL_LIFE

    @invariant()
    def no_more_is_taken_than_the_bucket_had(self) -> None:
        if self.begun and self.bucket.left is None:
            assert self.bucket.granted <= 50 + 10 * self.now

    def teardown(self) -> None:
        """From here nothing more happens: the race must end, at the deadline at the latest."""
        if self.over() or not hasattr(self, "race"):
            return
        pauses = 0
        while not self.over():
            self.now = self.until
            self.obey()
            pauses += 1
        assert self.ended == "lost"
        shortest = min(self.plan.delay, self.plan.later_delay or math.inf, 0.1)
        assert pauses <= 4 * self.plan.deadline / shortest + 20

    def over(self) -> bool:
        return self.ended is not None


TestRaceMachine = RaceMachine.TestCase
TestRaceMachine.settings = settings(max_examples=examples(150), stateful_step_count=40)
