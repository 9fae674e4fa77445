"""A virtual address raced against itself: when dials start, give way, end and win."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.core.classify import ConnectFault
from outlast.core.race import Race
from tests.core.world import (
    ANSWERS,
    NOWHERE,
    REFUSED,
    SILENT,
    Bottomless,
    Counted,
    Limited,
    Path,
    Scenario,
    plan,
)


def vip(*paths: Path, delay: float = 0.02, **figures: Any) -> Scenario:
    """A race for one address whose dials meet `paths`, one after the other; the last stays."""
    return Scenario({"v": paths}, plan(delay=delay, **figures)).run()


def test_a_healthy_address_is_dialled_once() -> None:
    assert vip(ANSWERS).trail == [(0.0, "dial v#0"), (0.001, "won v#0")]


def test_a_silent_address_is_dialled_again_after_each_delay_and_the_oldest_redial_gives_way() -> (
    None
):
    silent = vip(SILENT, deadline=0.13)
    assert silent.trail == [
        (0.0, "dial v#0"),
        (0.02, "dial v#1"),
        (0.04, "dial v#2"),
        (0.06, "dial v#3"),
        (0.08, "drop v#1"),
        (0.08, "dial v#4"),
        (0.1, "drop v#2"),
        (0.1, "dial v#5"),
        (0.12, "drop v#3"),
        (0.12, "dial v#6"),
        (0.13, "drop v#0"),
        (0.13, "drop v#4"),
        (0.13, "drop v#5"),
        (0.13, "drop v#6"),
        (0.13, "lost, timed out"),
    ]
    assert silent.most_open == 4


def test_redials_end_after_one_second_when_nothing_makes_them_give_way() -> None:
    assert vip(SILENT, delay=0.4, deadline=2.0).trail == [
        (0.0, "dial v#0"),
        (0.4, "dial v#1"),
        (0.8, "dial v#2"),
        (1.2, "dial v#3"),
        (1.4, "drop v#1"),
        (1.6, "dial v#4"),
        (1.8, "drop v#2"),
        (2.0, "drop v#0"),
        (2.0, "drop v#3"),
        (2.0, "drop v#4"),
        (2.0, "lost, timed out"),
    ]


def test_the_second_draw_wins_after_one_delay() -> None:
    assert vip(SILENT, ANSWERS).trail == [
        (0.0, "dial v#0"),
        (0.02, "dial v#1"),
        (0.021, "won v#1"),
    ]


def test_a_path_that_needs_three_seconds_still_connects_through_the_first_dial() -> None:
    slow = vip(Path(3.0))
    assert slow.ended == "won v#0"
    assert slow.ended_at == 3.0
    assert slow.most_open == 4


def test_a_slow_path_connects_through_a_later_dial_where_the_first_was_refused() -> None:
    slow = vip(REFUSED, Path(3.0), SILENT)
    assert slow.ended == "won v#1"
    assert slow.ended_at == 3.0
    assert slow.most_open == 4


def test_only_one_dial_of_an_address_stays_open_to_the_deadline() -> None:
    slow = vip(SILENT, ANSWERS, delay=0.25)
    assert slow.ended == "won v#1"
    both = vip(SILENT, Path(1.5), SILENT, delay=0.25, deadline=3.0)
    assert (1.0, "drop v#1") in both.trail
    assert both.ended == "lost, timed out"


@pytest.mark.parametrize("max_open", [1, 2, 3, 4, 7])
def test_one_address_never_has_more_dials_open_than_the_plan_says(max_open: int) -> None:
    assert vip(SILENT, max_open=max_open, deadline=1.5).most_open == max_open


def test_where_one_dial_may_be_open_the_first_stays() -> None:
    assert vip(SILENT, max_open=1).trail == [
        (0.0, "dial v#0"),
        (5.0, "drop v#0"),
        (5.0, "lost, timed out"),
    ]


def test_where_one_dial_may_be_open_an_error_makes_room() -> None:
    assert vip(Path(0.3, ConnectFault.UNREACHABLE), ANSWERS, max_open=1).trail == [
        (0.0, "dial v#0"),
        (0.3, "fail v#0"),
        (0.3, "dial v#1"),
        (0.301, "won v#1"),
    ]


def test_a_deadline_that_has_come_already_starts_nothing() -> None:
    assert vip(ANSWERS, deadline=0.0).trail == [(0.0, "lost, timed out")]


# --- handshakes -------------------------------------------------------------------------------


def test_a_dial_in_its_handshake_holds_back_timed_dials() -> None:
    assert vip(Path(0.001, handshake=0.3)).trail == [(0.0, "dial v#0"), (0.301, "won v#0")]


def test_a_stalled_handshake_is_raced_by_one_new_dial() -> None:
    stalled = vip(Path(0.001, handshake=9.0), Path(0.001, handshake=0.1))
    assert stalled.trail == [(0.0, "dial v#0"), (0.501, "dial v#1"), (0.602, "won v#1")]


def test_a_second_handshake_has_patience_of_its_own() -> None:
    stalled = vip(Path(0.001, handshake=9.0), deadline=1.2, patience=0.3)
    assert stalled.dialled() == [0.0, 0.301, 0.602, 0.903]
    assert stalled.only("drop") == [(1.2, f"drop v#{nth}") for nth in range(4)]


def test_a_handshake_under_way_never_gives_way() -> None:
    """Four stalled handshakes are as many as may be open: nothing more is started."""
    stalled = vip(Path(0.001, handshake=9.0), patience=0.1, deadline=3.0)
    assert stalled.dials == 4
    assert {moment for moment, _ in stalled.only("drop")} == {3.0}


def test_a_redial_in_its_handshake_outlives_the_second() -> None:
    slow = vip(SILENT, Path(0.1, handshake=1.5), SILENT, delay=0.25, patience=9.0)
    assert slow.trail == [(0.0, "dial v#0"), (0.25, "dial v#1"), (1.85, "won v#1")]


def test_a_dial_beside_a_stalled_handshake_is_followed_at_the_usual_delay() -> None:
    stalled = vip(Path(0.001, handshake=9.0), SILENT, SILENT, ANSWERS, delay=0.25)
    assert stalled.dialled() == [0.0, 0.501, 0.751, 1.001]
    assert stalled.ended == "won v#3"


# --- a driver's tidings that come too late ----------------------------------------------------


def test_tidings_of_a_dial_that_was_given_up_change_nothing() -> None:
    told = Race(plan(), Bottomless(), ["v"])
    told.step(0.0)
    told.failed(7, ConnectFault.LOCAL)
    told.connected(7, 0.0)
    untold = Race(plan(), Bottomless(), ["v"])
    untold.step(0.0)
    for now in (0.0, 0.25, 0.25, 0.5):
        assert told.step(now) == untold.step(now)


def test_reasons_are_given_in_words() -> None:
    machine = Race(plan(), Bottomless(), ["v", "w"])
    reasons = [machine.step(0.0), machine.step(0.25), machine.step(0.5)]
    machine.failed(1, ConnectFault.REFUSED)
    reasons.append(machine.step(0.5))
    assert [getattr(step, "why", "") for step in reasons] == [
        "first dial",
        "next address",
        "same address, new local port",
        "after an error",
    ]


@pytest.mark.parametrize(
    ("figures", "named"),
    [
        ({"delay": 0.0}, "delay"),
        ({"delay": -1.0}, "delay"),
        ({"patience": -0.1}, "patience"),
        ({"later_delay": 0.0}, "later_delay"),
        ({"max_open": 0}, "max_open"),
    ],
)
def test_a_plan_that_would_never_pause_is_refused(figures: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        plan(**figures)


# -- local ports that lead nowhere -----------------------------------------------------------


def test_a_dial_from_a_port_that_leads_nowhere_costs_no_time() -> None:
    assert vip(NOWHERE, NOWHERE, ANSWERS).trail == [
        (0.0, "dial v#0"),
        (0.0, "pass v#0"),
        (0.0, "dial v#1"),
        (0.0, "pass v#1"),
        (0.0, "dial v#2"),
        (0.001, "won v#2"),
    ]


def test_it_does_not_count_as_unanswered() -> None:
    """Two unanswered dials would be a hole, and the third would follow sooner."""
    paths = (NOWHERE, SILENT, NOWHERE, SILENT, NOWHERE, SILENT, SILENT)
    trail = vip(*paths, later_delay=0.01, deadline=0.055).only("dial")
    assert [moment for moment, _ in trail] == [0, 0, 0.02, 0.02, 0.03, 0.03, 0.04, 0.05]


def test_the_dial_after_it_is_the_one_that_stays() -> None:
    slow = vip(NOWHERE, Path(3.0), SILENT)
    assert slow.ended == "won v#1"


def test_another_address_does_not_lose_its_turn_to_it() -> None:
    both = Scenario({"v": (NOWHERE, SILENT), "w": SILENT}, plan(delay=0.02, deadline=0.03)).run()
    assert [what for _, what in both.only("dial")] == ["dial v#0", "dial v#1", "dial w#0"]


def test_only_so_many_in_a_row_are_passed_over() -> None:
    """Then one stays and the race waits as ever: there is no storm where every port is dead."""
    trail = vip(NOWHERE, deadline=0.05).trail
    passed = [moment for moment, what in trail if what.startswith("pass")]
    dialled = [moment for moment, what in trail if what.startswith("dial")]
    assert passed == [0.0] * 8 + [0.02] * 8 + [0.04] * 8
    assert dialled == [0.0] * 9 + [0.02] * 9 + [0.04] * 9


def test_each_is_paid_for_and_comes_back_with_the_win() -> None:
    bucket = Counted(Bottomless())
    Scenario({"v": (NOWHERE, NOWHERE, ANSWERS)}, plan(), bucket=bucket).run()
    assert (bucket.taken, bucket.returned) == (2, 2)


def test_an_empty_bucket_still_gives_every_address_its_dial() -> None:
    race = Scenario({"v": (NOWHERE, ANSWERS)}, plan(), bucket=Limited(0)).run()
    assert race.ended == "won v#1"


def test_a_dial_that_is_passed_over_leaves_the_race() -> None:
    race: Race[str] = Race(plan(), Bottomless(), ["v"])
    race.step(0.0)
    assert race.passed_over(0)
    race.failed(0, ConnectFault.SILENT)  # what its driver may still say of it
    race.step(0.0)
    assert race.won(1, 0.001) == []
