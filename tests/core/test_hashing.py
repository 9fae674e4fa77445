"""Consistent hashing: the same key to the same endpoint, and few keys move."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random
from typing import Literal

import pytest

from outlast.core.balance import ConsistentHash
from outlast.core.endpoint import Endpoint, Member
from outlast.core.hashing import MAGLEV_SIZE, Maglev, Ring, _narrow, digest, fraction
from outlast.core.roster import Roster
from tests.core.crowd import PLAN, answer, bury, names, of, roster_of

Kind = Literal["ring", "maglev"]
KINDS: list[Kind] = ["ring", "maglev"]
SEEDS = count()
USERS = [f"user-{at}".encode() for at in range(4000)]


def hashing(kind: Kind, members: int | list[Member[str]], zone: str = "") -> Roster[str]:
    return roster_of(members, ConsistentHash(header="x-user", table=kind), zone=zone)


def placed(roster: Roster[str], now: float = 1.0, avoid: tuple[str, ...] = ()) -> dict[bytes, str]:
    """Who serves which user; chance has no part in it."""
    rng = Random(next(SEEDS))
    found = {}
    for user in USERS:
        pick = roster.pick(now, rng, hashed=user, avoid=avoid)
        assert pick is not None
        found[user] = pick.endpoint.key
    return found


def moved(before: dict[bytes, str], after: dict[bytes, str]) -> set[bytes]:
    return {user for user in USERS if before[user] != after[user]}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_key_goes_to_the_same_endpoint_for_every_client(kind: Kind) -> None:
    members = [Member(name) for name in names(10)]
    other = list(members)
    Random(4).shuffle(other)  # another client's resolver tells them in another order
    assert placed(hashing(kind, members)) == placed(hashing(kind, other))


@pytest.mark.parametrize(("kind", "spread"), [("ring", 0.3), ("maglev", 0.1)])
def test_shares_are_even(kind: Kind, spread: float) -> None:
    roster = hashing(kind, 10)
    table = Ring(roster) if kind == "ring" else Maglev(roster)
    counts = Counter(table.at(digest(str(at).encode()), 0).key for at in range(40_000))
    for name in names(10):
        assert counts[name] == pytest.approx(4000, rel=spread)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_respected(kind: Kind) -> None:
    members = [Member("e0", 1.0), Member("e1", 2.0), Member("e2", 5.0)]
    counts = Counter(placed(hashing(kind, members)).values())
    for member in members:
        assert counts[member.key] == pytest.approx(4000 * member.weight / 8, rel=0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_an_endpoint_that_leaves_moves_its_own_keys(kind: Kind) -> None:
    roster = hashing(kind, 10)
    before = placed(roster)
    roster.resolved([Member(name) for name in names(10) if name != "e3"], 2.0)
    gone = moved(before, placed(roster))
    own = {user for user in USERS if before[user] == "e3"}
    assert own <= gone
    assert len(gone) < 1.15 * len(USERS) / 10 + (0.02 * len(USERS) if kind == "maglev" else 0)
    roster.resolved([Member(name) for name in names(10)], 3.0)
    assert placed(roster) == before


@pytest.mark.parametrize("kind", KINDS)
def test_an_endpoint_that_is_out_moves_its_own_keys_and_no_others(kind: Kind) -> None:
    roster = hashing(kind, 10)
    before = placed(roster)
    bury(roster, ["e3"], now=1.0)
    after = placed(roster, now=1.1)
    own = {user for user in USERS if before[user] == "e3"}
    assert moved(before, after) == own
    heirs = Counter(after[user] for user in own)
    assert len(heirs) == 9  # not all to one neighbour
    answer(roster, "e3", now=2.0)
    assert placed(roster, now=60.0) == before


@pytest.mark.parametrize("kind", KINDS)
def test_one_to_be_avoided_is_treated_as_if_it_were_out(kind: Kind) -> None:
    roster = hashing(kind, 5)
    before, after = placed(roster), placed(roster, avoid=("e1",))
    assert moved(before, after) == {user for user in USERS if before[user] == "e1"}
    assert set(placed(roster, avoid=("e0", "e1", "e2", "e3")).values()) == {"e4"}


@pytest.mark.parametrize("kind", KINDS)
def test_in_slow_start_keys_come_back_one_by_one(kind: Kind) -> None:
    roster = hashing(kind, 5)
    before = placed(roster)
    endpoint = of(roster, "e2")
    own = {user for user in USERS if before[user] == "e2"}
    bury(roster, ["e2"], now=1.0)
    endpoint.health.checked(True, 10.0, Random(1))  # a check's success: slow start of 10 s
    roster.changed(endpoint)
    returned: set[bytes] = set()
    for now, part in [(10.0, 0.1), (13.0, 0.3), (17.0, 0.7), (20.0, 1.0)]:
        back = {user for user, key in placed(roster, now=now).items() if key == "e2"}
        assert returned <= back <= own
        assert len(back) == pytest.approx(part * len(own), rel=0.35)
        returned = back
    assert placed(roster, now=20.0) == before


@pytest.mark.parametrize("kind", KINDS)
def test_its_trial_goes_to_a_key_of_its_own(kind: Kind) -> None:
    roster = hashing(kind, 5)
    before = placed(roster)
    bury(roster, ["e2"], now=1.0)
    rng = Random(2)
    trials = []
    for user in USERS:
        pick = roster.pick(100.0, rng, hashed=user)
        assert pick is not None
        if pick.trial:
            trials.append((user, pick.endpoint.key))
    assert len(trials) == 1
    assert before[trials[0][0]] == trials[0][1] == "e2"


def test_where_almost_all_are_out_keys_are_spread_all_the_same() -> None:
    """Five of 500 are in: few keys find one of them in their first places."""
    roster = hashing("ring", 500)
    alive = ("e7", "e99", "e100", "e400", "e401")
    bury(roster, [name for name in names(500) if name not in alive], now=1.0)
    before = placed(roster, now=1.1)
    counts = Counter(before.values())
    assert counts.keys() == set(alive)
    assert min(counts.values()) > 500
    assert placed(roster, now=1.1) == before
    after = placed(roster, now=1.1, avoid=("e7",))
    assert moved(before, after) == {user for user in USERS if before[user] == "e7"}


def test_without_a_key_a_request_is_balanced() -> None:
    roster = hashing("ring", 4)
    rng = Random(3)
    picks = [roster.pick(1.0, rng) for _ in range(400)]
    counts = Counter(pick.endpoint.key for pick in picks if pick)
    assert min(counts.values()) > 60


def test_a_key_means_nothing_to_the_other_strategies() -> None:
    roster = roster_of(4)
    rng = Random(3)
    picks = [roster.pick(1.0, rng, hashed=b"the same") for _ in range(400)]
    assert len({pick.endpoint.key for pick in picks if pick}) == 4


def test_the_level_of_a_key_is_always_the_same() -> None:
    """Half of the first level is out: 30 % of the keys go to the second, whoever they belong to."""
    members = [Member(name, priority=at // 4) for at, name in enumerate(names(8))]
    roster = hashing("ring", members)
    before = placed(roster)
    bury(roster, ["e0", "e1"], now=1.0)
    after = placed(roster, now=1.1)
    assert placed(roster, now=1.1) == after
    below = {user for user in USERS if after[user] in ("e4", "e5", "e6", "e7")}
    assert len(below) == pytest.approx(0.3 * len(USERS), rel=0.15)
    for name in ("e2", "e3"):
        own = {user for user in USERS if before[user] == name}
        assert len(own & below) == pytest.approx(0.3 * len(own), rel=0.25)


def some(count: int, weight: float = 1.0) -> list[Endpoint[str]]:
    return [Endpoint(Member(name, weight), PLAN, 0) for name in names(count)]


def test_the_ring_is_as_large_as_it_says() -> None:
    assert len(Ring(some(1))) == 128
    assert len(Ring(some(10))) == 1280
    assert len(Ring(some(10, weight=7.0))) == 10 * 7 * 32
    assert len(Ring(some(10, weight=0.001))) == pytest.approx(1280, rel=0.5)
    assert len(Ring(some(600))) == 600 * 64


def test_the_lightest_have_a_point_too() -> None:
    ring = Ring([*some(3), Endpoint(Member("light", 1e-6), PLAN, 0)])
    assert any(ring.at(0, step).key == "light" for step in range(len(ring)))


def test_the_table_of_maglev_is_full_and_even() -> None:
    table = Maglev(some(7))
    assert len(table) == MAGLEV_SIZE
    counts = Counter(table.at(place, 0).key for place in range(MAGLEV_SIZE))
    assert max(counts.values()) - min(counts.values()) <= 1  # the paper: all but equal


def test_more_endpoints_than_two_bytes_can_tell_apart() -> None:
    assert _narrow([0, 65_535]).itemsize == 2
    assert list(_narrow([0, 65_536])) == [0, 65_536]


def test_hashes_are_the_same_in_every_process() -> None:
    assert digest(b"outlast") == 7_847_633_625_185_373_477
    assert fraction(1, 2) != fraction(2, 2)
    assert all(0.0 <= fraction(at, 77) < 1.0 for at in range(100))
