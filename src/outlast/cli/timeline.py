"""The time line: one character per second and client, under a ruler with the events.

A character's height says how many answers came in that second; a digit, how many errors; a dot,
that nothing came. Pure: from samples to text. A request counts in the second in which it ended,
since its caller learns nothing before. Where the terminal is narrow a character stands for several
seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outlast.cli.record import Happening, Outcome, Sample

__all__ = ["ASCII", "UNICODE", "Cell", "Glyphs", "axis", "cells", "glyph", "per_cell", "ruler"]

_TICKS = (5, 10, 20, 50, 100)  # seconds between the numbers of the axis
_TICK_ROOM = 5  # characters that a number and its gap take


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters to draw with."""

    levels: str
    nothing: str
    event: str


UNICODE = Glyphs("▁▂▃▄▅▆▇", "·", "▼")
ASCII = Glyphs(".:-=+*#", "_", "v")


@dataclass(frozen=True, slots=True)
class Cell:
    """What ended in one stretch of time."""

    ok: int = 0
    slow: int = 0  # answers that took more than 100 ms; they are among `ok`
    errors: int = 0


def per_cell(seconds: float, room: int) -> int:
    """How many seconds a character stands for, so that the line fits into `room` characters."""
    return max(1, math.ceil(seconds / max(1, room)))


def cells(samples: Iterable[Sample], until: float, width: int = 1) -> list[Cell]:
    """Count what ended, in stretches of `width` seconds from 0 to `until`."""
    ok, slow, errors = ([0] * math.ceil(until / width) for _ in range(3))
    for sample in samples:
        place = int(sample.ended // width)
        if sample.outcome is Outcome.HUNG or place >= len(ok):
            continue
        if sample.outcome is Outcome.ERROR:
            errors[place] += 1
        else:
            ok[place] += 1
            slow[place] += sample.slow
    return [Cell(*counts) for counts in zip(ok, slow, errors, strict=True)]


def glyph(cell: Cell, most: int, glyphs: Glyphs) -> str:
    """One character for a stretch, where the busiest stretch of all has `most` answers."""
    if cell.errors:
        return str(cell.errors) if cell.errors < 10 else "9"
    if not cell.ok:
        return glyphs.nothing
    level = math.ceil(cell.ok / max(most, cell.ok) * len(glyphs.levels))
    return glyphs.levels[level - 1]


def axis(seconds: float, width: int = 1) -> str:
    """The line of numbers: seconds, each above the character where they begin."""
    step = next((s for s in _TICKS if s >= _TICK_ROOM * width), _TICKS[-1] * width)
    line = ""
    for second in range(0, math.ceil(seconds) + 1, step):
        line = line.ljust(second // width) + str(second)
    return f"{line} s"


def ruler(happenings: Sequence[Happening], width: int, glyphs: Glyphs) -> list[str]:
    """The events, each with a mark above the character it falls into; more lines if they meet."""
    lines: list[str] = []
    for happening in happenings:
        text = f"{glyphs.event} {happening.what}"
        place = int(happening.at // width)
        for number, line in enumerate(lines):
            if len(line) < place:
                lines[number] = line.ljust(place) + text
                break
        else:
            lines.append(" " * place + text)
    return lines
