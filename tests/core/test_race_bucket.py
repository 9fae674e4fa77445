"""What a race takes from its target's bucket, and what many races together cost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outlast.core.budget import RedialBucket
from outlast.core.classify import ConnectFault
from tests.core.world import (
    ANSWERS,
    REFUSED,
    SILENT,
    Clock,
    Counted,
    Empty,
    Limited,
    Path,
    Scenario,
    drained,
    plan,
    race,
)


def test_the_first_dial_costs_nothing() -> None:
    bucket = Counted(RedialBucket(0.0))
    race({"v": ANSWERS}, bucket)
    assert (bucket.taken, bucket.returned) == (0, 0)


def test_every_other_dial_costs_one_and_a_win_gives_all_back() -> None:
    bucket = Counted(RedialBucket(0.0))
    won = race({"v": [SILENT, REFUSED, SILENT, ANSWERS]}, bucket)
    assert won.dials == 4
    assert (bucket.taken, bucket.returned) == (3, 3)


def test_a_lost_race_gives_nothing_back() -> None:
    bucket = Counted(RedialBucket(0.0))
    lost = race({"v": REFUSED}, bucket)
    assert lost.dials == 8
    assert (bucket.taken, bucket.returned) == (7, 0)


def test_a_bucket_that_runs_dry_slows_the_race_down() -> None:
    dry = Scenario({"v": SILENT}, plan(delay=0.02, deadline=4.0), bucket=Limited(3)).run()
    assert dry.trail[:-3] == [
        (0.0, "dial v#0"),
        (0.02, "dial v#1"),
        (0.04, "dial v#2"),
        (0.06, "dial v#3"),
        (1.02, "drop v#1"),
        (1.04, "drop v#2"),
        (1.06, "drop v#3"),
        (1.06, "dial v#4"),
        (2.06, "drop v#4"),
        (2.06, "dial v#5"),
        (3.06, "drop v#5"),
        (3.06, "dial v#6"),
    ]


def test_an_empty_bucket_means_one_extra_dial_at_a_time_one_second_apart() -> None:
    dry = Scenario({"v": SILENT}, plan(delay=0.02), bucket=Empty()).run()
    assert dry.dialled() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert dry.most_open == 2
    assert (dry.ended, dry.ended_at) == ("lost, timed out", 5.0)


def test_an_empty_bucket_is_never_an_error_by_itself() -> None:
    """The first draw is dead, the bucket empty: the second draw still comes, and wins."""
    dry = Scenario({"v": [SILENT, ANSWERS]}, plan(delay=0.02), bucket=Empty()).run()
    assert (dry.ended, dry.ended_at) == ("won v#1", 1.001)


def just_refused(*names: str, until: float = 0.5) -> Callable[[str, float], bool]:
    return lambda name, now: name in names and now < until


def test_an_empty_bucket_leaves_out_those_that_have_just_refused_another_race() -> None:
    table = {"a": REFUSED, "b": REFUSED, "c": REFUSED, "d": ANSWERS}
    dry = Scenario(table, plan(), bucket=Empty(), refused=just_refused("a", "b", "c")).run()
    assert [line for _, line in dry.only("dial", "won")] == ["dial a#0", "dial d#0", "won d#0"]


def test_the_first_dial_is_free_and_the_rest_is_known() -> None:
    table = {"a": REFUSED, "b": REFUSED}
    dry = Scenario(table, plan(), bucket=Empty(), refused=just_refused("a", "b")).run()
    assert (dry.dials, dry.ended, dry.ended_at) == (1, "lost", 0.0)


def test_with_a_full_bucket_everybody_is_asked() -> None:
    table = {"a": REFUSED, "b": ANSWERS}
    won = Scenario(table, plan(), refused=just_refused("a", "b")).run()
    assert won.ended == "won b#0"


def test_one_that_was_left_out_is_dialled_once_its_refusal_is_old() -> None:
    table = {"a": REFUSED, "b": SILENT, "c": ANSWERS}
    dry = Scenario(table, plan(), bucket=Empty(), refused=just_refused("c")).run()
    assert (dry.ended, dry.ended_at) == ("won c#0", 1.001)


def test_an_empty_bucket_still_tries_every_address_after_errors() -> None:
    dry = race({"a": REFUSED, "b": REFUSED, "c": ANSWERS}, Empty())
    assert dry.trail == [
        (0.0, "dial a#0"),
        (0.0, "fail a#0"),
        (0.0, "dial b#0"),
        (0.0, "fail b#0"),
        (0.0, "dial c#0"),
        (0.001, "won c#0"),
    ]


def test_who_is_unreachable_does_not_shorten_the_second_when_the_bucket_is_empty() -> None:
    """The kernel says so to all races at once, and they are not to dial on in that instant."""
    table = {"a": Path(0.2, ConnectFault.UNREACHABLE), "b": ANSWERS}
    assert (0.2, "dial b#0") in race(table).trail
    assert (1.0, "dial b#0") in race(table, Empty()).trail
    assert (0.2, "dial b#0") in race({**table, "a": Path(0.2, ConnectFault.REFUSED)}, Empty()).trail


def test_an_empty_bucket_allows_no_second_round_after_errors() -> None:
    dry = race({"a": REFUSED, "b": REFUSED}, Empty())
    assert dry.dials == 2
    assert (dry.ended, dry.ended_at) == ("lost", 0.0)


def test_an_error_beside_an_open_dial_waits_its_second_when_the_bucket_is_empty() -> None:
    dry = race({"a": SILENT, "b": [REFUSED, ANSWERS]}, Empty())
    assert dry.trail == [
        (0.0, "dial a#0"),
        (1.0, "dial b#0"),
        (1.0, "fail b#0"),
        (2.0, "dial a#1"),
        (3.0, "drop a#1"),
        (3.0, "dial b#1"),
        (3.001, "won b#1"),
    ]


def test_an_empty_bucket_races_a_stalled_handshake_only_after_patience() -> None:
    stalled = Scenario(
        {"v": [Path(0.001, handshake=9.0), ANSWERS]}, plan(patience=2.0), bucket=Empty()
    ).run()
    assert stalled.only("dial", "won") == [
        (0.0, "dial v#0"),
        (2.001, "dial v#1"),
        (2.002, "won v#1"),
    ]


def test_where_only_one_may_be_open_an_empty_bucket_changes_nothing() -> None:
    assert Scenario({"v": SILENT}, plan(max_open=1), bucket=Empty()).run().dials == 1


def test_what_was_paid_for_a_dial_is_not_paid_twice() -> None:
    """At the cap the oldest redial gives way first; one dial, one from the bucket."""
    bucket = Counted(RedialBucket(0.0))
    silent = Scenario({"v": SILENT}, plan(delay=0.125, deadline=1.0), bucket=bucket).run()
    assert bucket.taken == silent.dials - 1 == 7


# --- a whole client -------------------------------------------------------------------------


def outage(path: Path, *, calls: int, apart: float, bucket: RedialBucket) -> tuple[int, float]:
    """How many dials `calls` races make that begin `apart` seconds from each other."""
    clock = Clock()
    races: list[Scenario] = []

    def call() -> None:
        figures = plan(delay=0.02, deadline=clock.now + 5.0)
        races.append(Scenario({"v": path}, figures, bucket=bucket, clock=clock))

    for nth in range(calls):
        clock.at(nth * apart, call)
    clock.run()
    assert all(one.ended is not None and not one.open for one in races)
    return sum(one.dials for one in races), max(one.ended_at for one in races)


@pytest.mark.parametrize(("calls", "apart"), [(1, 0.0), (40, 0.0), (200, 0.05), (30, 1.0)])
def test_a_total_outage_of_silence_costs_a_dial_a_second_and_the_bucket(
    calls: int, apart: float
) -> None:
    dials, ended = outage(SILENT, calls=calls, apart=apart, bucket=RedialBucket(0.0))
    assert dials <= calls * 5.0 / 1.0 + 50 + 10 * ended


@pytest.mark.parametrize(("calls", "apart"), [(1, 0.0), (400, 0.0), (2000, 0.001), (300, 0.01)])
def test_a_total_outage_of_refusals_costs_little_more_than_a_dial_a_call(
    calls: int, apart: float
) -> None:
    dials, ended = outage(REFUSED, calls=calls, apart=apart, bucket=RedialBucket(0.0))
    assert dials <= 1.25 * calls + 50 + 10 * ended


def test_an_outage_with_an_empty_bucket_costs_one_dial_a_call() -> None:
    dials, _ = outage(REFUSED, calls=100, apart=0.0, bucket=drained())
    assert dials == 100


def test_a_dead_node_behind_a_healthy_service_never_drains_the_bucket() -> None:
    """Every second draw is dead, 100 calls a second, for ten seconds: all redials are granted."""
    clock = Clock()
    bucket = RedialBucket(0.0)
    races: list[Scenario] = []

    def call() -> None:
        figures = plan(delay=0.02, deadline=clock.now + 5.0)
        draws = [SILENT, ANSWERS] if len(races) % 2 else [ANSWERS]
        races.append(Scenario({"v": draws}, figures, bucket=bucket, clock=clock))

    for nth in range(1000):
        clock.at(nth * 0.01, call)
    clock.run()
    assert all(one.ended is not None and one.ended.startswith("won") for one in races)
    assert max(len(one.dialled()) for one in races) == 2
    assert bucket.level(clock.now) >= 50.0
