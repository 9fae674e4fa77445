"""What a connect does later, by name; and whatever its event loop calls, carried out with care: a
fault of ours is told of and must not leave the program waiting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

__all__ = ["Timers"]

log = logging.getLogger("outlast")


class Timers:
    """One owner. `on_fault` is called with what went wrong."""

    __slots__ = ("_loop", "_on_fault", "_timers")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_fault: Callable[[Exception], None]
    ) -> None:
        self._loop = loop
        self._on_fault = on_fault
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def at(self, name: str, seconds: float, then: Callable[[], None]) -> None:
        """Have it done so much later, in place of what goes by this name."""
        known = self._timers.pop(name, None)
        if known is not None:
            known.cancel()
        self._timers[name] = self._loop.call_later(seconds, self.carefully, then)

    def carefully(self, act: Callable[[], None]) -> None:
        """Do it now."""
        try:
            act()
        except Exception as error:
            log.exception("outlast run: a fault of ours")
            self._on_fault(error)

    def stop(self) -> None:
        """Nothing is done later."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
