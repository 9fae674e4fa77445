"""Whom a race of dials tries, one after the other."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from outlast.core.balance import P2C, Balance, LeastRequest, PickFirst, RoundRobin
from outlast.core.endpoint import Member
from tests.core.crowd import BALANCES, blame, bury, names, of, roster_of


@pytest.mark.parametrize("balance", BALANCES, ids=repr)
def test_first_those_in_then_those_that_answer_then_the_dead(balance: Balance) -> None:
    roster = roster_of(7, balance)
    for at in (5, 6):
        of(roster, f"e{at}").health.succeeded(0.1 * at)
    bury(roster, ["e4", "e5", "e6"], now=1.0)
    blame(roster, ["e3"], now=1.0)
    order = roster.order(1.1, Random(1), "e1")
    assert order[0] == "e1"
    # Four of seven are out: in panic being out on answers does not count.
    assert set(order[1:4]) == {"e0", "e2", "e3"}
    assert order[4:] == ["e6", "e5", "e4"]


def test_those_out_on_answers_come_after_those_in() -> None:
    roster = roster_of(5)
    blame(roster, ["e0", "e1"], now=1.0)
    for seed in range(10):
        order = roster.order(1.1, Random(seed), "e2")
        assert set(order[1:3]) == {"e3", "e4"}
        assert set(order[3:]) == {"e0", "e1"}


def test_one_that_is_due_comes_before_those_that_are_not() -> None:
    roster = roster_of(5)
    blame(roster, ["e0"], now=1.0)
    bury(roster, ["e1"], now=1.0)
    until = of(roster, "e1").health.until
    roster.pick(until, Random(1), avoid=names(5))
    order = roster.order(until, Random(1), "e2")
    assert order.index("e1") > order.index("e4")


def test_whoever_is_first_is_first() -> None:
    roster = roster_of(3)
    bury(roster, ["e0"], now=1.0)
    assert roster.order(1.1, Random(1), "e0")[0] == "e0"
    assert roster.order(1.1, Random(1), "elsewhere")[0] == "elsewhere"
    assert len(roster.order(1.1, Random(1), "elsewhere")) == 4


def test_nearer_levels_and_zones_come_first() -> None:
    members = [
        Member("a", priority=1),
        Member("b", zone="x"),
        Member("c", zone="y"),
        Member("d", zone="x"),
    ]
    roster = roster_of(members, zone="x")
    assert roster.order(1.0, Random(1), "b") == ["b", "d", "a", "c"]


def test_pick_first_keeps_the_resolvers_order() -> None:
    roster = roster_of(200, PickFirst())
    assert roster.order(1.0, Random(1), "e7", most=5) == ["e7", "e0", "e1", "e2", "e3"]


@pytest.mark.parametrize("balance", [P2C(), LeastRequest(), RoundRobin()], ids=repr)
def test_the_next_one_is_drawn_by_weight(balance: Balance) -> None:
    """Lest all clients fall upon the same endpoint when one is gone."""
    roster = roster_of([Member("e0"), Member("e1", 1.0), Member("e2", 3.0)], balance)
    rng = Random(1)
    second = Counter(roster.order(1.0, rng, "e0")[1] for _ in range(2000))
    assert second["e2"] == pytest.approx(1500, rel=0.08)


def test_the_slow_come_late() -> None:
    roster = roster_of(3)
    for name, seconds in (("e1", 0.01), ("e2", 1.0)):
        of(roster, name).load.begin(0.0)
        of(roster, name).load.end(0.0, seconds)
    rng = Random(1)
    second = Counter(roster.order(0.0, rng, "e0")[1] for _ in range(1000))
    assert second["e2"] < 30


@pytest.mark.parametrize("most", [1, 2, 50])
def test_of_many_a_part_drawn_by_chance(most: int) -> None:
    roster = roster_of(1000)
    rng = Random(1)
    seen: set[str] = set()
    for _ in range(200):
        order = roster.order(1.0, rng, "e0", most=most)
        assert len(order) == len(set(order)) == most
        seen.update(order)
    assert len(seen) >= {1: 1, 2: 150, 50: 990}[most]


def test_of_many_dead_those_that_answered_last() -> None:
    roster = roster_of(300)
    for at in range(300):
        of(roster, f"e{at}").health.succeeded(at / 1000)
    bury(roster, names(300), now=1.0)
    assert roster.order(1.1, Random(1), "e0", most=4) == ["e0", "e299", "e298", "e297"]


def test_of_the_dead_those_after_the_first_and_round() -> None:
    """Races that begin with different ones are at different ones all the time."""
    roster = roster_of(4)
    for at in range(4):
        of(roster, f"e{at}").health.succeeded(at / 1000)
    bury(roster, names(4), now=1.0)
    orders = [roster.order(1.1, Random(1), name) for name in names(4)]
    assert orders[1] == ["e1", "e0", "e3", "e2"]
    for step in range(4):
        assert {order[step] for order in orders} == set(names(4))
