"""Several addresses: their order, their errors, and how many dials are open."""

from __future__ import annotations

import errno
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.classify import ConnectFault, connect_fault
from outlast.core.race import interleave
from tests.core.world import ANSWERS, REFUSED, SILENT, Path, Scenario, plan, race

MISS = [ConnectFault.REFUSED, ConnectFault.UNREACHABLE, ConnectFault.SILENT]
OURS = [ConnectFault.LOCAL, ConnectFault.HANDSHAKE]


def test_addresses_are_dialled_in_order_then_the_round_begins_again() -> None:
    silent = Scenario({"a": SILENT, "b": SILENT}, plan(deadline=1.1)).run()
    assert silent.only("dial") == [
        (0.0, "dial a#0"),
        (0.25, "dial b#0"),
        (0.5, "dial a#1"),
        (0.75, "dial b#1"),
        (1.0, "dial a#2"),
    ]


@pytest.mark.parametrize("fault", MISS)
def test_an_error_starts_the_next_dial_at_once(fault: ConnectFault) -> None:
    assert race({"a": Path(0.01, fault), "b": ANSWERS}).trail == [
        (0.0, "dial a#0"),
        (0.01, "fail a#0"),
        (0.01, "dial b#0"),
        (0.011, "won b#0"),
    ]


def test_an_error_starts_one_dial_and_the_delay_begins_anew() -> None:
    late = race({"a": Path(0.2, ConnectFault.UNREACHABLE), "b": SILENT, "c": SILENT, "d": ANSWERS})
    assert late.dialled() == [0.0, 0.2, 0.45, 0.7]


def test_an_error_that_comes_late_starts_a_dial_of_its_own() -> None:
    late = race({"a": Path(0.3, ConnectFault.UNREACHABLE), "b": SILENT, "c": ANSWERS})
    assert late.trail == [
        (0.0, "dial a#0"),
        (0.25, "dial b#0"),
        (0.3, "fail a#0"),
        (0.3, "dial c#0"),
        (0.301, "won c#0"),
    ]


@pytest.mark.parametrize("fault", MISS)
def test_eight_answered_failures_close_an_address(fault: ConnectFault) -> None:
    met = race({"a": Path(0.0, fault)})
    assert met.dials == 8
    assert (met.ended, met.ended_at) == ("lost", 0.0)


@pytest.mark.parametrize("fault", MISS)
def test_where_a_dial_was_won_lately_more_are_made(fault: ConnectFault) -> None:
    """A VIP of which most is gone answers most dials with an error, and not all."""
    met = Scenario({"v": [Path(0.0, fault)] * 23 + [ANSWERS]}, plan(lately=True)).run()
    assert met.dials == 24
    assert met.ended == "won v#23"
    assert Scenario({"v": Path(0.0, fault)}, plan(lately=True)).run().dials == 24


def test_a_handshake_that_breaks_off_is_not_repeated_more_often_for_that() -> None:
    path = Path(0.0, broken=ConnectFault.REFUSED)
    assert Scenario({"v": path}, plan(lately=True)).run().dials == 8


def test_the_eighth_draw_may_still_win() -> None:
    assert race({"a": [REFUSED] * 7 + [ANSWERS]}).ended == "won a#7"


@pytest.mark.parametrize("fault", OURS)
def test_the_same_dial_would_meet_the_same_answer(fault: ConnectFault) -> None:
    assert race({"a": Path(0.0, fault)}).trail == [
        (0.0, "dial a#0"),
        (0.0, "fail a#0"),
        (0.0, "lost"),
    ]


def test_a_broken_handshake_closes_the_address_and_moves_on() -> None:
    broken = Path(0.01, handshake=0.02, broken=ConnectFault.HANDSHAKE)
    assert race({"a": broken, "b": ANSWERS}).trail == [
        (0.0, "dial a#0"),
        (0.03, "fail a#0"),
        (0.03, "dial b#0"),
        (0.031, "won b#0"),
    ]


def test_a_reset_handshake_may_be_tried_again() -> None:
    reset = Path(0.01, handshake=0.02, broken=ConnectFault.REFUSED)
    assert race({"a": [reset, ANSWERS]}).ended == "won a#1"


def test_a_closed_address_keeps_the_dial_that_is_still_open() -> None:
    """The redial was refused by this machine; the first may win yet."""
    assert race({"a": [Path(1.0), Path(0.0, ConnectFault.LOCAL)]}).trail == [
        (0.0, "dial a#0"),
        (0.25, "dial a#1"),
        (0.25, "fail a#1"),
        (1.0, "won a#0"),
    ]


def test_all_refused_is_lost_at_once() -> None:
    lost = race({"a": REFUSED, "b": REFUSED})
    assert (lost.ended, lost.ended_at) == ("lost", 0.0)
    assert lost.dials == 16


def test_refused_and_silent_waits_for_the_silent_one() -> None:
    mixed = race({"a": REFUSED, "b": SILENT})
    assert (mixed.ended, mixed.ended_at) == ("lost, timed out", 5.0)


def test_no_address_at_all_is_lost_at_once() -> None:
    assert race({}).trail == [(0.0, "lost")]


def test_every_address_keeps_one_dial_and_one_more_goes_round() -> None:
    many = Scenario(dict.fromkeys("abcdef", SILENT), plan(delay=0.1, deadline=1.2)).run()
    assert many.only("dial")[:9] == [
        (0.0, "dial a#0"),
        (0.1, "dial b#0"),
        (0.2, "dial c#0"),
        (0.3, "dial d#0"),
        (0.4, "dial e#0"),
        (0.5, "dial f#0"),
        (0.6, "dial a#1"),
        (0.7, "dial b#1"),
        (0.8, "dial c#1"),
    ]
    assert many.only("drop")[:2] == [(0.7, "drop a#1"), (0.8, "drop b#1")]
    assert many.most_open == 7


def test_addresses_that_are_spent_make_no_room_for_more_dials() -> None:
    """Three of four are closed; the one that is left has four dials, like any address."""
    closed = Path(0.0, ConnectFault.LOCAL)
    one_left = race({"a": closed, "b": closed, "c": closed, "d": SILENT})
    assert one_left.most_open == 4


def test_every_address_is_tried_also_where_one_dial_may_be_open() -> None:
    both = Scenario({"a": SILENT, "b": SILENT}, plan(max_open=1, deadline=0.6)).run()
    assert both.only("dial") == [(0.0, "dial a#0"), (0.25, "dial b#0"), (0.5, "dial a#1")]


def late(old: Path) -> Scenario:
    """A second address, that answers, becomes known when four dials to the first are open."""
    return Scenario(
        {"old": old, "new": ANSWERS},
        plan(lookups=True, delay=0.1, patience=0.1),
        addresses=["old"],
        answers=[["new"]],
        lookup_takes=0.35,
    ).run()


def test_an_old_redial_gives_way_to_a_new_address() -> None:
    met = late(SILENT)
    assert met.trail[-3:] == [(0.4, "drop old#1"), (0.4, "dial new#0"), (0.401, "won new#0")]


def test_a_new_address_is_tried_beside_four_stalled_handshakes() -> None:
    met = late(Path(0.0, handshake=9.0))
    assert met.trail[-2:] == [(0.4, "dial new#0"), (0.401, "won new#0")]
    assert met.most_open == 5


def test_a_new_address_is_dialled_before_an_old_one_again() -> None:
    met = Scenario(
        {"a": SILENT, "b": ANSWERS},
        plan(lookups=True),
        addresses=["a"],
        answers=[["a", "b"]],
        lookup_takes=0.6,
    ).run()
    assert met.only("dial", "won") == [
        (0.0, "dial a#0"),
        (0.25, "dial a#1"),
        (0.5, "dial a#2"),
        (0.75, "dial b#0"),
        (0.751, "won b#0"),
    ]


# --- errno by errno ---------------------------------------------------------------------------


@pytest.mark.incident("FR-14")
@pytest.mark.parametrize("code", sorted(errno.errorcode))
def test_fr14_any_errno_before_a_connection_moves_on_at_once(code: int) -> None:
    assert race({"gone": Path(0.0, connect_fault(code)), "b": ANSWERS}).trail == [
        (0.0, "dial gone#0"),
        (0.0, "fail gone#0"),
        (0.0, "dial b#0"),
        (0.001, "won b#0"),
    ]


# --- interleaving -----------------------------------------------------------------------------


def family(address: str) -> str:
    return "six" if ":" in address else "four"


@pytest.mark.parametrize(
    ("given_order", "mixed"),
    [
        ([], []),
        (["a", "b"], ["a", "b"]),
        ([":1", ":2", "a", "b"], [":1", "a", ":2", "b"]),
        (["a", "b", "c", ":1"], ["a", ":1", "b", "c"]),
        ([":1", "a", ":1", "a"], [":1", "a"]),
    ],
)
def test_families_alternate(given_order: list[str], mixed: list[str]) -> None:
    assert interleave(given_order, family) == mixed


@given(st.lists(st.sampled_from([":1", ":2", ":3", ":4", "a", "b", "c", "d"])))
def test_interleaving_loses_nothing_and_keeps_each_familys_order(addresses: list[str]) -> None:
    mixed = interleave(addresses, family)
    unique = list(dict.fromkeys(addresses))
    assert sorted(mixed) == sorted(unique)
    for kind in ("four", "six"):
        assert [a for a in mixed if family(a) == kind] == [a for a in unique if family(a) == kind]
    pairs = 2 * min(sum(family(a) == kind for a in unique) for kind in ("four", "six"))
    assert all(family(a) != family(b) for a, b in itertools.pairwise(mixed[:pairs]))
