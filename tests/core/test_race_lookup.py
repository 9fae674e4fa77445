"""Names: when a race looks up, what it does meanwhile, and what an empty answer means."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from outlast.core.classify import ConnectFault
from tests.core.world import (
    ANSWERS,
    REFUSED,
    SILENT,
    Empty,
    NoAddress,
    Path,
    Scenario,
    plan,
)

Answers = Sequence[Sequence[str] | NoAddress]


def named(
    table: dict[str, Path],
    answers: Answers,
    *,
    takes: float = 0.0,
    known: bool = False,
    addresses: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> Scenario:
    """A race for a name whose look-ups give `answers`."""
    figures = plan(lookups=True, known=known)
    return Scenario(
        table, figures, addresses=addresses, answers=answers, lookup_takes=takes, spare=spare
    ).run()


def test_the_name_is_looked_up_first() -> None:
    assert named({"a": ANSWERS}, [["a"]], takes=0.1).trail == [
        (0.0, "look up"),
        (0.1, "dial a#0"),
        (0.101, "won a#0"),
    ]


def test_known_addresses_are_dialled_while_the_name_is_looked_up() -> None:
    met = named({"a": SILENT, "b": ANSWERS}, [["b"]], takes=0.1, addresses=["a"])
    assert met.trail == [
        (0.0, "look up"),
        (0.0, "dial a#0"),
        (0.25, "dial b#0"),
        (0.251, "won b#0"),
    ]


@pytest.mark.incident("FR-49")
def test_fr49_an_answer_that_does_not_come_is_stood_in_for() -> None:
    met = named({"a": ANSWERS}, [["a"]], takes=60.0, spare=["a"])
    assert met.trail == [(0.0, "look up"), (0.25, "dial a#0"), (0.251, "won a#0")]


def test_an_answer_that_comes_is_not_stood_in_for() -> None:
    met = named({"a": ANSWERS, "b": ANSWERS}, [["b"]], takes=0.24, spare=["a"])
    assert met.trail == [(0.0, "look up"), (0.24, "dial b#0"), (0.241, "won b#0")]


def test_a_late_answer_is_dialled_beside_the_addresses_of_before() -> None:
    met = named({"a": SILENT, "b": ANSWERS}, [["b"]], takes=0.4, spare=["a"])
    assert met.only("dial", "won") == [(0.25, "dial a#0"), (0.5, "dial b#0"), (0.501, "won b#0")]


@pytest.mark.parametrize(
    ("answer", "won"), [(NoAddress(passing=True), True), (NoAddress(), False), ([], False)]
)
def test_a_server_that_fails_is_stood_in_for_and_one_that_says_no_is_not(
    answer: Sequence[str] | NoAddress, won: bool
) -> None:
    met = named({"a": ANSWERS}, [answer], takes=0.1, spare=["a"])
    assert met.ended == ("won a#0" if won else "lost")


def test_a_resolver_that_hangs_ends_at_the_deadline() -> None:
    assert named({}, [["a"]], takes=60.0).trail == [(0.0, "look up"), (5.0, "lost, timed out")]


def test_the_name_is_looked_up_again_while_nothing_has_won() -> None:
    met = named({"a": SILENT}, [["a"]])
    assert met.only("look") == [(0.0, "look up"), (1.0, "look up"), (3.0, "look up")]


def test_the_gap_begins_when_the_answer_comes() -> None:
    met = named({"a": SILENT}, [["a"]], takes=0.5)
    assert met.only("look") == [(0.0, "look up"), (1.5, "look up"), (4.0, "look up")]


def test_all_refused_asks_once_more_then_is_lost() -> None:
    met = named({"a": REFUSED}, [["a"]])
    assert met.only("look", "lost") == [(0.0, "look up"), (0.0, "look up"), (0.0, "lost")]
    assert met.dials == 8


def test_all_refused_asks_once_more_also_without_a_bucket() -> None:
    met = Scenario(
        {"a": REFUSED, "b": ANSWERS},
        plan(lookups=True),
        addresses=[],
        answers=[["a"], ["b"]],
        lookup_takes=0.01,
        bucket=Empty(),
    ).run()
    assert met.trail == [
        (0.0, "look up"),
        (0.01, "dial a#0"),
        (0.01, "fail a#0"),
        (0.01, "look up"),
        (0.02, "dial b#0"),
        (0.021, "won b#0"),
    ]


def test_an_answer_that_is_younger_than_the_last_error_is_not_asked_for_again() -> None:
    """The address was refused while its name was looked up a second time: that answer counts."""
    met = Scenario(
        {"a": Path(1.2, ConnectFault.LOCAL)},
        plan(lookups=True, delay=9.0),
        addresses=[],
        answers=[["a"]],
        lookup_takes=0.0,
    ).run()
    assert met.only("look", "fail", "lost") == [
        (0.0, "look up"),
        (1.0, "look up"),
        (1.2, "fail a#0"),
        (1.2, "look up"),
        (1.2, "lost"),
    ]
    late = Scenario(
        {"a": Path(1.2, ConnectFault.LOCAL)},
        plan(lookups=True, delay=9.0),
        addresses=["a"],
        answers=[["a"]],
        lookup_takes=1.5,
    ).run()
    assert late.only("look", "fail", "lost") == [
        (0.0, "look up"),
        (1.2, "fail a#0"),
        (1.5, "lost"),
    ]


def test_a_name_that_does_not_exist_is_lost_at_once() -> None:
    assert named({}, [NoAddress()], takes=0.1).trail == [(0.0, "look up"), (0.1, "lost")]
    assert named({}, [[]], takes=0.1).trail == [(0.0, "look up"), (0.1, "lost")]


def test_a_server_that_may_answer_later_is_asked_again_each_half_second() -> None:
    met = named({"a": ANSWERS}, [NoAddress(passing=True), NoAddress(passing=True), ["a"]])
    assert met.trail == [
        (0.0, "look up"),
        (0.5, "look up"),
        (1.0, "look up"),
        (1.0, "dial a#0"),
        (1.001, "won a#0"),
    ]


def test_a_name_that_stays_away_is_lost_at_the_deadline() -> None:
    met = named({}, [[]], known=True)
    assert (met.ended, met.ended_at) == ("lost, timed out", 5.0)
    assert len(met.only("look")) == 10


@pytest.mark.parametrize("gone", [[], NoAddress(), NoAddress(passing=True)])
def test_a_gap_in_the_name_does_not_stop_the_dials(gone: Sequence[str] | NoAddress) -> None:
    met = named({"a": Path(2.9)}, [["a"], gone])
    assert met.ended == "won a#0"
    assert [moment for moment, _ in met.only("look")] == [0.0, 1.0, 1.5, 2.0, 2.5]


@pytest.mark.incident("FR-12")
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("gap", [[], NoAddress(), NoAddress(passing=True)])
def test_fr12_a_headless_name_whose_pod_moves(known: bool, gap: Sequence[str] | NoAddress) -> None:
    """[A] -> [] -> [B]. Whether the name has an address is seen in this race, or known before."""
    moved = named({"a": REFUSED, "b": ANSWERS}, [["a"], gap, gap, ["b"]], known=known)
    assert moved.only("look", "dial", "won")[-6:] == [
        (0.0, "dial a#7"),
        (0.0, "look up"),
        (0.5, "look up"),
        (1.0, "look up"),
        (1.0, "dial b#0"),
        (1.001, "won b#0"),
    ]


@pytest.mark.incident("FR-11")
@pytest.mark.parametrize(
    ("old", "connected_at"),
    [
        (Path(0.01, ConnectFault.UNREACHABLE), 0.081),
        (REFUSED, 0.001),
        (SILENT, 1.251),
    ],
)
def test_fr11_errors_and_silence_ask_the_name_again(old: Path, connected_at: float) -> None:
    moved = named({"old": old, "new": ANSWERS}, [["old"], ["new"]])
    assert moved.ended == "won new#0"
    assert moved.ended_at == connected_at
