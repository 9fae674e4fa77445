"""The picture of a run: every request's latency over time, as SVG.

One panel for each client on the same two scales: the second at which a request was sent, and how
long its caller waited (logarithmic). `draw` has httpx on the left and outlast on the right;
`draw_ways` has one client, each way to use connections beside the other. Errors are crosses at the
time they took, hung requests triangles at the time they had waited. Pure: from a run to text.
Colours follow the viewer's light or dark scheme.

Source: SVG 2 paths; a zero-length segment with round caps is a dot, which takes a tenth of the
bytes of a circle element.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from xml.sax.saxutils import escape

from outlast.cli.figures import duration, figures
from outlast.cli.record import Happening, Outcome, Run, Sample, Series
from outlast.testing.drawing import GROUND, sheet, style, text

__all__ = ["draw", "draw_ways"]

WIDTH = 1200
PANEL_WIDTH, PANEL_HEIGHT = 516, 250
LEFT, TOP = 68, 148
GAP, ROW = 70, 350  # between columns; from one row of panels to the next
LOWEST, HIGHEST = 0.0002, 30.0  # seconds; what lies outside is drawn on the edge
DECADES = (0.001, 0.01, 0.1, 1.0, 10.0)
TICKS = (1, 2, 5, 10, 20, 50)

_COLOURS = {  # class: what it colours, in the light scheme, in the dark one
    **GROUND,
    "outage": ("fill", "#cf222e", "#ff7b72"),
    "httpx": ("stroke", "#9a6700", "#d29922"),
    "outlast": ("stroke", "#0969da", "#4493f8"),
}
_SHAPES = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
.title { font-size: 22px; font-weight: 600 }
.name { font-size: 16px; font-weight: 600 }
.way { font-size: 14px; font-weight: 400 }
.outage { opacity: .06 }
.grid { stroke-width: 1; fill: none }
.event { stroke-width: 1.2; stroke-dasharray: 4 3 }
.httpx, .outlast { stroke-width: 3.6; stroke-linecap: round; opacity: .6; fill: none }
.error { stroke-width: 1.8; stroke-linecap: round; fill: none }
"""
_DARK = ".httpx, .outlast { opacity: .85 }\n"


def draw(run: Run) -> str:
    """The whole picture, as the text of an SVG file."""
    rows = list(dict.fromkeys(series.connections for series in run.series))
    cells = [(s, s.library == "outlast", rows.index(s.connections)) for s in run.series]
    title = "A node dies behind a Service: every request, and how long it took"
    answered = (("httpx", "answered (httpx)"), ("outlast", "answered (outlast)"))
    return _sheet(run, title, cells, answered)


def draw_ways(run: Run) -> str:
    """The picture of one client, whose ways are the run's series. Dots that would lie on each
    other are one, so that the file stays small.
    """
    client = run.series[0]
    cells = [(series, bool(place % 2), place // 2) for place, series in enumerate(run.series)]
    title = f"{client.library}: a node dies behind a Service"
    return _sheet(run, title, cells, ((_kind(client), "answered"),), grain=2)


def _sheet(
    run: Run,
    title: str,
    cells: Sequence[tuple[Series, bool, int]],  # a client, whether on the right, and its row
    answered: Sequence[tuple[str, str]],
    grain: int = 0,
) -> str:
    """Headings, panels and legend."""
    height = TOP + ROW * (1 + max(row for _, _, row in cells)) - 22
    parts = [
        text(LEFT, 40, title, "title"),
        text(LEFT, 64, run.load, "muted"),
        text(LEFT, 82, f"on {run.where}", "muted"),
    ]
    for series, right, row in cells:
        x = LEFT + (PANEL_WIDTH + GAP) * right
        parts += _panel(series, run, (x, TOP + ROW * row), grain)
    parts += _legend(height - 14, answered)
    name = "A node dies behind a Service: every request's latency over time"
    styles = style(_COLOURS, _SHAPES, _DARK)
    return sheet((WIDTH, height), name, _spoken(run), styles, parts)


def _kind(series: Series) -> str:
    """The class that colours its dots."""
    return "outlast" if series.library.startswith("outlast") else "httpx"


def _spoken(run: Run) -> str:
    """The picture in words."""
    events = "; ".join(f"{happening.what} at {happening.at:.1f} s" for happening in run.happenings)
    return f"{events}. " + " ".join(
        f"{series.name} connections: {_sum(series.samples)[0]}." for series in run.series
    )


# -- one panel -------------------------------------------------------------------------------


def _panel(series: Series, run: Run, at: tuple[float, float], grain: int) -> Iterator[str]:
    """Everything about one client, with the panel's own corner as origin."""
    x, y = at
    ways = {"pooled": "pooled connections", "new": "a new connection for each request"}
    summary, bad = _sum(series.samples)
    yield f'<g transform="translate({x} {y})">'
    way = escape(ways.get(series.connections, series.connections))
    yield (
        f'<text class="text name" y="-30">{escape(series.library)}'
        f'<tspan class="muted way" dx="8">{way}</tspan></text>'
    )
    yield text(0, -11, summary, "bad" if bad else "text")
    yield f'<rect class="panel" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}" rx="4"/>'
    yield from _scales(run.seconds)
    yield from _events(run.happenings, run.seconds)
    yield from _requests(series, run.seconds, grain)
    yield "</g>"


def _sum(samples: Sequence[Sample]) -> tuple[str, bool]:
    """The panel's heading, and whether it is bad news."""
    found = figures(samples)
    errors = f"{found.errors} error{'' if found.errors == 1 else 's'}"
    hung = f" and {found.hung} hung" if found.hung else ""
    tail = (
        f"p50 {duration(found.p50)}, p99 {duration(found.p99)}, slowest {duration(found.slowest)}"
    )
    return f"{errors}{hung} in {found.requests} requests; {tail}", bool(found.errors or found.hung)


def _scales(seconds: float) -> Iterator[str]:
    for decade in DECADES:
        height = _y(decade)
        yield f'<path class="grid" d="M0 {height:.1f}H{PANEL_WIDTH}"/>'
        yield text(-8, height + 4, _scale_name(decade), "muted", anchor="end")
    step = next((tick for tick in TICKS if seconds / tick <= 10), TICKS[-1])
    for second in range(0, int(seconds) + 1, step):
        place = _x(second, seconds)
        yield f'<path class="grid" d="M{place:.1f} {PANEL_HEIGHT}v5"/>'
        yield text(place, PANEL_HEIGHT + 20, f"{second} s", "muted", anchor="middle")


def _scale_name(value: float) -> str:
    return f"{value:g} s" if value >= 1 else f"{value * 1e3:g} ms"


def _events(happenings: Sequence[Happening], seconds: float) -> Iterator[str]:
    """Vertical lines; the time from the first to the second, or to the end, is shaded."""
    if happenings:
        start = _x(happenings[0].at, seconds)
        end = _x(happenings[1].at, seconds) if len(happenings) > 1 else PANEL_WIDTH
        yield (
            f'<rect class="outage" x="{start:.1f}" width="{end - start:.1f}"'
            f' height="{PANEL_HEIGHT}"/>'
        )
    for happening in happenings:
        place = _x(happening.at, seconds)
        late = place > PANEL_WIDTH / 2
        yield f'<path class="event" d="M{place:.1f} 0V{PANEL_HEIGHT}"/>'
        label = place - 6 if late else place + 6
        yield text(label, 15, happening.what, "muted", anchor="end" if late else "start")


def _requests(series: Series, seconds: float, grain: int) -> Iterator[str]:
    by_outcome: dict[Outcome, list[Sample]] = {outcome: [] for outcome in Outcome}
    for sample in series.samples:
        by_outcome[sample.outcome].append(sample)
    dot = "M{x:.0f} {y:.0f}h0" if grain else "M{x:.1f} {y:.1f}h0"
    yield _marks(_kind(series), dot, by_outcome[Outcome.OK], seconds, grain)
    cross = "M{x:.1f} {y:.1f}m-4-4l8 8m0-8l-8 8"
    yield _marks("error", cross, by_outcome[Outcome.ERROR], seconds)
    triangle = "M{x:.1f} {y:.1f}m0-5l5 9h-10z"
    yield _marks("error", triangle, by_outcome[Outcome.HUNG], seconds)


def _marks(kind: str, shape: str, samples: Iterable[Sample], seconds: float, grain: int = 0) -> str:
    """One path for all of them. With a grain, one mark in each square of so many pixels."""
    places = [(_x(sample.begun, seconds), _y(sample.took)) for sample in samples]
    if grain:
        near = ((round(x / grain) * grain, round(y / grain) * grain) for x, y in places)
        places = list(dict.fromkeys(near))
    path = "".join(shape.format(x=x, y=y) for x, y in places)
    return f'<path class="{kind}" d="{path}"/>' if path else ""


def _x(moment: float, seconds: float) -> float:
    return min(moment / seconds, 1.0) * PANEL_WIDTH


def _y(took: float) -> float:
    part = math.log(min(max(took, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return (1 - part) * PANEL_HEIGHT


# -- texts -----------------------------------------------------------------------------------


def _legend(y: float, answered: Sequence[tuple[str, str]]) -> Iterator[str]:
    """What the marks mean, along the lower edge."""
    entries = (
        *((kind, "h0", words) for kind, words in answered),
        ("error", "m-4-4l8 8m0-8l-8 8", "error, after so long"),
        ("error", "m0-5l5 9h-10z", "hung: no answer by the end"),
    )
    x = float(LEFT)
    for kind, shape, words in entries:
        yield f'<path class="{kind}" d="M{x + 5:.0f} {y - 4:.0f}{shape}"/>'
        yield text(x + 16, y, words, "muted")
        x += 46 + 7 * len(words)
    yield text(WIDTH - 30, y, "across: when it was sent; upwards: how long it took", "muted", "end")
