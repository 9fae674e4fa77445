"""What all Python programs here have in common: workers that call in a loop and say what they met.

Each program is started as `program.py HOST PORT MODE WORKERS PAUSE` and runs until it is ended. For
each call it prints one JSON line: `worker`; `at`, when the call began (seconds since the epoch);
`took`, seconds; `error`, the name of the exception or an empty string; `what`, its text.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

__all__ = ["HOST", "MODE", "PORT", "in_tasks", "in_threads", "right"]

HOST, MODE = sys.argv[1], sys.argv[3]
PORT, WORKERS, PAUSE = int(sys.argv[2]), int(sys.argv[4]), float(sys.argv[5])

Call: TypeAlias = Callable[[], None]
AsyncCall: TypeAlias = Callable[[], Awaitable[None]]
_one_line = threading.Lock()


def right(said: object) -> None:
    """Every server here answers 7."""
    if said not in (7, b"7", "7"):
        raise AssertionError(f"the server said {said!r}")


def in_threads(make: Callable[[], Call]) -> None:
    """Each worker is a thread, with what `make` has made for it."""

    def work(worker: int) -> None:
        call = make()
        while True:
            at, began = time.time(), time.monotonic()
            error: Exception | None = None
            try:
                call()
            except Exception as caught:  # noqa: BLE001  told
                error = caught
            _tell(worker, at, time.monotonic() - began, error)
            time.sleep(PAUSE)

    for worker in range(WORKERS):
        threading.Thread(target=work, args=(worker,), daemon=True).start()
    threading.Event().wait()


async def in_tasks(make: Callable[[], AsyncCall]) -> None:
    """Each worker is a task, with what `make` has made for it."""

    async def work(worker: int) -> None:
        call = make()
        while True:
            at, began = time.time(), time.monotonic()
            error: Exception | None = None
            try:
                await call()
            except Exception as caught:  # noqa: BLE001  told
                error = caught
            _tell(worker, at, time.monotonic() - began, error)
            await asyncio.sleep(PAUSE)

    await asyncio.gather(*(work(worker) for worker in range(WORKERS)))


def _tell(worker: int, at: float, took: float, error: Exception | None) -> None:
    line = {
        "worker": worker,
        "at": at,
        "took": took,
        "error": "" if error is None else type(error).__name__,
        "what": "" if error is None else str(error)[:300],
    }
    with _one_line:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
