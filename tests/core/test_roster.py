"""Who serves: priorities, zones, panic, trials, and what is left when all are out."""

from __future__ import annotations

import gc
import tracemalloc
from random import Random

import pytest

from outlast.core.balance import P2C, Balance, ConsistentHash, LeastRequest, PickFirst, RoundRobin
from outlast.core.endpoint import Member, Why
from outlast.core.health import Evidence, Fault, HealthPlan, Rule, Standing
from outlast.core.load import Load, odds
from outlast.core.roster import Roster
from tests.core.crowd import answer, blame, bury, fail, names, of, roster_of, shares

BALANCES: list[Balance] = [
    P2C(),
    LeastRequest(),
    RoundRobin(),
    PickFirst(),
    ConsistentHash(header="x-user"),
]


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


# --- panic ------------------------------------------------------------------------------------


@pytest.mark.parametrize("balance", [P2C(), LeastRequest(), RoundRobin()], ids=repr)
@pytest.mark.parametrize(
    ("total", "out", "panic"),
    [
        *((1, 1, True), (2, 1, False), (2, 2, True), (3, 1, False), (3, 2, True), (3, 3, True)),
        *((5, 2, False), (5, 3, True), (5, 5, True), (500, 250, False), (500, 251, True)),
    ],
)
def test_being_out_on_answers_counts_until_more_than_half_are(
    balance: Balance, total: int, out: int, panic: bool
) -> None:
    roster = roster_of(total, balance)
    blame(roster, names(total)[:out], now=1.0)
    assert roster.panic is panic
    got = shares(roster, 8000, now=1.1)
    bad = sum(got[name] for name in names(total)[:out])
    assert bad == pytest.approx(out / total if panic else 0.0, rel=0.1)


@pytest.mark.parametrize("balance", BALANCES, ids=repr)
@pytest.mark.parametrize(("total", "out"), [(2, 1), (3, 2), (5, 4), (500, 499)])
def test_the_dead_are_not_asked_while_one_lives(balance: Balance, total: int, out: int) -> None:
    roster = roster_of(total, balance)
    bury(roster, names(total)[:out], now=1.0)
    assert shares(roster, 300, now=1.1)[f"e{total - 1}"] == 1.0


@pytest.mark.parametrize("total", [1, 2, 3, 5, 500])
def test_of_the_dead_the_one_that_answered_last_is_asked_first(total: int) -> None:
    roster = roster_of(total)
    for at, name in enumerate(names(total)):
        of(roster, name).health.succeeded(0.1 + at / 1000)
    bury(roster, names(total), now=1.0)
    pick = roster.pick(1.1, Random(1))
    assert pick is not None
    assert (pick.endpoint.key, pick.why, pick.trial) == (f"e{total - 1}", Why.LAST_RESORT, False)
    avoid = {f"e{total - 1}"}
    pick = roster.pick(1.1, Random(1), avoid=avoid)
    assert pick is not None
    assert pick.endpoint.key == f"e{max(0, total - 2)}"
    assert pick.why is (Why.NO_OTHER if total == 1 else Why.LAST_RESORT)


def test_those_that_answer_badly_are_better_than_the_dead() -> None:
    roster = roster_of(3)
    bury(roster, ["e0", "e1"], now=1.0)
    blame(roster, ["e2"], now=1.0)
    assert shares(roster, 100, now=1.1)["e2"] == 1.0
    assert whys(roster, 1.1) == {Why.PANIC}


def test_without_panic_those_out_on_answers_are_the_last_resort() -> None:
    roster = roster_of(3, panic=0.0)
    blame(roster, ["e0", "e1"], now=1.0)
    assert shares(roster, 100, now=1.1)["e2"] == 1.0
    bury(roster, ["e2"], now=1.0)
    assert whys(roster, 1.1) == {Why.LAST_RESORT}
    assert shares(roster, 100, now=1.1)["e2"] == 0.0


def test_evidence_that_turns_moves_an_endpoint() -> None:
    """Dead, and it answered badly: it lives."""
    roster = roster_of(3)
    bury(roster, ["e0", "e1", "e2"], now=1.0)
    fail(roster, "e1", Fault.GATEWAY, now=1.1)
    assert of(roster, "e1").health.evidence is Evidence.ANSWERS
    assert shares(roster, 100, now=1.1)["e1"] == 1.0


# --- trials -----------------------------------------------------------------------------------


@pytest.mark.parametrize("balance", [P2C(), LeastRequest(), RoundRobin()], ids=repr)
def test_one_that_is_due_gets_one_trial_at_a_time(balance: Balance) -> None:
    roster = roster_of(4, balance)
    bury(roster, ["e2"], now=1.0)
    endpoint = of(roster, "e2")
    until = endpoint.health.until
    assert shares(roster, 200, now=until - 0.001)["e2"] == 0.0
    rng = Random(1)
    picks = [roster.pick(until, rng) for _ in range(50)]
    trials = [pick for pick in picks if pick and pick.trial]
    assert [pick.endpoint.key for pick in trials] == ["e2"]
    assert trials[0].why is Why.TRIAL
    assert endpoint.health.standing is Standing.TRIAL
    assert all(pick.endpoint.key != "e2" for pick in picks if pick and not pick.trial)


def test_a_trial_without_a_verdict_is_given_back() -> None:
    roster = roster_of(2)
    bury(roster, ["e0"], now=1.0)
    for now in (100.0, 100.5):
        pick = roster.pick(now, Random(1))
        assert pick is not None
        assert pick.trial
        of(roster, "e0").health.untried(now + 0.1)
        roster.changed(of(roster, "e0"))


def test_a_trial_that_is_forgotten_is_made_again() -> None:
    """Nothing was heard for `cap`: whoever made it is gone."""
    roster = roster_of(2)
    bury(roster, ["e0"], now=1.0)
    first = roster.pick(100.0, Random(1))
    assert first is not None
    assert first.trial
    assert shares(roster, 100, now=159.0)["e0"] == 0.0
    again = roster.pick(161.0, Random(1))
    assert again is not None
    assert again.trial


def test_a_trial_that_fails_is_waited_for_again() -> None:
    roster = roster_of(2)
    bury(roster, ["e0"], now=1.0)
    assert roster.pick(100.0, Random(1)) is not None
    fail(roster, "e0", Fault.CONNECT, now=100.1)
    assert shares(roster, 100, now=100.2)["e0"] == 0.0
    pick = roster.pick(of(roster, "e0").health.until, Random(1))
    assert pick is not None
    assert pick.trial


def test_one_to_be_avoided_has_no_trial() -> None:
    roster = roster_of(3)
    bury(roster, ["e0"], now=1.0)
    for _ in range(20):
        pick = roster.pick(100.0, Random(1), avoid=("e0",))
        assert pick is not None
        assert not pick.trial
    pick = roster.pick(100.0, Random(1))
    assert pick is not None
    assert pick.trial


def test_a_check_alone_returns_what_a_check_has_put_out() -> None:
    roster = roster_of(2)
    of(roster, "e0").health.eject(Rule.CHECK, Evidence.DEATH, "no answer", 1.0, Random(1))
    roster.changed(of(roster, "e0"))
    assert shares(roster, 100, now=1e6)["e0"] == 0.0
    of(roster, "e0").health.checked(True, 1e6, Random(1))
    roster.changed(of(roster, "e0"))
    assert shares(roster, now=1e6 + 10)["e0"] == pytest.approx(0.5, rel=0.1)


def test_one_put_out_again_while_it_was_due_is_no_longer_due() -> None:
    roster = roster_of(3)
    fail(roster, "e0", Fault.CONNECT, now=1.0)  # aside for five seconds
    assert roster.pick(7.0, Random(1), avoid=("e0",)) is not None  # its time has come
    bury(roster, ["e0"], now=7.5)
    assert shares(roster, 100, now=7.6)["e0"] == 0.0


def test_the_dead_that_are_due_are_tried_before_the_last_resort() -> None:
    roster = roster_of(2)
    bury(roster, names(2), now=1.0)
    rng = Random(1)
    picks = [roster.pick(100.0, rng) for _ in range(4)]
    assert [pick.trial for pick in picks if pick] == [True, True, False, False]


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
