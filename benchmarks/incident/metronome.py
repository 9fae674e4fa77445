"""How late the machine itself is: a thread that asks to be woken every 5 ms, and is not.

A call that is slow while the whole machine stood still says nothing of its client. The thread lives
in the parent, which does next to nothing; what it cannot see is a stall of one processor alone.
"""

from __future__ import annotations

import threading
import time

__all__ = ["Metronome"]

_EVERY = 0.005  # seconds


class Metronome:
    """A context manager. `longest_since` may be asked from any thread."""

    def __init__(self) -> None:
        self._late: list[tuple[float, float]] = []  # when, and by how much
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Metronome:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def longest_since(self, moment: float) -> float:
        """The longest stall, in seconds, since `moment` of `time.monotonic()`."""
        return max((late for at, late in list(self._late) if at >= moment), default=0.0)

    def _beat(self) -> None:
        before = time.monotonic()
        while not self._over.is_set():
            time.sleep(_EVERY)
            now = time.monotonic()
            late = now - before - _EVERY
            if late > _EVERY:
                self._late.append((now, late))
            before = now
