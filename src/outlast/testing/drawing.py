"""The words of our SVG pictures: a sheet, its colours in both schemes, text.

Used by the simulated network's time line and by the demo's picture. Pure. Colours follow the
viewer's light or dark scheme. Source: SVG 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from xml.sax.saxutils import escape

__all__ = ["GROUND", "sheet", "style", "text"]

# Class: what it colours, in the light scheme, in the dark one.
GROUND: Mapping[str, tuple[str, str, str]] = {
    "ground": ("fill", "#ffffff", "#0d1117"),
    "panel": ("fill", "#f6f8fa", "#161b22"),
    "text": ("fill", "#1f2328", "#e6edf3"),
    "muted": ("fill", "#59636e", "#9198a1"),
    "bad": ("fill", "#cf222e", "#ff7b72"),
    "grid": ("stroke", "#d1d9e0", "#30363d"),
    "event": ("stroke", "#59636e", "#9198a1"),
    "error": ("stroke", "#cf222e", "#ff7b72"),
}


def style(colours: Mapping[str, tuple[str, str, str]], shapes: str, dark_shapes: str = "") -> str:
    """A style sheet of both schemes."""
    light = "".join(f".{name} {{ {what}: {a} }}\n" for name, (what, a, _) in colours.items())
    dark = "".join(f".{name} {{ {what}: {b} }}\n" for name, (what, _, b) in colours.items())
    return f"{shapes}{light}@media (prefers-color-scheme: dark) {{\n{dark_shapes}{dark}}}\n"


def sheet(
    size: tuple[float, float], title: str, spoken: str, styles: str, parts: Iterable[str]
) -> str:
    """A whole SVG file. `spoken`: the picture in words."""
    width, height = size
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(spoken)}</desc>",
            f"<style>\n{styles}</style>",
            f'<rect class="ground" width="{width}" height="{height}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    """A line of text."""
    where = f'x="{x:.1f}" y="{y:.1f}"' + ("" if anchor == "start" else f' text-anchor="{anchor}"')
    styled = "text title" if kind == "title" else kind
    return f'<text class="{styled}" {where}>{escape(words)}</text>'
