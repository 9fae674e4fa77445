"""Who serves: endpoints that join, leave, and are to be avoided; and what a pick costs."""

from __future__ import annotations

import gc
import tracemalloc
from random import Random

import pytest

from outlast.core.balance import P2C, Balance, PickFirst
from outlast.core.endpoint import Member, Why
from outlast.core.health import Fault, HealthPlan, Standing
from outlast.core.load import Load, odds
from outlast.core.roster import Roster
from tests.core.crowd import BALANCES, blame, bury, names, of, roster_of, shares

# --- who there is -----------------------------------------------------------------------------


def test_an_empty_target_serves_nobody() -> None:
    roster = roster_of(0)
    assert roster.pick(0.0, Random(1)) is None
    assert roster.pick(0.0, Random(1), avoid=("e0",), hashed=b"x") is None
    assert not roster.panic
    assert len(roster) == 0


@pytest.mark.parametrize("panic", [-0.1, 1.1, float("nan")])
def test_panic_is_a_share(panic: float) -> None:
    with pytest.raises(ValueError, match=r"panic .*from 0\.0 to 1\.0, such as 0\.5"):
        Roster[str](P2C(), HealthPlan(), Random(1), panic=panic)


def test_who_joins_and_who_leaves() -> None:
    roster = roster_of(0)
    assert roster.resolved([Member("a"), Member("b")], 0.0) == (("a", "b"), ())
    assert roster.resolved([Member("b"), Member("c")], 1.0) == (("c",), ("a",))
    assert [endpoint.key for endpoint in roster] == ["b", "c"]
    assert roster.get("a") is None


def test_what_is_known_of_those_that_stay_is_kept() -> None:
    roster = roster_of(2)
    bury(roster, ["e0"])
    endpoint = of(roster, "e0")
    roster.resolved([Member("e0", 2.0, priority=1, zone="z", node="n"), Member("e1")], 1.0)
    assert of(roster, "e0") is endpoint
    assert endpoint.member == Member("e0", 2.0, 1, "z", "n")
    assert endpoint.health.standing is Standing.OUT
    assert shares(roster, 100)["e1"] == 1.0


def test_of_two_members_with_one_key_the_first_counts() -> None:
    roster = roster_of([Member("a", 2.0), Member("a", 7.0)])
    assert len(roster) == 1
    assert of(roster, "a").member.weight == 2.0


def test_what_becomes_of_one_that_has_left_is_nobodys_business() -> None:
    roster = roster_of(2)
    gone = of(roster, "e0")
    bury(roster, ["e0"], now=1.0)
    roster.resolved([Member("e1")], 2.0)
    gone.health.succeeded(3.0)
    roster.changed(gone)
    assert shares(roster, 100, now=100.0) == {"e1": 1.0}


def test_the_slow_start_of_one_that_has_left_ends_all_the_same() -> None:
    roster = roster_of(2)
    bury(roster, ["e0"], now=1.0)
    gone = of(roster, "e0")
    gone.health.checked(True, 10.0, Random(1))
    roster.changed(gone)
    roster.resolved([Member("e1")], 11.0)
    assert gone.part(15.0) == pytest.approx(0.5)
    assert gone.part(20.0) == 1.0
    assert not gone.warming


def test_one_that_is_due_is_so_under_another_weight_too() -> None:
    roster = roster_of(2)
    bury(roster, ["e0"], now=1.0)
    assert roster.pick(100.0, Random(1), avoid=("e0",)) is not None  # its time has come
    roster.resolved([Member("e0", 2.0), Member("e1")], 100.0)
    pick = roster.pick(100.0, Random(1))
    assert pick is not None
    assert pick.trial


def test_one_that_comes_back_begins_anew() -> None:
    roster = roster_of(2)
    bury(roster, ["e0"], now=1.0)
    roster.resolved([Member("e1")], 2.0)
    roster.resolved([Member("e0"), Member("e1")], 3.0)
    assert of(roster, "e0").health.standing is Standing.IN


# --- whom to avoid ----------------------------------------------------------------------------


def test_one_that_failed_just_now_is_better_than_one_long_dead() -> None:
    roster = roster_of(2)
    bury(roster, ["e0"], now=1.0)
    pick = roster.pick(1.1, Random(1), avoid=("e1",))
    assert pick is not None
    assert (pick.endpoint.key, pick.why) == ("e1", Why.NO_OTHER)


def test_one_that_answers_badly_is_better_than_the_one_that_failed_just_now() -> None:
    roster = roster_of(2)
    blame(roster, ["e0"], now=1.0)
    pick = roster.pick(1.1, Random(1), avoid=("e1",))
    assert pick is not None
    assert (pick.endpoint.key, pick.why) == ("e0", Why.LAST_RESORT)


@pytest.mark.parametrize("balance", BALANCES, ids=repr)
def test_where_all_are_to_be_avoided_the_best_of_them_serves(balance: Balance) -> None:
    roster = roster_of(3, balance)
    bury(roster, ["e0"], now=1.0)
    for hashed in (None, b"key"):
        pick = roster.pick(1.1, Random(1), avoid=names(3), hashed=hashed)
        assert pick is not None
        assert pick.why is Why.NO_OTHER
        assert pick.endpoint.key != "e0"


# --- what it costs ----------------------------------------------------------------------------


class Counted(dict[str, int]):
    """Keys to be avoided that count how often they are asked for."""

    asked = 0

    def __contains__(self, key: object) -> bool:
        self.asked += 1
        return super().__contains__(key)


@pytest.mark.parametrize("balance", BALANCES, ids=repr)
@pytest.mark.parametrize("hashed", [None, b"key"])
def test_a_pick_looks_at_a_few_however_many_there_are(
    balance: Balance, hashed: bytes | None
) -> None:
    asked = {}
    for count in (10, 2000):
        roster = roster_of(count, balance)
        avoid = Counted({"e1": 0})
        rng = Random(1)
        for _ in range(50):
            assert roster.pick(1.0, rng, avoid=avoid, hashed=hashed) is not None
        asked[count] = avoid.asked
    assert max(asked.values()) <= 50 * 4


def test_two_scores_are_read_per_pick(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0

    def counted(a: Load, b: Load, now: float, share_a: float = 1.0, share_b: float = 1.0) -> float:
        nonlocal reads
        reads += 1
        return odds(a, b, now, share_a, share_b)

    monkeypatch.setattr("outlast.core.balance.odds", counted)
    roster = roster_of([Member(name, 1.0 + at % 3) for at, name in enumerate(names(3000))])
    shares(roster, 200)
    assert reads == 200  # each compares two


def test_words_without_news_leave_nothing_behind() -> None:
    roster = roster_of(2)
    bury(roster, ["e0"], now=1.0)
    for _ in range(1000):
        roster.changed(of(roster, "e0"))
    assert len(roster._due) == 1


def test_a_change_moves_one_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    from outlast.core.level import Level

    placed = 0
    real = Level.place

    def counted(self: Level[str], *arguments: object, **more: bool) -> object:
        nonlocal placed
        placed += 1
        return real(self, *arguments, **more)  # type: ignore[arg-type]  # passed on as they came

    roster = roster_of(3000)
    monkeypatch.setattr(Level, "place", counted)
    bury(roster, names(100), now=1.0)
    assert shares(roster, 100, now=1.1)["e5"] == 0.0
    assert placed == 100


@pytest.mark.parametrize("balance", [P2C(), PickFirst()], ids=repr)
def test_an_endpoint_weighs_less_than_two_kibibytes(balance: Balance) -> None:
    """All included, after a hard life; but for the table of a consistent hash."""
    members = [Member(f"10.1.{at >> 8}.{at & 255}:8080", 1.0 + at % 5) for at in range(1000)]
    rng = Random(1)
    gc.collect()
    tracemalloc.start()
    try:
        roster = roster_of(members, balance)
        for endpoint in roster:
            for now, fault in enumerate((*Fault, Fault.SLOW, Fault.CONNECT), start=1000):
                endpoint.load.begin(now)
                endpoint.load.end(now + 0.5, 0.25, failed=True)
                endpoint.health.failed(fault, now + 0.5, rng)
                endpoint.health.succeeded(now + 0.75)
                roster.changed(endpoint)
        assert roster.pick(2000.0, rng) is not None
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] / len(members) < 2048
    finally:
        tracemalloc.stop()
