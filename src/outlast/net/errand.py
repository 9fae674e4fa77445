"""Blocking calls of others, each on a daemon thread of its own, for engine code that waits for it.

At most 32 in the process, as for look-ups. A call that hangs keeps its thread, never whoever waits
for it, who leaves at a time of their own, and never the process. Above 32 the next one is refused
as this machine's own shortage, because to queue behind calls that hang would be to hang.

Refuses to end a call: a thread cannot be stopped from outside.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from outlast.net.options import LocalRefusal
from outlast.net.seam import WAKE, Network, Wait, Waiter

__all__ = ["MAX_THREADS", "Errand", "start_errand"]

T = TypeVar("T")

MAX_THREADS = 32


class _Places:
    """How many threads there may yet be. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = 0

    def take(self) -> bool:
        """Take one; False if there is none."""
        with self._lock:
            if self._taken >= MAX_THREADS:
                return False
            self._taken += 1
            return True

    def leave(self) -> None:
        """Give one back."""
        with self._lock:
            self._taken -= 1


_places = _Places()


class Errand(Generic[T]):
    """One call under way. `done`: it has come back."""

    __slots__ = ("_call", "_error", "_places", "_result", "_waiter", "done")

    def __init__(self, call: Callable[[], T], waiter: Waiter, places: _Places) -> None:
        self._call = call
        self._waiter = waiter
        self._places = places
        self._result: list[T] = []
        self._error: Exception | None = None
        self.done = False

    async def result(self) -> T:
        """Wait until it is back: what it returned. Raises what it raised."""
        await Wait(((self._waiter, WAKE),))
        if self._error is not None:
            raise self._error
        return self._result[0]

    def run(self) -> None:
        """Do it, in the thread that was made for it."""
        try:
            self._result.append(self._call())
        except SystemExit as error:
            self._error = RuntimeError(f"a call in the background cannot end the program: {error}")
        except Exception as error:  # noqa: BLE001  raised to whoever waits
            self._error = error
        finally:
            self._places.leave()
            self.done = True
            self._waiter.wake()


def start_errand(network: Network, call: Callable[[], T]) -> Errand[T]:
    """Begin `call()` on a thread of its own. Never blocks. Raises LocalRefusal (EAGAIN) if there
    is no thread to be had. Thread-safe."""
    places = _places
    if not places.take():
        text = f"all {MAX_THREADS} threads for blocking calls are busy; some call does not return"
        raise LocalRefusal(errno.EAGAIN, text)
    errand = Errand(call, network.waiter(), places)
    try:
        threading.Thread(target=errand.run, name="outlast-errand", daemon=True).start()
    except RuntimeError as error:
        places.leave()
        raise LocalRefusal(errno.EAGAIN, f"no thread for a blocking call: {error}") from error
    return errand


def _renew() -> None:
    global _places  # noqa: PLW0603  in the child of a fork: the threads are the parent's
    _places = _Places()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
