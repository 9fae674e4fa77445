"""Who serves by priority and by zone."""

from __future__ import annotations

from random import Random

import pytest

from outlast.core.balance import Balance, ConsistentHash, PickFirst
from outlast.core.endpoint import Member, Why
from outlast.core.roster import Roster
from tests.core.crowd import BALANCES, answer, blame, bury, of, roster_of, shares


def levels(*sizes: int) -> list[Member[str]]:
    """p0e0, p0e1 ... p1e0 ..."""
    return [
        Member(f"p{priority}e{at}", priority=priority)
        for priority, size in enumerate(sizes)
        for at in range(size)
    ]


def of_level(got: dict[str, float], priority: int) -> float:
    return sum(share for key, share in got.items() if key.startswith(f"p{priority}"))


def whys(roster: Roster[str], now: float, picks: int = 50) -> set[Why]:
    rng = Random(5)
    return {pick.why for _ in range(picks) if (pick := roster.pick(now, rng)) is not None}


# --- priorities -------------------------------------------------------------------------------


@pytest.mark.parametrize("balance", BALANCES, ids=repr)
@pytest.mark.parametrize(("out", "first"), [(0, 1.0), (2, 1.0), (3, 0.98), (5, 0.7), (10, 0.0)])
def test_what_a_level_cannot_carry_spills_over(balance: Balance, out: int, first: float) -> None:
    """Ten endpoints each; over-provisioned by 1.4."""
    roster = roster_of(levels(10, 10), balance)
    bury(roster, [f"p0e{at}" for at in range(out)])
    assert of_level(shares(roster), 0) == pytest.approx(first, abs=0.03)
    assert not roster.panic


def test_the_reason_is_told() -> None:
    roster = roster_of(levels(2, 2))
    assert whys(roster, 1.0) == {Why.BALANCE}
    bury(roster, ["p0e0"])
    assert whys(roster, 1.0) == {Why.BALANCE, Why.SPILL_OVER}
    bury(roster, ["p0e1"])
    assert whys(roster, 1.0) == {Why.SPILL_OVER}
    assert "spill-over" in repr(roster.pick(1.0, Random(1)))


def test_two_bad_levels_panic_together() -> None:
    """Envoy's 25 % and 25 %: half of the requests each, and all of each level serve."""
    roster = roster_of(levels(4, 4))
    blame(roster, [f"p{priority}e{at}" for priority in (0, 1) for at in (0, 1, 2)])
    assert roster.panic
    got = shares(roster)
    assert all(share == pytest.approx(1 / 8, rel=0.2) for share in got.values())
    assert whys(roster, 1.0) == {Why.PANIC, Why.BALANCE, Why.SPILL_OVER}


def test_the_dead_of_all_levels_take_turns() -> None:
    """Where all are dead nobody knows which of them will be back first."""
    roster = roster_of(levels(2, 0, 3))
    bury(roster, ["p0e0", "p0e1", "p2e0", "p2e1", "p2e2"])
    rng = Random(1)
    picked = [pick.endpoint.key for _ in range(10) if (pick := roster.pick(0.1, rng)) is not None]
    assert set(picked[1::2]) == {"p0e0", "p0e1", "p2e0", "p2e1", "p2e2"}


def test_levels_need_not_follow_each_other() -> None:
    roster = roster_of([Member("b", priority=7), Member("a", priority=2)])
    assert shares(roster, 100)["a"] == 1.0
    bury(roster, ["a"])
    assert shares(roster, 100)["b"] == 1.0
    roster.resolved([Member("b", priority=7)], 1.0)
    assert whys(roster, 1.0) == {Why.BALANCE}


def test_a_trial_above_is_made_and_one_below_is_not() -> None:
    roster = roster_of(levels(2, 3))
    bury(roster, ["p0e0", "p0e1", "p1e0"], now=1.0)
    got = [roster.pick(100.0, Random(at)) for at in range(10)]
    trials = [pick.endpoint.key for pick in got if pick and pick.trial]
    assert sorted(trials) == ["p0e0", "p0e1", "p1e0"]
    answer(roster, "p0e0", 100.0)
    answer(roster, "p0e1", 100.0)
    of(roster, "p1e0").health.untried(100.0)
    roster.changed(of(roster, "p1e0"))
    got = [roster.pick(200.0, Random(at)) for at in range(10)]
    assert not any(pick.trial for pick in got if pick)
    assert len({id(pick) for pick in got}) == 2  # nor does it cost anything: no pick is made anew


# --- zones ------------------------------------------------------------------------------------


def zoned(near: int, far: int) -> list[Member[str]]:
    return [
        *(Member(f"near{at}", zone="a") for at in range(near)),
        *(Member(f"far{at}", zone="b") for at in range(far)),
    ]


@pytest.mark.parametrize("balance", BALANCES, ids=repr)
@pytest.mark.parametrize(("near", "out", "stays"), [(4, 0, True), (4, 2, True), (4, 3, False)])
def test_our_own_zone_serves_while_half_of_it_is_in(
    balance: Balance, near: int, out: int, stays: bool
) -> None:
    roster = roster_of(zoned(near, 4), balance, zone="a")
    bury(roster, [f"near{at}" for at in range(out)])
    far = sum(share for key, share in shares(roster, 1000).items() if key.startswith("far"))
    expected = 0.0 if stays or isinstance(balance, PickFirst) else 4 / (4 + near - out)
    assert far == pytest.approx(expected, rel=0.15)


def test_the_zone_of_a_hashed_key_is_ours_too() -> None:
    roster = roster_of(zoned(3, 30), ConsistentHash(header="x-user"), zone="a")
    rng = Random(1)
    picks = [roster.pick(1.0, rng, hashed=str(at).encode()) for at in range(300)]
    keys = {pick.endpoint.key for pick in picks if pick}
    assert keys == {"near0", "near1", "near2"}


def test_without_a_zone_of_our_own_all_are_alike() -> None:
    assert min(shares(roster_of(zoned(2, 2))).values()) > 0.2


def test_where_nobody_is_in_our_zone_all_are_alike() -> None:
    assert min(shares(roster_of(zoned(2, 2), zone="c")).values()) > 0.2


def test_those_far_away_come_before_one_to_be_avoided() -> None:
    roster = roster_of(zoned(1, 2), zone="a")
    got = shares(roster, 100, avoid=("near0",))
    assert got["near0"] == 0.0


def test_a_panic_far_away_is_none_at_home() -> None:
    roster = roster_of(zoned(2, 8), zone="a")
    blame(roster, [f"far{at}" for at in range(8)])
    assert roster.panic
    got = shares(roster)
    assert got["near0"] == pytest.approx(0.5, rel=0.1)
    assert got["near1"] == pytest.approx(0.5, rel=0.1)


def test_nor_does_it_bring_back_those_out_at_home() -> None:
    roster = roster_of(zoned(2, 8), zone="a")
    blame(roster, ["near0", *(f"far{at}" for at in range(8))])
    assert roster.panic
    assert shares(roster, 200)["near1"] == 1.0
