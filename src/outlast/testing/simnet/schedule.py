"""What is to happen when, counted from the start of a run: the kernel lab's rules in virtual time.

An action that fails does not stop the others; the first failure is handed out when the run ends.
What has not come by then is dropped. Source: `outlast.testing.schedule`.
"""

from __future__ import annotations

from collections.abc import Callable

from outlast.testing.simnet.rules import SECOND
from outlast.testing.simnet.timeline import Timeline, Timer

__all__ = ["Schedule"]


class Schedule:
    """The script of one network. Not thread-safe: whoever has the turn."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._waiting: list[tuple[float, Callable[[], object]]] = []
        self._timers: list[Timer] = []
        self._started: int | None = None
        self._length = 0
        self._failure: Exception | None = None

    def at(self, moment: float, action: Callable[[], object]) -> None:
        """Have `action` done `moment` seconds after the start; at once when that is past."""
        if self._started is None:
            self._waiting.append((moment, action))
        else:
            self._set(self._started, moment, action)

    def _set(self, start: int, moment: float, action: Callable[[], object]) -> None:
        def act() -> None:
            try:
                action()
            except Exception as error:  # noqa: BLE001  whatever it is, it is raised at the end
                self._failure = self._failure or error

        self._timers.append(self._timeline.at(start + round(moment * SECOND), act, "scheduled"))

    def elapsed(self) -> float:
        """Seconds since the run began; 0 before, its length after."""
        if self._started is None:
            return self._length / SECOND
        return (self._timeline.now - self._started) / SECOND

    def start(self) -> None:
        """Begin a run: time starts at 0."""
        self._failure = None
        start = self._started = self._timeline.now
        waiting, self._waiting = self._waiting, []
        for moment, action in waiting:
            self._set(start, moment, action)

    def stop(self) -> Exception | None:
        """End the run; the first failure, if any."""
        if self._started is not None:
            self._length = self._timeline.now - self._started
            self._started = None
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        return self._failure
