"""A client's own process: measures one cell at a time, as it is told.

One line of JSON comes in for each job, one goes out with what was found, or with what went wrong.
Time is taken while all threads or tasks are asking: after each of them has been answered once on
average, and a hundred times in all, until the window is over; what still runs then is not counted.
CPU is the process's own: all threads, user and system.

Run by `benchmarks.speed`: python -m benchmarks.speed.worker CLIENT [CORE]
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import resource
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Any

from benchmarks.speed.asking import Place, open_async, open_sync
from benchmarks.speed.plan import Cell, Memory
from benchmarks.speed.weighing import weigh

FIRST = 100  # answers before anything counts, or one for each that asks, if that is more


@dataclass(frozen=True, slots=True)
class Moment:
    """How much had been done, and what it had cost."""

    answers: int
    clock: float
    cpu: float


class Window:
    """The time in which answers count. `seconds`: its length; `least`: answers in it."""

    def __init__(self, at_once: int, seconds: float, least: int) -> None:
        self._numbers = itertools.count(1)  # its next is one step, also between threads
        self._first = max(at_once, FIRST)
        self._last = self._first + least
        self._seconds = seconds
        self._lock = threading.Lock()
        self.began: Moment | None = None
        self.ended: Moment | None = None

    def go_on(self) -> bool:
        """To be called for each answer: whether to ask again."""
        number = next(self._numbers)
        if number == self._first:
            self.began = self._moment(number)
        if number < self._last or self.began is None:
            return True
        if self.ended is None and time.perf_counter() >= self.began.clock + self._seconds:
            with self._lock:
                if self.ended is None:
                    self.ended = self._moment(number)
        return self.ended is None

    def _moment(self, number: int) -> Moment:
        return Moment(number, time.perf_counter(), time.process_time())

    def found(self) -> dict[str, float]:
        """Answers, seconds and CPU seconds within the window."""
        assert self.began is not None
        assert self.ended is not None
        return {
            "answers": self.ended.answers - self.began.answers,
            "seconds": self.ended.clock - self.began.clock,
            "cpu": self.ended.cpu - self.began.cpu,
        }


def measure_sync(name: str, cell: Cell, place: Place, window: Window) -> None:
    """As many threads as requests at once."""
    errors: list[BaseException] = []
    line = threading.Barrier(cell.at_once)

    def work() -> None:
        try:
            line.wait()
            while not errors:
                check(ask(), cell)
                if not window.go_on():
                    return
        except Exception as error:  # noqa: BLE001  told by the thread that waits
            errors.append(error)

    with open_sync(name, cell, place) as ask:
        gc.collect()  # of what came before; later the collector does as it pleases
        if cell.at_once == 1:
            work()
        else:
            threads = [threading.Thread(target=work) for _ in range(cell.at_once)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    if errors:
        raise errors[0]


async def measure_async(name: str, cell: Cell, place: Place, window: Window) -> None:
    """As many tasks as requests at once."""

    async def work() -> None:
        while True:
            check(await ask(), cell)
            if not window.go_on():
                return

    async with open_async(name, cell, place) as ask:
        gc.collect()
        await asyncio.gather(*(work() for _ in range(cell.at_once)))


def check(size: int, cell: Cell) -> None:
    """An answer that is not whole does not count."""
    if size != cell.size:
        raise RuntimeError(f"a body of {size} bytes in the place of {cell.size}")


def run(name: str, job: dict[str, Any]) -> dict[str, float]:
    """Carry one job out."""
    place = Place(job["url"], job["authority"])
    if "memory" in job:
        return weigh(name, Memory(**job["memory"]), place)
    cell = Cell(**job["cell"])
    window = Window(cell.at_once, job["seconds"], job["least"])
    if cell.sync:
        measure_sync(name, cell, place, window)
    else:
        asyncio.run(measure_async(name, cell, place, window))
    return window.found()


def main(name: str, core: str = "") -> None:
    """Do jobs until the input ends."""
    if core and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for line in sys.stdin:
        try:
            found: dict[str, Any] = run(name, json.loads(line))
        except Exception as error:  # noqa: BLE001  told to whoever gave the job
            traceback.print_exc()
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
