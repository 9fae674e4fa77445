"""Background work: one daemon thread per network, started on first need, gone when idle.

All jobs share it, for sync and async users alike: a transport is often used without a context
manager, trio has no loop-wide spawn, and event loops come and go. Jobs are engine code and wait
only by the seam. A job that fails is logged and does not touch the others.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from outlast.net.run import Strands, run_sync
from outlast.net.seam import WAKE, Network, Waiter

__all__ = ["Background"]

log = logging.getLogger("outlast")


class Background:
    """Runs jobs on one thread. Thread-safe."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._lock = threading.Lock()
        self._inbox: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        self._bell: Waiter | None = None
        self._running = False

    def spawn(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `job()` in the background until it ends by itself.

        Raises RuntimeError if the thread is needed and the system gives none.
        """
        with self._lock:
            self._inbox.append(job)
            begin = not self._running
            self._running = True
            bell = self._bell
        if begin:
            self._begin()
        elif bell is not None:
            bell.wake()

    def _begin(self) -> None:
        try:
            threading.Thread(target=self._work, name="outlast-background", daemon=True).start()
        except RuntimeError:
            self._end(forget=True)
            raise

    def _work(self) -> None:
        try:
            run_sync(self._network, self._serve())
        except BaseException:
            self._end(forget=False)  # the next job begins anew
            raise

    def _end(self, *, forget: bool) -> None:
        with self._lock:
            self._running = False
            self._bell = None
            if forget:
                self._inbox.clear()

    async def _serve(self) -> None:
        strands: Strands[int, None] = Strands(self._network)
        try:
            await self._run(strands)
        finally:
            strands.close()

    async def _run(self, strands: Strands[int, None]) -> None:
        number = 0
        while True:
            with self._lock:
                jobs = list(self._inbox)
                self._inbox.clear()
                if not jobs and not len(strands):
                    self._running = False
                    self._bell = None
                    return
                bell = self._bell = self._network.waiter()
            for job in jobs:
                strands.start(number, _guarded(job))
                number += 1
            ended = await strands.next(also=((bell, WAKE),))
            if ended is not None and isinstance(ended[1], BaseException):
                log.error("a background job failed", exc_info=ended[1])


async def _guarded(job: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A job whose failure is its own, also if it fails to begin or wants the program to end."""
    try:
        await job()
    except SystemExit as error:
        raise RuntimeError(f"a background job cannot end the program: {error!r}") from error
