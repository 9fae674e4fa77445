"""One row, in a process of its own: a lab, four pods, what befalls two of them, what callers meet.

Run by `benchmarks.routing` as `python -m benchmarks.routing.one_run '{"row": ...}'`; prints one
JSON object.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from benchmarks.incident import programs
from benchmarks.incident.proxies import running
from benchmarks.routing.pods import moody
from benchmarks.routing.rows import ROWS, Row
from outlast.testing import KernelLab
from tests.lab.load import Load, tasks

__all__ = ["ILL", "QUICK", "SLOW_POD", "Found", "Times"]

ILL, SLOW_POD = 0, 1  # which pods are concerned
QUICK, LATE = 0.01, 0.2  # seconds that an answer takes
LEARNT = 3.0  # seconds of the fault, after which a client should know
LAST = 5.0  # seconds at the end, in which all is well again


@dataclass(frozen=True, slots=True)
class Times:
    """When one pod begins to answer 503 and another to be slow, when both are well, the end."""

    begin: float
    healed: float
    until: float


@dataclass(frozen=True, slots=True)
class Found:
    """What callers met, and each pod's part of the requests in three stretches: while ill, from
    `LEARNT` on, and in the last seconds."""

    calls: int
    errors: int
    p50: float
    p99: float
    slowest: float
    learnt: list[float]
    last: list[float]


class _Pods:
    """The four pods, told how to be, and asked what they have had."""

    def __init__(self, lab: KernelLab) -> None:
        self.made = [lab.node(f"n{number}").pod(app=moody) for number in range(4)]
        self._moods = [(200, QUICK)] * 4

    async def mood(self, number: int, status: int, seconds: float) -> int:
        """From now on it is so; how many requests it has had."""
        self._moods[number] = status, seconds
        async with httpx.AsyncClient() as client:
            told = await client.get(f"{self.made[number].url}/mood/{status}/{seconds}")
        return int(told.text)

    async def asked(self) -> list[int]:
        """How many requests each has had."""
        return [await self.mood(number, *mood) for number, mood in enumerate(self._moods)]


def main(text: str) -> None:
    """Run it and print what was found."""
    order = json.loads(text)
    times = Times(**order["times"])
    row = next(row for row in ROWS if row.key == order["row"])
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
    with KernelLab() as lab, contextlib.ExitStack() as stack:
        pods = _Pods(lab)
        url = lab.service("orders.shop.svc:8080", pods=pods.made).url
        addresses = [pod.address for pod in pods.made]
        if row.proxy is not None and row.proxy.proxy is not None:
            program = programs.find(row.proxy.proxy.program)
            url = stack.enter_context(running(row.proxy.proxy, program, lab, addresses))
        with lab.running():
            found = asyncio.run(_played(lab, pods, row, url.rstrip("/"), times))
    print(json.dumps(asdict(found)))


async def _played(lab: KernelLab, pods: _Pods, row: Row, url: str, times: Times) -> Found:
    marks: dict[str, list[int]] = {}
    async with row.client(url, [pod.address for pod in pods.made]) as client:

        async def call() -> Any:
            return (await client.get(f"{url}/orders")).raise_for_status()

        async def befalls() -> None:
            await _until(lab, times.begin)
            await pods.mood(ILL, 503, QUICK)
            await pods.mood(SLOW_POD, 200, LATE)
            await _until(lab, min(times.begin + LEARNT, times.healed))
            marks["learnt"] = await pods.asked()
            await _until(lab, times.healed)
            marks["healed"] = await pods.asked()
            await pods.mood(ILL, 200, QUICK)
            await pods.mood(SLOW_POD, 200, QUICK)
            await _until(lab, times.until - LAST)
            marks["last"] = await pods.asked()

        load, _ = await asyncio.gather(tasks(lab, row.key, call, times.until), befalls())
    return _found(load, marks, await pods.asked())


async def _until(lab: KernelLab, at: float) -> None:
    await asyncio.sleep(max(0.0, at - lab.elapsed()))


def _found(load: Load, marks: dict[str, list[int]], end: list[int]) -> Found:
    took = load.times()
    return Found(
        calls=len(load.samples),
        errors=len(load.errors) + load.hung,
        p50=load.percentile(0.5),
        p99=load.percentile(0.99),
        slowest=took[-1],
        learnt=_shares(marks["learnt"], marks["healed"]),
        last=_shares(marks["last"], end),
    )


def _shares(before: list[int], after: list[int]) -> list[float]:
    came = [now - then for now, then in zip(after, before, strict=True)]
    return [count / max(1, sum(came)) for count in came]


if __name__ == "__main__":
    main(sys.argv[1])
