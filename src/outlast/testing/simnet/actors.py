"""Background jobs of the simulation: engine code that the timeline itself carries on.

An actor needs no thread: each of its steps is an event. Errors of a job are its own, and logged.

Source: the promises of `outlast.net.seam.Network.spawn`. Refuses whatever only an event loop can
do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from outlast.net.seam import Ready, Wait
from outlast.testing.simnet.waiting import Attention, Clock, look

__all__ = ["Actor"]

log = logging.getLogger("outlast")


class Actor:
    """One job. `inside` is called with its name around each step, and with "" after."""

    __slots__ = ("_clock", "_inside", "_name", "_waits", "_work")

    def __init__(
        self,
        clock: Clock,
        job: Callable[[], Coroutine[Any, Any, None]],
        name: str,
        inside: Callable[[str], None],
    ) -> None:
        self._clock = clock
        self._name = name
        self._inside = inside
        self._work: Coroutine[Any, Any, None] | None = None
        self._waits: Attention | None = None
        clock.timeline.after(0, lambda: self._begin(job), name)

    def _begin(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            self._work = job()
        except Exception:
            log.exception("a background job failed")
        else:
            self._step(None)

    def _step(self, ready: Ready | None) -> None:
        work = self._work
        assert work is not None
        while True:
            self._inside(self._name)
            try:
                wait = work.send(ready)
            except StopIteration:
                return
            except (Exception, SystemExit) as error:
                log.error("a background job failed", exc_info=error)
                return
            finally:
                self._inside("")
            if type(wait) is not Wait:
                work.close()
                log.error("a background job failed: it awaited %r, which needs a loop", wait)
                return
            ready = look(wait.interests)
            if not ready and wait.until > self._clock.now():
                break
        self._waits = Attention(self._clock, wait, self._over, self._name)

    def _over(self) -> None:
        """Something is ready. It is told in the middle of the network's own work: go on after."""
        assert self._waits is not None
        ready = self._waits.ready
        self._clock.timeline.after(0, lambda: self._step(ready), self._name)
