"""The picture of a run: every request's latency over time, as SVG.

One panel for each client, httpx on the left and outlast on the right, on the same two scales: the
second at which a request was sent, and how long its caller waited (logarithmic). Errors are
crosses at the time they took, hung requests triangles at the time they had waited. Pure: from a
run to text. Colours follow the viewer's light or dark scheme.

Source: SVG 2 paths; a zero-length segment with round caps is a dot, which takes a tenth of the
bytes of a circle element.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from xml.sax.saxutils import escape

from outlast.cli.figures import duration, figures
from outlast.cli.record import Happening, Outcome, Run, Sample, Series

__all__ = ["draw"]

WIDTH = 1200
PANEL_WIDTH, PANEL_HEIGHT = 516, 250
LEFT, TOP = 68, 148
GAP, ROW = 70, 350  # between columns; from one row of panels to the next
LOWEST, HIGHEST = 0.0002, 30.0  # seconds; what lies outside is drawn on the edge
DECADES = (0.001, 0.01, 0.1, 1.0, 10.0)
TICKS = (1, 2, 5, 10, 20, 50)

_COLOURS = {  # class: what it colours, in the light scheme, in the dark one
    "ground": ("fill", "#ffffff", "#0d1117"),
    "panel": ("fill", "#f6f8fa", "#161b22"),
    "outage": ("fill", "#cf222e", "#ff7b72"),
    "text": ("fill", "#1f2328", "#e6edf3"),
    "muted": ("fill", "#59636e", "#9198a1"),
    "bad": ("fill", "#cf222e", "#ff7b72"),
    "grid": ("stroke", "#d1d9e0", "#30363d"),
    "event": ("stroke", "#59636e", "#9198a1"),
    "httpx": ("stroke", "#9a6700", "#d29922"),
    "outlast": ("stroke", "#0969da", "#4493f8"),
    "error": ("stroke", "#cf222e", "#ff7b72"),
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
    height = TOP + ROW * len(rows) - 22
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>A node dies behind a Service: every request's latency over time</title>",
        f"<desc>{escape(_spoken(run))}</desc>",
        f"<style>\n{_style()}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
        _text(
            LEFT, 40, "A node dies behind a Service: every request, and how long it took", "title"
        ),
        _text(LEFT, 64, run.load, "muted"),
        _text(LEFT, 82, f"on {run.where}", "muted"),
    ]
    for series in run.series:
        x = LEFT + (PANEL_WIDTH + GAP) * (series.library == "outlast")
        parts += _panel(series, run, x, TOP + ROW * rows.index(series.connections))
    parts += _legend(height - 14)
    return "\n".join([*parts, "</svg>\n"])


def _style() -> str:
    light = "".join(f".{name} {{ {what}: {a} }}\n" for name, (what, a, _) in _COLOURS.items())
    dark = "".join(f".{name} {{ {what}: {b} }}\n" for name, (what, _, b) in _COLOURS.items())
    return f"{_SHAPES}{light}@media (prefers-color-scheme: dark) {{\n{_DARK}{dark}}}\n"


def _spoken(run: Run) -> str:
    """The picture in words."""
    events = "; ".join(f"{happening.what} at {happening.at:.1f} s" for happening in run.happenings)
    return f"{events}. " + " ".join(
        f"{series.name} connections: {_sum(series.samples)[0]}." for series in run.series
    )


# -- one panel -------------------------------------------------------------------------------


def _panel(series: Series, run: Run, x: float, y: float) -> Iterator[str]:
    """Everything about one client, with the panel's own corner as origin."""
    ways = {"pooled": "pooled connections", "new": "a new connection for each request"}
    summary, bad = _sum(series.samples)
    yield f'<g transform="translate({x} {y})">'
    way = escape(ways.get(series.connections, series.connections))
    yield (
        f'<text class="text name" y="-30">{escape(series.library)}'
        f'<tspan class="muted way" dx="8">{way}</tspan></text>'
    )
    yield _text(0, -11, summary, "bad" if bad else "text")
    yield f'<rect class="panel" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}" rx="4"/>'
    yield from _scales(run.seconds)
    yield from _events(run.happenings, run.seconds)
    yield from _requests(series, run.seconds)
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
        yield _text(-8, height + 4, _scale_name(decade), "muted", anchor="end")
    step = next((tick for tick in TICKS if seconds / tick <= 10), TICKS[-1])
    for second in range(0, int(seconds) + 1, step):
        place = _x(second, seconds)
        yield f'<path class="grid" d="M{place:.1f} {PANEL_HEIGHT}v5"/>'
        yield _text(place, PANEL_HEIGHT + 20, f"{second} s", "muted", anchor="middle")


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
        yield _text(label, 15, happening.what, "muted", anchor="end" if late else "start")


def _requests(series: Series, seconds: float) -> Iterator[str]:
    by_outcome: dict[Outcome, list[Sample]] = {outcome: [] for outcome in Outcome}
    for sample in series.samples:
        by_outcome[sample.outcome].append(sample)
    yield _marks(series.library, "M{x:.1f} {y:.1f}h0", by_outcome[Outcome.OK], seconds)
    cross = "M{x:.1f} {y:.1f}m-4-4l8 8m0-8l-8 8"
    yield _marks("error", cross, by_outcome[Outcome.ERROR], seconds)
    triangle = "M{x:.1f} {y:.1f}m0-5l5 9h-10z"
    yield _marks("error", triangle, by_outcome[Outcome.HUNG], seconds)


def _marks(kind: str, shape: str, samples: Iterable[Sample], seconds: float) -> str:
    path = "".join(shape.format(x=_x(s.begun, seconds), y=_y(s.took)) for s in samples)
    return f'<path class="{kind}" d="{path}"/>' if path else ""


def _x(moment: float, seconds: float) -> float:
    return min(moment / seconds, 1.0) * PANEL_WIDTH


def _y(took: float) -> float:
    part = math.log(min(max(took, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return (1 - part) * PANEL_HEIGHT


# -- texts -----------------------------------------------------------------------------------


def _legend(y: float) -> Iterator[str]:
    """What the marks mean, along the lower edge."""
    entries = (
        ("httpx", "h0", "answered (httpx)"),
        ("outlast", "h0", "answered (outlast)"),
        ("error", "m-4-4l8 8m0-8l-8 8", "error, after so long"),
        ("error", "m0-5l5 9h-10z", "hung: no answer by the end"),
    )
    x = float(LEFT)
    for kind, shape, words in entries:
        yield f'<path class="{kind}" d="M{x + 5:.0f} {y - 4:.0f}{shape}"/>'
        yield _text(x + 16, y, words, "muted")
        x += 46 + 7 * len(words)
    yield _text(
        WIDTH - 30, y, "across: when it was sent; upwards: how long it took", "muted", "end"
    )


def _text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    where = f'x="{x:.1f}" y="{y:.1f}"' + ("" if anchor == "start" else f' text-anchor="{anchor}"')
    style = "text title" if kind == "title" else kind
    return f'<text class="{style}" {where}>{escape(words)}</text>'
