"""The time line: what a second's character says, and where the events stand."""

from __future__ import annotations

import pytest

from outlast.cli.record import Happening, Outcome, Sample
from outlast.cli.timeline import ASCII, UNICODE, Cell, axis, cells, glyph, per_cell, ruler

POWER, LEAVES = Happening(3.0, "power off"), Happening(43.2, "gone")


@pytest.mark.parametrize(
    ("samples", "until", "width", "expected"),
    [
        ([], 0, 1, []),
        ([], 2, 1, [Cell(), Cell()]),
        ([Sample(0.5, 0.1), Sample(0.6, 0.2)], 1, 1, [Cell(2, 1, 0)]),
        ([Sample(0.9, 0.2)], 2, 1, [Cell(), Cell(1, 1, 0)]),  # where it ended
        ([Sample(0.0, 2.5, Outcome.ERROR, "E")], 3, 1, [Cell(), Cell(), Cell(0, 0, 1)]),
        ([Sample(0.0, 2.5, Outcome.HUNG)], 3, 1, [Cell()] * 3),  # it has not ended
        ([Sample(0.1, 0.01), Sample(1.9, 0.01)], 3, 2, [Cell(2), Cell()]),
        ([Sample(2.0, 0.01)], 2, 1, [Cell(), Cell()]),  # after the end
        ([], 2.1, 1, [Cell()] * 3),
    ],
)
def test_requests_count_where_they_end(
    samples: list[Sample], until: float, width: int, expected: list[Cell]
) -> None:
    assert cells(samples, until, width) == expected


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (Cell(), "·"),
        (Cell(1), "▁"),
        (Cell(20), "▄"),
        (Cell(40), "▇"),
        (Cell(80), "▇"),
        (Cell(40, 0, 1), "1"),
        (Cell(0, 0, 9), "9"),
        (Cell(0, 0, 12), "9"),
    ],
)
def test_a_character_tells_a_second(cell: Cell, expected: str) -> None:
    assert glyph(cell, 40, UNICODE) == expected


def test_ascii_will_do() -> None:
    line = [glyph(cell, 7, ASCII) for cell in (Cell(), *(Cell(ok) for ok in range(1, 8)))]
    assert "".join(line) == "_.:-=+*#"
    assert "".join(line).isascii()


@pytest.mark.parametrize(("seconds", "room", "width"), [(50, 61, 1), (50, 50, 1), (50, 49, 2)])
def test_a_narrow_terminal_gets_longer_stretches(seconds: float, room: int, width: int) -> None:
    assert per_cell(seconds, room) == width


@pytest.mark.parametrize(
    ("seconds", "width", "expected"),
    [
        (8, 1, "0    5 s"),
        (10, 1, "0    5    10 s"),
        (30, 2, "0    10   20   30 s"),
        (100, 4, "0    20   40   60   80   100 s"),
    ],
)
def test_the_axis_names_seconds(seconds: float, width: int, expected: str) -> None:
    assert axis(seconds, width) == expected


@pytest.mark.parametrize(
    ("happenings", "width", "expected"),
    [
        ([], 1, []),
        ([POWER], 1, ["   ▼ power off"]),
        ([POWER, LEAVES], 1, ["   ▼ power off" + " " * 29 + "▼ gone"]),
        ([POWER, LEAVES], 4, ["▼ power off", " " * 10 + "▼ gone"]),  # they would meet
    ],
)
def test_events_stand_over_their_second(
    happenings: list[Happening], width: int, expected: list[str]
) -> None:
    assert ruler(happenings, width, UNICODE) == expected
