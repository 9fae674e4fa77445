"""Engine code on a thread of its own, for what would keep all other background work waiting.

The library's one background thread is for small jobs. Whoever moves other people's bytes is busy
for as long as there are any. Refuses nothing: whoever starts it ends it, by a means of its own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from outlast.net.run import run_sync
from outlast.net.seam import Network

__all__ = ["Apart"]

log = logging.getLogger("outlast")


class Apart:
    """One run of engine code on a daemon thread. Begins at once."""

    def __init__(
        self, network: Network, work: Callable[[], Coroutine[Any, Any, None]], name: str
    ) -> None:
        self._network = network
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            run_sync(self._network, self._work())
        except Exception as error:
            log.exception("%s has ended by an error", self._thread.name)
            self._error = error  # raised where it is waited for

    def join(self) -> None:
        """Wait for its end; raises what it has raised. May be called from itself: then it does
        not wait."""
        if self._thread is not threading.current_thread():
            self._thread.join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
