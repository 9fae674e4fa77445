"""A change to something that the whole process shares, for as long as some run needs it.

Several simulations may run at once, each in a thread of its own. The first makes the change, the
last undoes it. Refuses nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["SharedChange"]


class SharedChange:
    """`make` makes the change and gives what undoes it. A context manager; thread-safe."""

    def __init__(self, make: Callable[[], Callable[[], None]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._users = 0
        self._undo: Callable[[], None] | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._undo = self._make()

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and self._undo is not None:
                undo, self._undo = self._undo, None
                undo()
