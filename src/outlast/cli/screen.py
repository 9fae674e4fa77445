"""The demo on the terminal: progress while it runs, then the time line, the figures, two stories.

A terminal gets a time line that grows; anything else gets a plain line every five seconds. Both get
the same account at the end. Decides nothing: what is shown comes from `timeline` and `figures`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from outlast.cli import timeline
from outlast.cli.figures import Figures, duration, figures, kinds
from outlast.cli.record import Happening, Run, Series
from outlast.cli.timeline import Cell, Glyphs

__all__ = ["Progress", "account"]

_LABEL = 17  # characters before the time line
_REFRESH = 0.5  # seconds; drawing takes the processor from the clients
_LINE_EVERY = 5  # seconds, where there is no terminal


class Progress:
    """What is shown while the load runs."""

    def __init__(
        self,
        console: Console,
        clients: Sequence[Series],
        happenings: Sequence[Happening],
        seconds: float,
    ) -> None:
        self._console = console
        self._clients = clients
        self._happenings = happenings
        self._seconds = seconds

    def follow(self, work: Sequence[Future[None]], clock: Callable[[], float]) -> None:
        """Show it until all work is done, or some of it has failed."""
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._follow_live(work, clock)
        else:
            self._follow_plainly(work, clock)

    def _follow_live(self, work: Sequence[Future[None]], clock: Callable[[], float]) -> None:
        def frame() -> Group:
            # Whole seconds: one that has just begun would look like an outage.
            now = math.floor(clock())
            seen = (self._clients, self._happenings, now, self._seconds)
            return Group(*_time_line(self._console, *seen), Text(), _counts(self._clients))

        with Live(frame(), console=self._console, auto_refresh=False, transient=True) as live:
            while _going_on(work):
                live.update(frame(), refresh=True)

    def _follow_plainly(self, work: Sequence[Future[None]], clock: Callable[[], float]) -> None:
        self._line("answered/over 100 ms/errors so far:")
        self._line("  time  " + "".join(f"{series.name:<18}" for series in self._clients))
        told, due = 0, _LINE_EVERY
        while _going_on(work):
            for happening in self._happenings[told:]:
                self._line(f"{happening.at:4.0f} s  -- {happening.what} --")
                told += 1
            if clock() >= due:
                totals = [_total(series) for series in self._clients]
                counts = [f"{total.ok}/{total.slow}/{total.errors}" for total in totals]
                self._line(f"{due:4} s  " + "".join(f"{count:<18}" for count in counts))
                due += _LINE_EVERY
        self._line("")

    def _line(self, text: str) -> None:
        self._console.print(Text(text.rstrip()), soft_wrap=True)


def _going_on(work: Sequence[Future[None]]) -> bool:
    """Wait a moment; False when all is done, or something has failed."""
    done, open_ = wait(work, _REFRESH, FIRST_EXCEPTION)
    return bool(open_) and not any(one.exception() for one in done)


def account(console: Console, run: Run) -> None:
    """Everything about a run that is over."""
    for line in _time_line(console, run.series, run.happenings, run.length, run.seconds):
        console.print(line, no_wrap=True, crop=False)
    console.print(_key(console), style="dim")
    console.print()
    console.print(_summary(run.series))
    for series in run.series:
        if said := kinds(series.samples):
            console.print(f"errors of {series.name}: {said}")
    _stories(console, run.series)


# -- the time line ---------------------------------------------------------------------------


def _time_line(
    console: Console,
    clients: Sequence[Series],
    happenings: Sequence[Happening],
    now: float,
    seconds: float,
) -> list[Text]:
    glyphs = timeline.ASCII if console.options.ascii_only else timeline.UNICODE
    room = console.width - _LABEL - 2
    width = timeline.per_cell(max(now, seconds), room)
    rows = [timeline.cells(series.samples, now, width) for series in clients]
    most = max((cell.ok for row in rows for cell in row), default=0)
    events = timeline.ruler(happenings, width, glyphs)
    end = math.ceil(seconds / width)
    return [
        _labelled("", Text(timeline.axis(seconds, width), style="dim")),
        *(_labelled("", Text(line, style="bold")) for line in events),
        *(
            _labelled(series.name, _bar(row, most, glyphs, end))
            for series, row in zip(clients, rows, strict=True)
        ),
    ]


def _labelled(label: str, line: Text) -> Text:
    return Text(label.ljust(_LABEL), no_wrap=True).append_text(line)


def _bar(row: Sequence[Cell], most: int, glyphs: Glyphs, end: int) -> Text:
    """The cells as characters. After the load's end only errors count: nobody asks any more."""
    bar = Text()
    for place, cell in enumerate(row):
        if place < end or cell.errors:
            bar.append(timeline.glyph(cell, most, glyphs), style=_colour(cell))
        else:
            bar.append(" ")
    return bar


def _colour(cell: Cell) -> str:
    if cell.errors:
        return "bold red"
    if cell.slow:
        return "yellow"
    return "green" if cell.ok else "dim"


def _key(console: Console) -> str:
    """What the characters mean."""
    glyphs = timeline.ASCII if console.options.ascii_only else timeline.UNICODE
    high, nothing = glyphs.levels[-1], glyphs.nothing
    colours = " (yellow: some over 100 ms)" if console.color_system and not console.no_color else ""
    return f"{high} answers per second{colours}   1-9 errors   {nothing!r} nothing came"


# -- figures ---------------------------------------------------------------------------------


def _total(series: Series) -> Cell:
    """All that ended so far."""
    found = timeline.cells(series.samples, float("1e6"), int(1e6))
    return found[0]


def _counts(clients: Sequence[Series]) -> Table:
    """The counts under the growing time line."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("so far", width=_LABEL - 1)
    for head in ("answered", "over 100 ms", "errors", "waiting now"):
        table.add_column(head, justify="right")
    for series in clients:
        total = _total(series)
        errors = Text(str(total.errors), style="bold red" if total.errors else "")
        table.add_row(series.name, str(total.ok), str(total.slow), errors, str(series.waiting))
    return table


def _summary(clients: Sequence[Series]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("client", no_wrap=True)
    for head in ("requests", "errors", "hung", "p50", "p99", "slowest", "over 100 ms"):
        table.add_column(head, justify="right", no_wrap=True)
    for series in clients:
        table.add_row(Text(series.name), *_cells_of(figures(series.samples)))
    return table


def _cells_of(found: Figures) -> list[Text]:
    times = (duration(found.p50), duration(found.p99), duration(found.slowest))
    return [
        Text(str(found.requests)),
        Text(str(found.errors), style="bold red" if found.errors else "bold green"),
        Text(str(found.hung), style="bold red" if found.hung else "bold green"),
        *(Text(time) for time in times),
        Text(str(found.slow)),
    ]


# -- stories ---------------------------------------------------------------------------------


def _stories(console: Console, clients: Sequence[Series]) -> None:
    """One error of plain httpx, and the time line of outlast's slowest request."""
    errors = [(s, s.first_error) for s in clients if s.library == "httpx" and s.first_error]
    for series, story in errors[:1]:
        sample = story.sample
        head = f"an error of {series.name}, sent at {sample.begun:.1f} s"
        _tell(console, f"{head}, after {duration(sample.took)}, in full:", story.text)
    slowest = [(s, s.slowest) for s in clients if s.library == "outlast" and s.slowest]
    for series, story in sorted(slowest, key=lambda pair: -pair[1].sample.took)[:1]:
        sample = story.sample
        head = f"the slowest request of {series.name}, sent at {sample.begun:.1f} s"
        _tell(console, f"{head}, took {duration(sample.took)}; its report:", story.text)


def _tell(console: Console, head: str, text: str) -> None:
    console.print()
    console.print(Text(head, style="bold"))
    console.print(Text(text), soft_wrap=True)
