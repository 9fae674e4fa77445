"""Bars: what a request costs each client, one panel for each number of requests at once.

Pure: from rows to the text of an SVG file. Every panel has its own scale, from nothing; each bar
carries its figure. Colours follow the viewer's light or dark scheme. Source: SVG 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

__all__ = ["Panel", "draw"]

WIDTH = 1200
COLUMNS = 3
NAMES, BARS, FIGURES, GAP = 108, 186, 62, 24  # across a panel; and between two
LINE = 22  # from bar to bar
TOP, HEAD, FOOT = 92, 34, 22

_COLOURS = {  # class: in the light scheme, in the dark one
    "ground": ("#ffffff", "#0d1117"),
    "text": ("#1f2328", "#e6edf3"),
    "muted": ("#59636e", "#9198a1"),
    "other": ("#c8d1da", "#3d444d"),
    "httpx": ("#d4a72c", "#9e6a03"),
    "outlast": ("#0969da", "#4493f8"),
}
_TYPE = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
.title { font-size: 22px; font-weight: 600 }
.name { font-size: 15px; font-weight: 600 }
"""


@dataclass(frozen=True, slots=True)
class Panel:
    """Some bars: `name`, length, and the figure beside it."""

    title: str
    bars: Sequence[tuple[str, float, str]]


def draw(title: str, under: str, panels: Sequence[Panel]) -> str:
    """The whole picture."""
    lines = max((len(panel.bars) for panel in panels), default=0)
    high = HEAD + lines * LINE + FOOT
    height = TOP + high * -(-len(panels) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(_spoken(panels))}</desc>",
        f"<style>\n{_style()}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
        f'<text class="text title" x="24" y="40">{escape(title)}</text>',
        f'<text class="muted" x="24" y="64">{escape(under)}</text>',
    ]
    for number, panel in enumerate(panels):
        row, column = divmod(number, COLUMNS)
        x = 24 + column * (NAMES + BARS + FIGURES + GAP)
        parts += _panel(panel, x, TOP + row * high)
    return "\n".join([*parts, "</svg>\n"])


def _style() -> str:
    def scheme(which: int) -> str:
        return "".join(f".{name} {{ fill: {pair[which]} }}\n" for name, pair in _COLOURS.items())

    return f"{_TYPE}{scheme(0)}@media (prefers-color-scheme: dark) {{\n{scheme(1)}}}\n"


def _spoken(panels: Sequence[Panel]) -> str:
    """The picture in words."""
    return " ".join(
        f"{panel.title}: " + ", ".join(f"{name} {figure}" for name, _, figure in panel.bars) + "."
        for panel in panels
    )


def _panel(panel: Panel, x: float, y: float) -> Iterator[str]:
    yield f'<g transform="translate({x} {y})">'
    yield f'<text class="text name" y="16">{escape(panel.title)}</text>'
    longest = max((length for _, length, _ in panel.bars), default=0.0) or 1.0
    for number, (name, length, figure) in enumerate(panel.bars):
        top = HEAD + number * LINE
        kind = name if name in _COLOURS else "other"
        kind = "outlast" if name.startswith("outlast") else kind
        wide = max(1.0, BARS * length / longest)
        yield f'<text class="muted" x="{NAMES - 8}" y="{top + 4}" text-anchor="end">{name}</text>'
        yield (
            f'<rect class="{kind}" x="{NAMES}" y="{top - 8}" width="{wide:.1f}"'
            f' height="16" rx="2"/>'
        )
        yield f'<text class="text" x="{NAMES + wide + 6:.1f}" y="{top + 4}">{figure}</text>'
    yield "</g>"
