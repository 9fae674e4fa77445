"""Load for the incidents: workers that call in a loop, and the figures of what they met."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio

WORKERS = 8
PAUSE = 0.05  # seconds between two calls of one worker
SLOW = 0.1  # seconds; above it the answer is kept too, for the report that it may carry
GRACE = 5.0  # seconds after the end; a call that has not ended by then is hung
UNANSWERED = "keepalive probes without an answer"  # what tells death where nothing of ours is out


class Clock(Protocol):
    """What tells the time of a run: a lab, or a stage."""

    def elapsed(self) -> float:
        """Seconds since the run began."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One call: when it began, how long it took, and what it raised or, if slow, returned."""

    at: float
    took: float
    error: BaseException | None = None
    answer: Any = None

    @property
    def in_flight_at_the_loss(self) -> bool:
        """The node had acknowledged the request and then died: answered elsewhere, but only after
        three seconds of silence and two probes (DESIGN section 6)."""
        extensions = getattr(self.answer, "extensions", {})
        return UNANSWERED in str(extensions.get("outlast"))


@dataclass(slots=True)
class Load:
    """What one client met. `samples` in no order. May be read while it is written."""

    name: str
    samples: list[Sample] = field(default_factory=list)
    hung: int = 0  # workers that had not come back GRACE after the end
    _waiting: dict[int, float] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def waiting(self) -> list[float]:
        """When the calls that have not ended began. After the run: those of the hung workers."""
        return list(self._waiting.values())

    def begin(self, at: float) -> int:
        """A call begins; returns its number for `end`."""
        number = next(self._numbers)
        self._waiting[number] = at
        return number

    def end(self, number: int, took: float, error: BaseException | None, answer: Any) -> None:
        """It has ended."""
        at = self._waiting.pop(number)
        self.samples.append(Sample(at, took, error, answer if took > SLOW else None))

    @property
    def errors(self) -> list[Sample]:
        """Calls that failed."""
        return [s for s in self.samples if s.error is not None]

    @property
    def in_flight(self) -> list[float]:
        """How long the calls took that the node had acknowledged when it died."""
        return [s.took for s in self.samples if s.in_flight_at_the_loss]

    def times(self) -> list[float]:
        """How long the other calls took, sorted."""
        return sorted(s.took for s in self.samples if not s.in_flight_at_the_loss)

    def percentile(self, share: float) -> float:
        """The time that `share` of the calls stayed within."""
        times = self.times()
        return times[min(len(times) - 1, int(len(times) * share))]

    def row(self) -> str:
        """The figures, for people."""
        slow = sum(took > SLOW for took in self.times())
        text = (
            f"{self.name:<34} {len(self.samples):>6} calls  {len(self.errors):>3} errors  "
            f"{self.hung:>2} hung  p50 {self.percentile(0.5) * 1e3:6.1f} ms  "
            f"p99 {self.percentile(0.99) * 1e3:6.1f} ms  "
            f"slowest {self.times()[-1] * 1e3:6.1f} ms  over 100 ms {slow:>4}"
        )
        told = ", ".join(f"{took:.2f} s" for took in self.in_flight)
        return f"{text}  acknowledged at the loss {told}" if told else text

    def explain(self) -> str:
        """The first errors and the slowest calls, with their reports, for a failing test."""
        lines = [self.row()]
        for sample in self.errors[:3]:
            lines.append(f"at {sample.at:.2f} s, after {sample.took:.2f} s: {sample.error!r}")
            lines.append(str(getattr(sample.error, "report", "no report")))
        for sample in sorted(self.samples, key=lambda s: -s.took)[:3]:
            extensions = getattr(sample.answer, "extensions", {})
            lines.append(f"at {sample.at:.2f} s, {sample.took:.2f} s: {extensions.get('outlast')}")
        return "\n".join(lines)


def threads(clock: Clock, name: str, call: Callable[[], Any], until: float) -> Load:
    """WORKERS threads that run `call` until the clock says `until`."""
    load = Load(name)
    in_threads(load, clock, call, until)
    return load


def in_threads(load: Load, clock: Clock, call: Callable[[], Any], until: float) -> None:
    """The same into a load that others may watch meanwhile."""

    def work() -> None:
        while clock.elapsed() < until:
            _timed(load, clock, call)
            time.sleep(PAUSE)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(0.1, until + GRACE - clock.elapsed()))
    load.hung = sum(worker.is_alive() for worker in workers)


def _timed(load: Load, clock: Clock, call: Callable[[], Any]) -> None:
    number, began = load.begin(clock.elapsed()), time.monotonic()
    error: BaseException | None = None
    answer = None
    try:
        answer = call()
    except Exception as caught:  # noqa: BLE001  counted and shown
        error = caught
    load.end(number, time.monotonic() - began, error, answer)


async def tasks(clock: Clock, name: str, call: Callable[[], Awaitable[Any]], until: float) -> Load:
    """WORKERS tasks that run `call` until the clock says `until`."""
    load = Load(name)
    await in_tasks(load, clock, call, until)
    return load


async def in_tasks(
    load: Load, clock: Clock, call: Callable[[], Awaitable[Any]], until: float
) -> None:
    """The same into a load that others may watch meanwhile."""
    ended = 0

    async def work() -> None:
        nonlocal ended
        while clock.elapsed() < until:
            number, began = load.begin(clock.elapsed()), time.monotonic()
            error: BaseException | None = None
            answer = None
            try:
                answer = await call()
            except Exception as caught:  # noqa: BLE001  counted and shown
                error = caught
            load.end(number, time.monotonic() - began, error, answer)
            await anyio.sleep(PAUSE)
        ended += 1

    with anyio.move_on_after(max(0.1, until + GRACE - clock.elapsed())):
        async with anyio.create_task_group() as group:
            for _ in range(WORKERS):
                group.start_soon(work)
    load.hung = WORKERS - ended


def in_loop(backend: str, main: Callable[[], Awaitable[Load]]) -> Load:
    """Run `main` in an event loop of its own."""
    if backend == "asyncio":
        return asyncio.run(_coroutine(main))
    return anyio.run(main, backend=backend)


async def _coroutine(main: Callable[[], Awaitable[Load]]) -> Load:
    return await main()
