"""What an endpoint may be asked at once: by table, and against a model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlast.core.circuit import Circuit, CircuitLimits, Entry
from outlast.core.concurrency import AdaptivePlan
from tests.examples import examples


def circuit(**limits: Any) -> Circuit:
    return Circuit(CircuitLimits(**limits))


def filled(count: int, **limits: Any) -> Circuit:
    made = circuit(**limits)
    for _ in range(count):
        made.enter()
    return made


@pytest.mark.parametrize(
    "limits",
    [
        {"in_flight": 0},
        {"in_flight": 1.5},
        {"in_flight": True},
        {"in_flight": 1, "waiting": -1},
        {"connections": 0},
        {"adaptive": True},
        {"waiting": 5},
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^circuit: (in_flight|waiting|connections|adaptive) "):
        CircuitLimits(**limits)


def test_nothing_is_limited_unless_it_is_asked_for() -> None:
    free = circuit()
    assert {free.enter() for _ in range(1000)} == {Entry.IN}
    assert all(free.dialling() for _ in range(1000))
    assert (free.limit, free.busy, free.full, free.why()) == (None, False, False, "")


def test_beyond_the_limit_one_waits_and_beyond_the_line_one_is_refused() -> None:
    one = circuit(in_flight=2, waiting=1)
    entries = [one.enter() for _ in range(4)]
    assert entries == [Entry.IN, Entry.IN, Entry.WAIT, Entry.FULL]
    assert (one.in_flight, one.waiting) == (2, 1)
    assert one.busy
    assert one.full


def test_without_a_line_one_is_refused_at_once() -> None:
    assert filled(1, in_flight=1, waiting=0).enter() is Entry.FULL


def test_a_line_without_an_end_refuses_nobody() -> None:
    one = filled(1, in_flight=1)
    assert {one.enter() for _ in range(100)} == {Entry.WAIT}
    assert not one.full


def test_who_leaves_gives_its_place_to_who_waits() -> None:
    one = filled(3, in_flight=1)
    assert one.leave(0.0, 0.1) == 1
    assert (one.in_flight, one.waiting) == (1, 1)
    assert one.leave(0.0, None) == 1
    assert one.leave(0.0, None) == 0
    assert (one.in_flight, one.waiting) == (0, 0)


def test_nobody_overtakes_who_waits() -> None:
    one = filled(2, in_flight=1)
    one.leave(0.0, 0.1)
    assert one.enter() is Entry.WAIT


def test_one_that_goes_away_gives_up_its_place_in_line() -> None:
    one = filled(3, in_flight=1)
    one.quit()
    assert one.waiting == 1
    assert one.leave(0.0, 0.1) == 1
    assert one.leave(0.0, 0.1) == 0


def test_connections_are_counted_with_their_dials() -> None:
    one = circuit(connections=2)
    assert [one.dialling() for _ in range(3)] == [True, True, False]
    assert not one.connectable
    assert not one.busy
    one.disconnected()
    assert one.dialling()


def test_the_lower_of_both_limits_holds() -> None:
    assert circuit(adaptive=AdaptivePlan(start=5)).limit == 5
    assert circuit(adaptive=AdaptivePlan(start=5), in_flight=9).limit == 5
    assert circuit(adaptive=AdaptivePlan(start=5), in_flight=3).limit == 3


def test_an_adaptive_limit_learns_from_what_ends() -> None:
    one = filled(4, adaptive=AdaptivePlan(start=4, least=2))
    for second in range(20):
        one.leave(float(second), None, refused=True)
        one.enter()
    assert one.limit == 2


def test_a_limit_that_has_sunk_lets_nobody_in_until_enough_have_left() -> None:
    one = filled(5, adaptive=AdaptivePlan(start=4, least=2))
    one.leave(0.0, None, refused=True)
    one.leave(1.5, None, refused=True)
    assert (one.limit, one.in_flight, one.waiting) == (3, 3, 0)
    one.enter()
    assert one.leave(1.6, 0.1) == 1


def test_a_limit_that_has_grown_lets_more_than_one_in() -> None:
    one = filled(60, adaptive=AdaptivePlan(start=20))
    let_in = [one.leave(0.06 * tick, 0.01) for tick in range(30)]
    assert set(let_in) == {1}
    let_in = [one.leave(0.06 * tick, 0.01) for tick in range(30, 40)]
    assert max(let_in) == 2
    assert one.limit == 21


def test_what_says_nothing_of_the_endpoint_teaches_nothing() -> None:
    one = filled(20, adaptive=AdaptivePlan(start=20))
    for tick in range(200):
        one.leave(0.1 * tick, None)
        one.enter()
    assert one.limit == 20


@pytest.mark.parametrize(
    ("count", "limits", "why"),
    [
        (2, {"in_flight": 2}, "2 requests in flight of at most 2 (CircuitLimits)"),
        (
            3,
            {"in_flight": 2, "waiting": 1},
            "2 requests in flight of at most 2, 1 waiting of at most 1 (CircuitLimits)",
        ),
        (
            3,
            {"adaptive": AdaptivePlan(start=3)},
            "3 requests in flight of at most 3, a limit found by response times (CircuitLimits)",
        ),
        (1, {"in_flight": 2}, ""),
    ],
)
def test_it_says_what_is_full(count: int, limits: dict[str, Any], why: str) -> None:
    assert filled(count, **limits).why() == why


def test_it_says_that_connections_are_used_up() -> None:
    one = filled(1, in_flight=1, connections=1)
    one.dialling()
    told = "1 requests in flight of at most 1, 1 connections of at most 1 (CircuitLimits)"
    assert one.why() == told


def test_one_that_waits_for_a_connection_stands_in_the_same_line() -> None:
    one = circuit(in_flight=2, waiting=2, connections=1)
    entries = [one.enter() for _ in range(3)]
    assert entries == [Entry.IN, Entry.IN, Entry.WAIT]
    assert one.line_up()
    assert not one.line_up()
    assert one.enter() is Entry.FULL
    one.step_out()
    assert one.enter() is Entry.WAIT


def test_where_each_has_its_own_connection_those_limit_the_requests() -> None:
    one = Circuit(CircuitLimits(connections=2, in_flight=5), alone=True)
    assert one.limit == 2
    assert Circuit(CircuitLimits(connections=5, in_flight=2), alone=True).limit == 2
    one.alone = False
    assert one.limit == 5


@pytest.mark.parametrize(
    ("limits", "alone", "requests", "dials", "lined", "reached"),
    [
        ({"in_flight": 2}, False, 1, 0, 0, None),
        ({"in_flight": 2}, False, 2, 0, 0, ("in_flight", 2)),
        ({"in_flight": 2, "waiting": 0}, False, 2, 0, 0, ("in_flight", 2)),
        ({"in_flight": 2, "waiting": 1}, False, 2, 0, 1, ("waiting", 1)),
        ({"connections": 2}, True, 2, 0, 0, ("connections", 2)),
        ({"connections": 2}, False, 5, 2, 0, ("connections", 2)),
        ({"connections": 2, "waiting": 3}, False, 5, 2, 3, ("waiting", 3)),
        ({"adaptive": AdaptivePlan(start=3)}, False, 3, 0, 0, ("adaptive", 3)),
    ],
)
def test_it_names_the_limit_that_is_reached(
    limits: dict[str, Any],
    alone: bool,
    requests: int,
    dials: int,
    lined: int,
    reached: tuple[str, int] | None,
) -> None:
    one = Circuit(CircuitLimits(**limits), alone=alone)
    for _ in range(requests):
        one.enter()
    for _ in range(dials):
        one.dialling()
    for _ in range(lined):
        one.line_up()
    assert one.reached() == reached
    assert bool(one.why()) == bool(reached)


class CircuitMachine(RuleBasedStateMachine):
    """Requests come, wait, are let in, go away; a model counts along."""

    @initialize(
        in_flight=st.integers(1, 4),
        waiting=st.none() | st.integers(0, 3),
        connections=st.none() | st.integers(1, 4),
        alone=st.booleans(),
    )
    def begin(
        self, in_flight: int, waiting: int | None, connections: int | None, alone: bool
    ) -> None:
        limits = CircuitLimits(in_flight=in_flight, waiting=waiting, connections=connections)
        self.circuit = Circuit(limits, alone=alone)
        self.most = min(in_flight, connections or in_flight) if alone else in_flight
        self.line, self.berths = waiting, connections
        self.running = self.parked = self.standing = self.open = 0

    @rule()
    def one_comes(self) -> None:
        free = self.running < self.most
        room = self.line is None or self.parked + self.standing < self.line
        entry = self.circuit.enter()
        assert entry is (Entry.IN if free else Entry.WAIT if room else Entry.FULL)
        self.running += entry is Entry.IN
        self.parked += entry is Entry.WAIT

    @precondition(lambda self: self.running)
    @rule(spoken=st.booleans())
    def one_ends(self, spoken: bool) -> None:
        let_in = self.circuit.leave(0.0, 0.1 if spoken else None)
        assert let_in == (1 if self.parked else 0)
        self.running += let_in - 1
        self.parked -= let_in

    @precondition(lambda self: self.parked)
    @rule()
    def one_that_waits_goes_away(self) -> None:
        self.parked -= 1
        self.circuit.quit()

    @rule()
    def one_dials(self) -> None:
        assert self.circuit.dialling() == (self.berths is None or self.open < self.berths)
        self.open += self.berths is None or self.open < self.berths

    @precondition(lambda self: self.open)
    @rule()
    def one_hangs_up(self) -> None:
        self.circuit.disconnected()
        self.open -= 1

    @rule()
    def one_waits_for_a_connection(self) -> None:
        room = self.line is None or self.parked + self.standing < self.line
        assert self.circuit.line_up() == room
        self.standing += room

    @precondition(lambda self: self.standing)
    @rule()
    def one_has_it_or_goes_away(self) -> None:
        self.circuit.step_out()
        self.standing -= 1

    @invariant()
    def the_counts_agree(self) -> None:
        if not hasattr(self, "circuit"):
            return
        counts = self.circuit
        assert (counts.in_flight, counts.waiting) == (self.running, self.parked)
        assert (counts.connections, counts.queued) == (self.open, self.standing)
        assert (
            bool(counts.reached()) == bool(counts.why()) == (counts.busy or not counts.connectable)
        )
        assert self.running <= self.most
        assert not self.parked or self.running == self.most, "one waits beside a free place"


TestCircuitMachine = CircuitMachine.TestCase
TestCircuitMachine.settings = settings(max_examples=examples(100), stateful_step_count=30)
