"""Health against a slow model that keeps the whole history, through any life; and beside it a
dry run of the same life, to which nothing may ever happen."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlast.core.health import (
    Ejected,
    Evidence,
    Fault,
    Health,
    HealthPlan,
    Returned,
    Rule,
    Standing,
)
from tests.examples import examples

STEPS = st.sampled_from([0.0, 0.001, 0.3, 1.0, 1.0, 3.3, 4.9, 6.1, 10.0, 25.0, 75.0])
COUNTS = st.sampled_from([1, 1, 1, 2, 3, 5, 10])
DEADLY = (Fault.CONNECT, Fault.SILENT, Fault.SUSPECT, Fault.FIRST_BYTE)
ANSWERED = (Fault.GATEWAY, Fault.ERROR, Fault.SLOW)
DIALS = (Rule.CONNECT_FAILURES, Rule.SUSPECT, Rule.NODE)
GOOD, DIALLED = "good", "dialled"

# rule: the faults in its row, how many are enough, and what ends the row
ROWS: dict[Rule, tuple[tuple[Fault, ...], int, tuple[object, ...]]] = {
    Rule.CONNECT_FAILURES: ((Fault.CONNECT, Fault.SILENT), 3, (GOOD, DIALLED, *ANSWERED)),
    Rule.SUSPECT: ((Fault.SUSPECT,), 3, (GOOD, DIALLED, *ANSWERED)),
    Rule.FIRST_BYTE: ((Fault.FIRST_BYTE,), 3, (GOOD, *ANSWERED)),
    Rule.RESETS: ((Fault.RESET,), 5, (GOOD, *ANSWERED)),
    Rule.GATEWAY_ERRORS: ((Fault.GATEWAY,), 5, (GOOD, Fault.ERROR, Fault.SLOW)),
}
FAILED = (Fault.RESET, Fault.FIRST_BYTE, Fault.GATEWAY, Fault.ERROR)


class History:
    """All that happened since the counters were cleared."""

    def __init__(self) -> None:
        self.events: list[tuple[float, object]] = []

    def broken(self, fault: Fault, now: float) -> Rule | None:
        """The rule that the last event, a fault, has broken."""
        for kind, (faults, enough, ends) in ROWS.items():
            if fault in faults and self.row(faults, ends) >= enough:
                return kind
        bad = (Fault.SLOW,) if fault is Fault.SLOW else FAILED if fault in FAILED else ()
        failed = self.lately(bad, now)
        total = self.lately((GOOD, Fault.SLOW, *FAILED), now)
        if not bad or total < 10 or failed * 2 < total:
            return None
        return Rule.LATENCY if fault is Fault.SLOW else Rule.FAILURE_RATE

    def row(self, faults: tuple[Fault, ...], ends: tuple[object, ...]) -> int:
        count = 0
        for _, what in reversed(self.events):
            if what in ends:
                break
            count += what in faults
        return count

    def lately(self, kinds: tuple[object, ...], now: float) -> int:
        """In the ten whole seconds that end with the one under way."""
        return sum(what in kinds and int(at) > int(now) - 10 for at, what in self.events)


class HealthMachine(RuleBasedStateMachine):
    """One endpoint's life."""

    @initialize(seed=st.integers(0, 9))
    def begin(self, seed: int) -> None:
        self.now, self.rng = 1000.0, Random(seed)
        self.health = Health(HealthPlan())
        self.dry = Health(HealthPlan(count_only=frozenset(Rule)))
        self.history = History()
        self.state = "in"  # or aside, out; each of the last two may be in its trial
        self.trial = False
        self.rule: Rule | None = None
        self.evidence: Evidence | None = None
        self.rung, self.left = 0, -math.inf
        self.since = 0.0
        self.good = 0
        self.slow_from = -math.inf
        self.suspect = False
        self.dry_until = -math.inf
        self.dry_rule: Rule | None = None

    # -- what happens ----------------------------------------------------------------------

    @rule(seconds=STEPS)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(count=COUNTS)
    def it_connects(self, count: int) -> None:
        for _ in range(count):
            told = self.health.connected(self.now)
            assert self.dry.connected(self.now) is None
            self.history.events.append((self.now, DIALLED))
            self.suspect = False
            self.comes_back(told, self.rule in DIALS)

    @rule(count=COUNTS)
    def it_answers(self, count: int) -> None:
        for _ in range(count):
            told = self.health.succeeded(self.now)
            assert self.dry.succeeded(self.now) is None
            self.history.events.append((self.now, GOOD))
            self.suspect = False
            self.good += self.state == "out"
            if self.state != "in":
                self.evidence = Evidence.ANSWERS
            lively = self.trial or self.state == "aside" or self.good >= 5
            refuted = lively or self.rule in (*DIALS, Rule.FIRST_BYTE)
            self.comes_back(told, self.rule is not Rule.CHECK and refuted)

    @rule(fault=st.sampled_from(Fault), count=COUNTS)
    def it_fails(self, fault: Fault, count: int) -> None:
        for _ in range(count):
            told = self.health.failed(fault, self.now, self.rng)
            self.counted(self.dry.failed(fault, self.now, self.rng))
            self.history.events.append((self.now, fault))
            self.suspect = fault is Fault.SUSPECT or (self.suspect and fault not in ANSWERED)
            met = Evidence.DEATH if fault in DEADLY else Evidence.ANSWERS
            if self.state == "out":
                self.fails_outside(told, fault, met)
            else:
                self.fails_inside(told, fault, met)

    @rule()
    def its_node_is_silent(self) -> None:
        told = self.health.eject(Rule.NODE, Evidence.DEATH, "", self.now, self.rng)
        self.counted(self.dry.eject(Rule.NODE, Evidence.DEATH, "", self.now, self.rng))
        self.goes(told, Rule.NODE if self.state != "out" else None, Evidence.DEATH)

    @rule(met=st.sampled_from(Evidence))
    def its_check_falls(self, met: Evidence) -> None:
        told = self.health.checked(False, self.now, self.rng, evidence=met)
        dry = self.dry.checked(False, self.now, self.rng, evidence=met)
        assert not isinstance(told, Returned)
        assert not isinstance(dry, Returned)
        self.counted(dry)
        if self.state == "out":
            assert told is None
            self.rule, self.evidence, self.trial = Rule.CHECK, met, False
        else:
            self.goes(told, Rule.CHECK, met)

    @rule(met=st.sampled_from(Evidence))
    def its_check_passes(self, met: Evidence) -> None:
        told = self.health.checked(True, self.now, self.rng, evidence=met)
        assert self.dry.checked(True, self.now, self.rng, evidence=met) is None
        if met is Evidence.ANSWERS or self.dry_rule in (*DIALS, Rule.CHECK):
            self.dry_until = -math.inf
        self.suspect = False
        assert not isinstance(told, Ejected)
        told_enough = met is Evidence.ANSWERS or self.rule in (*DIALS, Rule.CHECK)
        self.comes_back(told, self.state != "in" and told_enough, slowly=True)

    @precondition(lambda self: self.health.due(self.now))
    @rule()
    def somebody_tries_it(self) -> None:
        assert self.state != "in"
        assert self.rule is not Rule.CHECK
        self.health.try_out(self.now)
        self.trial = True
        assert not self.health.due(self.now)

    @precondition(lambda self: self.trial)
    @rule()
    def the_trial_ends_without_a_word(self) -> None:
        self.health.untried(self.now)
        self.trial = False
        assert self.health.due(self.now)

    # -- what must follow ------------------------------------------------------------------

    def comes_back(self, told: Returned | None, back: bool, *, slowly: bool = False) -> None:
        was = self.state
        if not back or was == "in":
            assert told is None
            return
        if was == "aside":
            assert told is None
        else:
            assert told is not None
            assert told.after == pytest.approx(self.now - self.since)
            self.history = History()
            self.left = self.now
            if slowly or self.trial:
                self.slow_from = self.now
        self.state, self.rule, self.evidence = "in", None, None
        self.trial, self.good = False, 0

    def fails_outside(self, told: Ejected | None, fault: Fault, met: Evidence) -> None:
        self.good = 0
        if self.trial:
            assert self.rule is not None
            self.goes(told, self.rule, met)
            return
        assert told is None
        if fault in DEADLY and fault is not Fault.SILENT:
            self.evidence = Evidence.DEATH
        elif fault in ANSWERED:
            self.evidence = Evidence.ANSWERS

    def fails_inside(self, told: Ejected | None, fault: Fault, met: Evidence) -> None:
        if fault in ANSWERED and self.state == "aside":
            self.state, self.rule, self.evidence, self.trial = "in", None, None, False
        broken = self.history.broken(fault, self.now)
        self.goes(told, broken, met)
        sets_aside = fault in DEADLY and fault is not Fault.SILENT
        if broken is None and (sets_aside or self.trial):
            if self.state == "in":
                self.since = self.now
            if self.rule is None or fault is Fault.FIRST_BYTE:
                (self.rule,) = (kind for kind, row in ROWS.items() if fault in row[0])
            self.state, self.evidence, self.trial = "aside", Evidence.DEATH, False
            assert 4.0 - 1e-6 <= self.health.until - self.now <= 6.0 + 1e-6

    def goes(self, told: Ejected | None, by: Rule | None, met: Evidence) -> None:
        """`told` must be an ejection by `by`; none if that is None."""
        if by is None:
            assert told is None
            return
        assert told is not None
        assert (told.rule, told.evidence, told.enforced) == (by, met, True)
        if self.state != "out" and self.rung:
            self.rung = max(0, self.rung - math.floor((self.now - self.left) / 10.0))
        assert told.times == self.rung + 1
        length = [5.0, 10.0, 20.0, 40.0, 60.0][self.rung]
        if by is Rule.CHECK:
            assert told.until == math.inf
        else:
            assert 0.8 * length - 1e-6 <= told.until - self.now <= 1.2 * length + 1e-6
        self.rung = min(4, self.rung + 1)
        if self.state == "in":
            self.since = self.now
        self.state, self.rule, self.evidence, self.trial = "out", by, met, False
        self.good, self.slow_from = 0, -math.inf
        self.history = History()

    def counted(self, would: Ejected | None) -> None:
        """What the dry run tells: never twice within one time out."""
        if would is not None:
            assert not would.enforced
            assert self.now >= self.dry_until
            assert would.until - self.now >= 4.0 - 1e-6
            self.dry_rule, self.dry_until = would.rule, would.until

    # -- what always holds -----------------------------------------------------------------

    @invariant()
    def it_stands_where_the_model_says(self) -> None:
        if not hasattr(self, "health"):
            return
        health, standing = self.health, Standing.IN
        if self.state != "in":
            standing = Standing.TRIAL if self.trial else Standing.OUT
        assert (health.standing, health.rule) == (standing, self.rule)
        assert (health.evidence, health.suspect) == (self.evidence, self.suspect)

    @invariant()
    def its_weight_grows_from_a_tenth_to_all(self) -> None:
        if not hasattr(self, "health"):
            return
        share = min(1.0, max(0.1, (self.now - self.slow_from) / 10.0))
        assert self.health.weight(self.now) == pytest.approx(share)

    @invariant()
    def nothing_happens_in_the_dry_run(self) -> None:
        if not hasattr(self, "dry"):
            return
        dry = self.dry
        assert (dry.standing, dry.evidence, dry.rule) == (Standing.IN, None, None)
        assert (dry.ejections, dry.weight(self.now)) == (0, 1.0)
        assert not dry.due(self.now)


TestHealthMachine = HealthMachine.TestCase
TestHealthMachine.settings = settings(max_examples=examples(200), stateful_step_count=50)
