"""The documentation as tests read it: blocks, headings, links and table rows of each page."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRINTS = "<!-- prints -->"  # the text block that follows is what the block before it prints

_FENCE = re.compile(r"^```(.*)$")
_LINK = re.compile(r"\]\(([^()\s]+)\)|<img[^>]* src=\"([^\"]+)\"")


@dataclass(frozen=True)
class Block:
    """A fenced block: its info string, the page's line of its first line, and its text."""

    info: str
    line: int
    text: str
    prints: str | None = None


@dataclass(frozen=True)
class Page:
    """One Markdown file."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    def blocks(self, info: str) -> list[Block]:
        """The blocks with this info string, in order, with what they are said to print."""
        found: list[Block] = []
        fenced, told = list(_fenced(self.text)), self.text.splitlines()
        for number, block in enumerate(fenced):
            after = fenced[number + 1] if number + 1 < len(fenced) else None
            said = after is not None and told[after.line - 3] == PRINTS
            if block.info == info:
                prints = after.text if after is not None and said else None
                found.append(Block(block.info, block.line, block.text, prints))
        return found

    @functools.cached_property
    def prose(self) -> str:
        """The text without fenced blocks."""
        lines = self.text.splitlines()
        for block in _fenced(self.text):
            for line in range(block.line - 2, block.line - 1 + block.text.count("\n")):
                lines[line] = ""
        return "\n".join(lines)

    def anchors(self) -> set[str]:
        """Where links into this page may lead."""
        return {slug(line.lstrip("# ")) for line in self.prose.splitlines() if line[:1] == "#"}

    def links(self) -> Iterator[str]:
        """Where links out of it lead."""
        for match in _LINK.finditer(self.prose):
            yield match[1] or match[2]

    def rows(self) -> Iterator[list[str]]:
        """The cells of every table row."""
        for line in self.prose.splitlines():
            if line.startswith("| "):
                yield [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def pages() -> list[Page]:
    """README.md and everything in docs/."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [Page(path, path.read_text(encoding="utf-8")) for path in paths]


def page(name: str) -> Page:
    """One page by its path in the repository."""
    return next(page for page in pages() if page.name == name)


def slug(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _fenced(text: str) -> Iterator[Block]:
    info, start, lines = "", 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and not start:
            info, start, lines = fence[1].strip(), number + 1, []
        elif fence:
            yield Block(info, start, "".join(f"{one}\n" for one in lines))
            start = 0
        elif start:
            lines.append(line)
