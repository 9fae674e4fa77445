"""The bounds that programs are held to can be broken, each by what it is there for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.legacy.met import broken, read

LOSS, END = 1000.0, 1020.0
PATIENCE = 3.0

Line = tuple[int, float, float, str]  # worker, seconds from the loss, seconds, error
STEADY: list[Line] = [(0, second, 0.002, "") for second in range(-2, 20)]


def found(folder: Path, lines: list[Line], *, new: bool, more: str = "") -> list[str]:
    said = folder / "said"
    told = (
        {"worker": worker, "at": LOSS + at, "took": took, "error": error, "what": ""}
        for worker, at, took, error in lines
    )
    said.write_text("\n".join(map(json.dumps, told)) + more)
    return broken(read("row", new, said, LOSS, END, PATIENCE), workers=1)


@pytest.mark.parametrize("new", [True, False])
def test_a_steady_program_breaks_nothing(tmp_path: Path, new: bool) -> None:
    assert found(tmp_path, STEADY, new=new) == []


def test_a_line_cut_short_is_passed_over(tmp_path: Path) -> None:
    assert found(tmp_path, STEADY, new=True, more='\n{"worker": 0, "at": 10') == []


@pytest.mark.parametrize(
    ("line", "new", "says"),
    [
        ((0, 5.0, 0.01, "OSError"), True, "1 errors"),
        ((0, 13.0, 0.01, "OSError"), False, "1 errors"),
        ((0, 5.0, 1.1, ""), True, "slowest 1.10 s"),
        ((0, 13.0, 1.1, ""), False, "slowest 1.10 s"),
        ((0, -3.0, 0.01, "OSError"), True, "errors before the loss"),
        ((0, 2.0, 11.0, "OSError"), False, "a dead connection was cut 13.0 s after the loss"),
        ((0, -0.5, 13.2, ""), True, "a dead connection was cut 12.7 s after the loss"),
    ],
)
def test_each_bound_can_be_broken(tmp_path: Path, line: Line, new: bool, says: str) -> None:
    assert found(tmp_path, [*STEADY, line], new=new) == [says]


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ((0, 0.1, 11.5, "OSError"), False),  # the dead pooled connection
        ((0, 0.1, 11.5, ""), False),  # the same, repeated by the library itself
        ((0, 10.0, 5.0, "OSError"), False),  # the same, used late
        ((0, -0.001, 11.9, "OSError"), True),  # in flight at the loss
    ],
)
def test_one_call_may_go_with_its_connection(tmp_path: Path, line: Line, new: bool) -> None:
    assert found(tmp_path, [*STEADY, line], new=new) == []


def test_more_cuts_than_connections_are_seen(tmp_path: Path) -> None:
    two: list[Line] = [(0, 0.1, 5.0, "OSError"), (0, 5.2, 5.0, "OSError")]
    assert found(tmp_path, [*STEADY, *two], new=False) == ["2 calls were cut, of 1 connections"]


def test_a_silent_worker_hangs(tmp_path: Path) -> None:
    assert found(tmp_path, STEADY[:-4], new=True) == ["1 hung"]


def test_a_keepalive_of_its_own_excuses_what_was_in_flight_alone(tmp_path: Path) -> None:
    said = tmp_path / "said"
    lines = [{"worker": 0, "at": LOSS + at, "took": 0.1, "error": "", "what": ""} for at in (-2, 5)]
    for count, hung, kept in ((1, 0, 1), (2, 1, 0)):
        said.write_text("\n".join(json.dumps(line) for line in lines[:count]))
        met = read("row", True, said, LOSS, END, PATIENCE, own_keepalive=True)
        assert (len(met.hung), len(met.kept)) == (hung, kept)


def test_a_keepalive_of_its_own_lets_a_pooled_connection_be_found_late(tmp_path: Path) -> None:
    said = tmp_path / "said"
    late = {"worker": 0, "at": LOSS + 15, "took": 5.0, "error": "OSError", "what": ""}
    said.write_text(
        json.dumps({**late, "at": LOSS - 2, "took": 0.1, "error": ""}) + "\n" + json.dumps(late)
    )
    for own, found_ in ((True, []), (False, ["1 errors", "slowest 5.00 s"])):
        met = read("row", False, said, LOSS, END, PATIENCE, own_keepalive=own)
        assert broken(met, workers=1) == found_


def test_a_program_without_calls_is_seen(tmp_path: Path) -> None:
    assert found(tmp_path, STEADY[3:], new=True) == ["0 calls before the loss"]
