"""What happened in a run: one line for each event, and the same as a picture.

A line has the virtual second, who it is about, and what happened: `0.701400  w1/dial-2
ESTABLISHED`. Connections go by the name of the dial that made them, and by that name with ` at a`
at their far end on node a. The same seed gives the same lines, byte for byte.

The picture has a row for each worker, with a bar for each of its dials, and a row for each pod,
with a mark for each request that it applied. Source: SVG 2. Refuses to draw what it was not told.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from outlast.testing.drawing import GROUND, sheet, style, text
from outlast.testing.simnet.rules import SECOND
from outlast.testing.simnet.timeline import Timeline

__all__ = ["APPLIES", "DIALS", "WORLD", "Transcript", "draw"]

WORLD = "world"  # who faults are told of
DIALS = "dials"  # the first word of a dial's first line
APPLIES = "applies"  # the first word of a pod's line for each request
_SENDS = " sends <"

WIDTH, LEFT, RIGHT, TOP = 1200, 190, 30, 96
ROW, BAR = 34, 7
_COLOURS = {
    **GROUND,
    "making": ("stroke", "#9a6700", "#d29922"),
    "stands": ("stroke", "#0969da", "#4493f8"),
    "doubted": ("stroke", "#cf222e", "#ff7b72"),
    "applied": ("stroke", "#1a7f37", "#3fb950"),
}
_SHAPES = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
.title { font-size: 20px; font-weight: 600 }
.grid { stroke-width: 1; fill: none }
.event { stroke-width: 1.2; stroke-dasharray: 4 3 }
.making, .stands, .doubted { stroke-width: 5; fill: none }
.applied { stroke-width: 2; fill: none }
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One event; `at` in microseconds."""

    at: int
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at / SECOND:12.6f}  {self.who:<24} {self.what}"


class Transcript:
    """The events of one network, from the moment it was made."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.lines: list[Line] = []

    def __call__(self, who: str, what: str) -> None:
        """Take an event down."""
        self.lines.append(Line(self._timeline.now, who, what))

    def text(self, *, packets: bool = True) -> str:
        """One line for each event; without those for single packets, if they are not wanted."""
        lines = (line for line in self.lines if packets or _SENDS not in line.what)
        return "".join(f"{line}\n" for line in lines)

    def __str__(self) -> str:
        return self.text()


# -- the picture ---------------------------------------------------------------------------


@dataclass(slots=True)
class _Bar:
    """One dial: when it began, stood, came into doubt, ended."""

    begun: int
    stood: int | None = None
    doubted: int | None = None
    ended: int | None = None


def draw(transcript: Transcript, title: str) -> str:
    """The whole run as the text of an SVG file."""
    lines = transcript.lines
    dials = _dials(lines)
    workers = list(dict.fromkeys(name.partition("/")[0] for name in dials))
    pods = list(dict.fromkeys(line.who for line in lines if line.what.startswith(APPLIES)))
    start, end = (lines[0].at, max(line.at for line in lines)) if lines else (0, 1)
    scale = _Scale(start, max(end, start + 1))
    height = TOP + ROW * (len(workers) + len(pods)) + 66
    bottom = height - 56
    parts = [text(LEFT, 36, title, "title"), *_axis(scale, bottom)]
    parts += _faults(scale, lines, bottom)
    rows = itertools.count()
    for worker in workers:
        mine = [bar for name, bar in dials.items() if name.partition("/")[0] == worker]
        parts += _worker(worker, mine, scale, TOP + ROW * next(rows))
    for pod in pods:
        parts += _pod(pod, lines, scale, TOP + ROW * next(rows))
    parts += _legend(height - 8)
    spoken = f"{len(dials)} dials of {len(workers)} workers, {len(pods)} pods"
    return sheet((WIDTH, height), title, spoken, style(_COLOURS, _SHAPES), parts)


class _Scale:
    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end

    def __call__(self, at: int) -> float:
        part = (at - self.start) / (self.end - self.start)
        return LEFT + part * (WIDTH - LEFT - RIGHT)


def _dials(lines: Iterable[Line]) -> dict[str, _Bar]:
    bars: dict[str, _Bar] = {}
    for line in lines:
        if line.what.startswith(DIALS):
            bars[line.who] = _Bar(line.at)
        bar = bars.get(line.who)
        if bar is None:
            continue
        if line.what == "ESTABLISHED":
            bar.stood = line.at
        elif line.what.startswith(("retransmits", "probes")) and bar.doubted is None:
            bar.doubted = line.at
        elif line.what.startswith(("ends", "closes", "aborts")):
            bar.ended = bar.ended or line.at
    return bars


def _axis(scale: _Scale, bottom: float) -> Iterator[str]:
    seconds = (scale.end - scale.start) / SECOND
    step = next((s for s in (0.1, 0.5, 1, 2, 5, 10, 20, 60, 300, 600) if seconds / s <= 12), 3600)
    for number in range(int(seconds / step) + 1):
        x = scale(scale.start + round(number * step * SECOND))
        yield f'<path class="grid" d="M{x:.1f} {TOP - 18}V{bottom}"/>'
        yield text(x, bottom + 18, f"{number * step:g} s", "muted", "middle")


def _faults(scale: _Scale, lines: Iterable[Line], bottom: float) -> Iterator[str]:
    heights = itertools.cycle((TOP - 42, TOP - 26))
    for line in lines:
        if line.who == WORLD:
            x = scale(line.at)
            yield f'<path class="event" d="M{x:.1f} {TOP - 20}V{bottom}"/>'
            late = x > WIDTH * 0.7
            yield text(x, next(heights), line.what, "muted", "end" if late else "start")


def _worker(name: str, bars: list[_Bar], scale: _Scale, y: float) -> Iterator[str]:
    yield text(LEFT - 12, y + 14, name, "text", "end")
    for number, bar in enumerate(bars):
        height = y + 5 + BAR * (number % 4)
        end = bar.ended or scale.end
        marks = [("making", bar.begun), ("stands", bar.stood), ("doubted", bar.doubted)]
        steps = [(kind, at) for kind, at in marks if at is not None and at <= end]
        for (kind, at), (_, until) in itertools.pairwise([*steps, ("", end)]):
            left = scale(at)
            right = max(scale(until), left + 1)
            yield f'<path class="{kind}" d="M{left:.1f} {height}H{right:.1f}"/>'


def _legend(y: float) -> Iterator[str]:
    """What the marks mean, along the lower edge."""
    entries = (
        ("making", "a dial"),
        ("stands", "a connection that stands"),
        ("doubted", "from its first retransmission or probe on"),
        ("applied", "a request that was applied"),
    )
    x = float(LEFT)
    for kind, words in entries:
        shape = "v-10" if kind == "applied" else "m-4-5h14"
        yield f'<path class="{kind}" d="M{x:.0f} {y}{shape}"/>'
        yield text(x + 18, y, words, "muted")
        x += 60 + 7 * len(words)


def _pod(name: str, lines: Iterable[Line], scale: _Scale, y: float) -> Iterator[str]:
    yield text(LEFT - 12, y + 14, name, "text", "end")
    mine = [line for line in lines if line.who == name and line.what.startswith(APPLIES)]
    path = "".join(f"M{scale(line.at):.1f} {y + 2}v16" for line in mine)
    yield f'<path class="applied" d="{path}"/>'
