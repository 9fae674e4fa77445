"""Background jobs of the network in virtual time: engine code, stepped while a caller waits."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from typing import Any

from outlast.net.seam import Ready, Wait

Job = Coroutine[Any, Ready, None]


class Jobs:
    """Those under way, each with what it waits for."""

    def __init__(self, ready: Callable[[Wait], Ready]) -> None:
        self._ready = ready
        self._waits: dict[Job, Wait] = {}

    def start(self, job: Callable[[], Job]) -> None:
        self._step(job(), None)

    def _step(self, job: Job, ready: Ready | None) -> None:
        try:
            self._waits[job] = job.send(ready)  # type: ignore[arg-type]  # None at first
        except StopIteration:
            self._waits.pop(job, None)

    @property
    def until(self) -> float:
        """When the first of them is to be stepped, whatever happens."""
        return min((wait.until for wait in self._waits.values()), default=math.inf)

    def step(self, now: float) -> None:
        """Let all go on that can."""
        for job, wait in list(self._waits.items()):
            ready = self._ready(wait)
            if ready or now >= wait.until:
                self._step(job, ready)
