"""What is shown on the terminal while the table comes about: runs that are over, runs that work."""

from __future__ import annotations

import threading
import time

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from benchmarks.incident.one_run import Order
from benchmarks.incident.runs import Counts, Record
from outlast.cli.figures import duration, figures

__all__ = ["Progress"]


class Progress:
    """A context manager, and a `Watcher`. On a terminal the runs at work have a line each."""

    def __init__(self, console: Console, names: dict[str, str], total: int) -> None:
        self._console = console
        self._names = names
        self._total = total
        self._over = 0
        self._began = time.monotonic()
        self._working: dict[tuple[str, str], Text] = {}
        self._lock = threading.Lock()
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._moves = console.is_terminal and not console.is_dumb_terminal

    def __enter__(self) -> Progress:
        if self._moves:
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def __call__(self, order: Order, told: Counts | Record | None) -> None:
        """A run has started, has got on, or is over."""
        run = (order.row, order.way)
        name = f"{self._names[order.row]}, {order.way}"
        with self._lock:
            if told is None:
                self._working[run] = Text(f"  {name:<46} starting")
            elif isinstance(told, Counts):
                self._working[run] = Text(
                    f"  {name:<46} {told.at:4.0f} s of {order.until:.0f}  {told.calls:5} calls"
                    f"  {told.errors:3} errors  {told.slow:3} over 100 ms  {told.waiting} waiting"
                )
            else:
                self._working.pop(run, None)
                self._over += 1
                self._console.print(self._line(name, told), soft_wrap=True)
            self._show()

    def _show(self) -> None:
        if self._moves:
            minutes = (time.monotonic() - self._began) / 60
            head = Text(f"{self._over} of {self._total} runs, {minutes:.0f} min", style="dim")
            self._live.update(Group(head, *self._working.values()), refresh=True)

    def _line(self, name: str, record: Record) -> Text:
        number = f"{self._over:>2}/{self._total}"
        if record.failure:
            last = record.failure.splitlines()[-1]
            return Text(f"{number} {name:<46} FAILED: {last}", style="bold red")
        found = figures(record.samples)
        return Text(
            f"{number} {name:<46} {found.requests:5} calls  {found.errors:3} errors  "
            f"{found.hung:2} hung  p99 {duration(found.p99):>6}  "
            f"slowest {duration(found.slowest):>6}  {found.slow:4} over 100 ms"
        )
