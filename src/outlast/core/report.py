"""The time line of one call: every look-up, dial and request, and why it was or was not repeated.

The report rides on every exception as `.report` and on every response as
`extensions["outlast"]`. It is a record, never an input to a decision. Times are seconds since
the call began. Not thread-safe while the call runs; read-only afterwards.
"""

from __future__ import annotations

import errno as errno_names
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from outlast.core.classify import Progress

__all__ = ["Event", "Report", "report_of"]

MAX_EVENTS = 500  # a report must not grow with the length of an outage
FIRST_KEPT = 100  # of them from the beginning; the others are the last, which tell how it ended


class Event(NamedTuple):
    """One thing that happened.

    `at`: seconds since the call began. `attempt`: number of the request attempt, from 0.
    `phase`: "pool", "lookup", "connect", "handshake", "request", "response" or "decision".
    `address`: "host:port" or "". `local_port`: 0 if there is none. `errno`: of the error, if any.
    `progress`: how far the request had got.
    """

    at: float
    attempt: int
    phase: str
    what: str
    address: str = ""
    local_port: int = 0
    errno: int | None = None
    progress: Progress = Progress.NOT_SENT

    def __str__(self) -> str:
        where = self.address
        if where and self.local_port:
            where = f"{where} (from port {self.local_port})"
        code = (
            "" if self.errno is None else f" [{errno_names.errorcode.get(self.errno, self.errno)}]"
        )
        parts = [f"{self.at:8.3f} s", f"#{self.attempt}", f"{self.phase:<9}", where, self.what]
        return "  ".join(part for part in parts if part) + code


class Report:
    """What one call did. `events` in order; `str()` gives a table for people.

    `dropped`: how many of a long call's events are missing from the middle.
    """

    __slots__ = ("_events", "_progress", "attempt", "dropped", "notes", "started")

    def __init__(self, started: float) -> None:
        self.started = started
        self.attempt = 0
        # What a call begins with is all that most ever do: no event before it is looked at.
        self._events: list[Any] = []
        self.notes: Sequence[str] = ()
        self.dropped = 0
        self._progress = Progress.NOT_SENT

    @property
    def events(self) -> list[Event]:
        """What happened, in order."""
        events: list[Event] = self._events
        if events and type(events[0]) is not Event:
            events[0] = Event(*events[0])  # two threads at once put the same there
        return events

    def begin(
        self, now: float, phase: str, what: str, address: str, local_port: int, attempt: int
    ) -> None:
        """As `add`, at next to no cost if nothing has been recorded before."""
        if self._events:
            self.add(now, phase, what, address=address, local_port=local_port, attempt=attempt)
        else:
            self._events.append((now - self.started, attempt, phase, what, address, local_port))

    def add(
        self,
        now: float,
        phase: str,
        what: str,
        *,
        address: str = "",
        local_port: int = 0,
        errno: int | None = None,
        progress: Progress = Progress.NOT_SENT,
        attempt: int | None = None,
    ) -> None:
        """Record one event at `now`."""
        events = self._events
        if len(events) >= MAX_EVENTS:
            del events[FIRST_KEPT]
            self.dropped += 1
        if progress > self._progress:
            self._progress = progress
        number = self.attempt if attempt is None else attempt
        events.append(
            Event(now - self.started, number, phase, what, address, local_port, errno, progress)
        )

    def note(self, text: str) -> None:
        """Record, once, something about this machine or this target."""
        if text not in self.notes:
            self.notes = (*self.notes, text)

    @property
    def progress(self) -> Progress:
        """The farthest that any attempt's request got."""
        return self._progress

    def of_phase(self, phase: str) -> list[Event]:
        """The events of one phase, in order."""
        return [event for event in self.events if event.phase == phase]

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __str__(self) -> str:
        lines = [str(event) for event in self.events]
        if self.dropped:
            lines.insert(FIRST_KEPT, f"... and {self.dropped} more events")
        lines.extend(f"note: {note}" for note in self.notes)
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Report: {len(self.events)} events, {self.progress}>"


def report_of(source: object) -> Report | None:
    """The report that an exception or a response carries; None if it carries none.

    For type checkers: httpx's exceptions do not declare `.report`.
    """
    extensions = getattr(source, "extensions", None)
    found = extensions.get("outlast") if isinstance(extensions, dict) else None
    if not isinstance(found, Report):
        found = getattr(source, "report", None)
    return found if isinstance(found, Report) else None
