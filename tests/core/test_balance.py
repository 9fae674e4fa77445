"""The strategies as users write them, and what they do with a handful of endpoints."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from outlast.core.balance import (
    P2C,
    Balance,
    ConsistentHash,
    LeastRequest,
    PickFirst,
    RoundRobin,
)
from outlast.core.endpoint import Member
from outlast.core.health import HealthPlan
from outlast.core.roster import Roster
from tests.core.crowd import BALANCES, answer, blame, bury, names, of, roster_of, shares

BY_LOT: list[Balance] = [P2C(), LeastRequest(), RoundRobin()]


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [{}, {"header": "a", "cookie": "b"}, {"header": ""}, {"cookie": "a", "key": lambda _: "b"}],
)
def test_a_hash_has_one_source(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r'one of header, .*ConsistentHash\(header="x-user"\)'):
        ConsistentHash(**arguments)


def test_a_key_is_a_function() -> None:
    key: Any = "x-user"
    with pytest.raises(ValueError, match="'x-user' cannot be called; give a function"):
        ConsistentHash(key=key)
    assert ConsistentHash(key=str.upper).key is str.upper


def test_a_table_is_one_of_two() -> None:
    table: Any = "torus"
    with pytest.raises(ValueError, match='table \'torus\' is neither "ring" nor "maglev"'):
        ConsistentHash(header="x-user", table=table)


def test_a_strategy_is_a_strategy() -> None:
    balance: Any = "random"
    with pytest.raises(ValueError, match=r"balance 'random': give a strategy, such as P2C\(\)"):
        Roster(balance, HealthPlan(), Random(1))


@pytest.mark.parametrize("weight", [0.0, -1.0, float("inf"), float("nan")])
def test_a_weight_is_above_nothing(weight: float) -> None:
    with pytest.raises(ValueError, match=r"weight .* of e0: .* such as 1\.0; leave out"):
        Member("e0", weight)


def test_a_priority_counts_up() -> None:
    with pytest.raises(ValueError, match="priority -1 of e0: priorities count up from 0"):
        Member("e0", priority=-1)


# --- weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("balance", BY_LOT, ids=repr)
@pytest.mark.parametrize("weights", [(1, 1), (1, 3), (1, 1, 2), (60, 20, 20), (1, 10, 100)])
def test_equals_get_exactly_their_weights(balance: Balance, weights: tuple[int, ...]) -> None:
    members = [Member(f"e{at}", float(each)) for at, each in enumerate(weights)]
    got = shares(roster_of(members, balance), 10_000)
    for member in members:
        expected = member.weight / sum(weights)
        assert got[member.key] == pytest.approx(expected, rel=0.06, abs=0.005)


@pytest.mark.parametrize("balance", BY_LOT, ids=repr)
def test_weights_hold_in_two_zones_at_once(balance: Balance) -> None:
    """Our own zone is down to a third: everybody serves, out of two lists."""
    members = [
        *(Member(f"near{at}", 1.0, zone="a") for at in range(3)),
        *(Member(f"far{at}", 3.0, zone="b") for at in range(2)),
    ]
    roster = roster_of(members, balance, zone="a")
    bury(roster, ["near0", "near1"])
    got = shares(roster, 10_000)
    assert got["near2"] == pytest.approx(1 / 7, rel=0.1)
    assert got["far0"] == pytest.approx(3 / 7, rel=0.06)
    assert got["near0"] == got["near1"] == 0.0
    got = shares(roster, 4000, avoid=("far0",))
    assert got["far0"] == 0.0
    if not isinstance(balance, RoundRobin):  # there its turns fall to the others of its list
        assert got["near2"] == pytest.approx(1 / 4, rel=0.1)
    got = shares(roster, 400, avoid=("far0", "far1"))
    assert got["near2"] == 1.0


@pytest.mark.parametrize("balance", BY_LOT, ids=repr)
def test_slow_start_is_a_part_of_the_weight(balance: Balance) -> None:
    roster = roster_of(4, balance)
    bury(roster, ["e3"], now=1.0)
    endpoint = of(roster, "e3")
    endpoint.health.checked(True, 10.0, Random(1))
    roster.changed(endpoint)
    for now, part in [(10.0, 0.1), (15.0, 0.5), (19.0, 0.9), (20.0, 1.0)]:
        got = shares(roster, 8000, now=now)["e3"]
        assert got == pytest.approx(part / (3 + part), rel=0.12)
    assert not endpoint.warming
    assert endpoint.cell is not None
    assert endpoint.cell.warming == 0


def test_what_an_endpoint_cost_before_it_was_out_is_forgotten() -> None:
    roster = roster_of(4)
    for endpoint in roster:
        endpoint.load.begin(0.0)
        endpoint.load.end(0.0, 60.0 if endpoint.key == "e3" else 0.01)
    assert shares(roster, now=0.0)["e3"] < 0.01
    bury(roster, ["e3"], now=1.0)
    of(roster, "e3").health.checked(True, 10.0, Random(1))
    roster.changed(of(roster, "e3"))
    assert shares(roster, now=20.0)["e3"] == pytest.approx(0.25, rel=0.1)


@pytest.mark.parametrize("balance", BY_LOT, ids=repr)
def test_when_all_are_in_slow_start_they_are_equals(balance: Balance) -> None:
    roster = roster_of(4, balance)
    bury(roster, names(4), now=1.0)
    for name in names(4):
        of(roster, name).health.checked(True, 10.0, Random(1))
        roster.changed(of(roster, name))
    got = shares(roster, now=10.0)
    assert all(share == pytest.approx(0.25, rel=0.15) for share in got.values())
    alone = shares(roster, 100, now=10.0, avoid=("e0", "e1", "e2"))
    assert alone["e3"] == 1.0


@pytest.mark.parametrize("avoid", [(), ("e9",)])
@pytest.mark.parametrize("weights", [(1, 1, 1), (4, 1, 2)])
def test_the_slow_get_little_whatever_the_weights(
    weights: tuple[int, ...], avoid: tuple[str, ...]
) -> None:
    roster = roster_of([Member(f"e{at}", float(each)) for at, each in enumerate(weights)])
    for endpoint in roster:
        endpoint.load.begin(0.0)
        endpoint.load.end(0.0, 1.0 if endpoint.key == "e0" else 0.01)
    got = shares(roster, now=0.0, avoid=avoid)
    assert got["e0"] < 0.1
    assert got["e2"] / got["e1"] == pytest.approx(weights[2] / weights[1], rel=0.4)


# --- whom to avoid ----------------------------------------------------------------------------


@pytest.mark.parametrize("balance", BALANCES, ids=repr)
@pytest.mark.parametrize("count", [2, 3, 50])
def test_one_to_be_avoided_is_avoided(balance: Balance, count: int) -> None:
    roster = roster_of(count, balance)
    assert shares(roster, 500, avoid=("e0",))["e0"] == 0.0
    got = shares(roster, 200, avoid=names(count)[:-1])
    assert got[f"e{count - 1}"] == 1.0


def test_the_heaviest_is_avoided_too() -> None:
    """Draws meet it again and again; then those that are left are looked through."""
    roster = roster_of([Member("e0", 1e6), Member("e1", 1.0), Member("e2", 3.0)])
    got = shares(roster, 2000, avoid=("e0",))
    assert got["e0"] == 0.0
    assert got["e1"] == pytest.approx(0.25, rel=0.15)


# --- least request, pick first ----------------------------------------------------------------


def test_least_request_looks_at_nothing_but_requests_in_flight() -> None:
    roster = roster_of(2, LeastRequest())
    of(roster, "e0").load.begin(0.0)
    of(roster, "e0").load.end(0.0, 9.0)
    assert shares(roster)["e0"] == pytest.approx(0.5, rel=0.1)
    for _ in range(3):
        of(roster, "e1").load.begin(0.0)
    assert shares(roster)["e1"] == pytest.approx(0.5 / 16, rel=0.4)


def test_pick_first_stays_with_the_first() -> None:
    roster = roster_of([Member("e0"), Member("e1", 5.0), Member("e2", 5.0)], PickFirst())
    assert shares(roster, 100)["e1"] == 1.0
    bury(roster, ["e1"], now=1.0)
    assert shares(roster, 100, now=1.1)["e2"] == 1.0
    bury(roster, ["e2"], now=1.0)
    assert shares(roster, 100, now=1.1)["e0"] == 1.0
    answer(roster, "e1", now=2.0)
    assert shares(roster, 100, now=2.0)["e1"] == 1.0


def test_pick_first_follows_the_resolver() -> None:
    roster = roster_of(3, PickFirst())
    roster.resolved([Member("e2"), Member("e0"), Member("e1")], 1.0)
    assert shares(roster, 100)["e2"] == 1.0


def test_what_comes_after_the_one_in_use_is_not_tried() -> None:
    """A stand-by that was out is left alone; a primary that was out is tried."""
    roster = roster_of(4, PickFirst())
    blame(roster, ["e1"], now=1.0)
    assert shares(roster, 100, now=100.0)["e0"] == 1.0
    bury(roster, ["e0"], now=100.0)
    picks = Counter[tuple[str, bool]]()
    for _ in range(10):
        pick = roster.pick(101.0, Random(1))
        assert pick is not None
        picks[pick.endpoint.key, pick.trial] += 1
    assert picks == {("e1", True): 1, ("e2", False): 9}


def test_the_first_takes_its_traffic_back_in_slow_start() -> None:
    roster = roster_of(2, PickFirst())
    bury(roster, ["e0"], now=1.0)
    of(roster, "e0").health.checked(True, 10.0, Random(1))
    roster.changed(of(roster, "e0"))
    assert shares(roster, now=13.0)["e0"] == pytest.approx(0.3, rel=0.1)
    assert shares(roster, now=20.0)["e0"] == 1.0
    bury(roster, ["e0"], now=21.0)
    of(roster, "e0").health.checked(True, 30.0, Random(1))
    roster.changed(of(roster, "e0"))
    roster.resolved([Member("e0")], 30.0)
    assert shares(roster, 100, now=30.0)["e0"] == 1.0  # nobody else is there
