"""What happens when: actions at set times after the start of a run, carried out by one thread.

Times are seconds of the monotonic clock. An action that fails does not stop the others; the first
failure is handed out when the run ends. Actions whose time has not come by then are dropped.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable


class Schedule:
    """The time line of one lab. Safe to add to from any thread, before and during a run."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._order = itertools.count()
        self._actions: list[tuple[float, int, Callable[[], object]]] = []
        self._started: float | None = None
        self._length = 0.0
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    @property
    def running(self) -> bool:
        """Whether a run is under way."""
        return self._started is not None

    def elapsed(self) -> float:
        """Seconds since the run began; 0 before, its length after."""
        started = self._started
        return self._length if started is None else time.monotonic() - started

    def at(self, moment: float, action: Callable[[], object]) -> None:
        """Have `action` done `moment` seconds after the start; at once when that is past."""
        with self._changed:
            heapq.heappush(self._actions, (moment, next(self._order), action))
            self._changed.notify()

    def start(self) -> None:
        """Begin a run: time starts at 0."""
        self._failure = None
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="outlast-lab-schedule", daemon=True)
        self._thread.start()

    def stop(self) -> Exception | None:
        """End the run and wait for the action under way; the first failure, if any."""
        with self._changed:
            self._length = self.elapsed()
            self._started = None
            self._actions.clear()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        return self._failure

    def _work(self) -> None:
        while (action := self._next()) is not None:
            failure = _failure_of(action)
            self._failure = self._failure or failure

    def _next(self) -> Callable[[], object] | None:
        """Wait for the next action's time; None when the run has ended."""
        with self._changed:
            while self._started is not None:
                now = time.monotonic() - self._started
                if self._actions and self._actions[0][0] <= now:
                    return heapq.heappop(self._actions)[2]
                self._changed.wait(self._actions[0][0] - now if self._actions else None)
            return None


def _failure_of(action: Callable[[], object]) -> Exception | None:
    try:
        action()
    except Exception as error:  # noqa: BLE001  whatever it is, it is raised when the run ends
        return error
    return None
