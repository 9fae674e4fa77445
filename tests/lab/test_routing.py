"""Whom a request goes to, on the kernel: the first figures of `tests.fire.test_routing` once more.

Four pods on four nodes, one process each; the client knows them by a static target. In brief the
fault of the third test is over after 4 s, while the first ejection of 5 s still lasts.
`OUTLAST_FULL=1` gives it its ten seconds. Shares are what the pods themselves have counted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

import anyio
import httpx

import outlast
from outlast.testing import KernelLab
from tests.lab import handlers

FULL = bool(os.environ.get("OUTLAST_FULL"))
URL = "http://orders.shop.svc:8080/"
BEGIN = 1.0
FAULT = 10.0 if FULL else 4.0
WORKERS = 8
PAUSE = 0.05  # seconds between two calls of a worker, where the pods are to have some rest
FEW = 0.03

Ask = Callable[[], Awaitable[httpx.Response]]


class Shop:
    """Four pods, and a client of them."""

    def __init__(self, lab: KernelLab) -> None:
        self.lab = lab
        self.pods = [lab.node(f"n{number}").pod(app=handlers.moody) for number in range(4)]
        self.text = "static://" + ",".join(pod.address for pod in self.pods)

    def counted(self) -> list[int]:
        """How many requests each pod has had."""
        return [pod.counts()["requests"] for pod in self.pods]

    async def feels(self, pod: int, status: int, seconds: float) -> None:
        """From now on a pod answers so."""
        async with httpx.AsyncClient() as client:
            told = await client.get(f"{self.pods[pod].url}/mood/{status}/{seconds}")
            assert told.status_code == 200

    def run(self, main: Callable[[Ask], Awaitable[None]]) -> None:
        """Run `main` on the client's node."""

        async def within() -> None:
            transport = outlast.AsyncTransport(targets={URL.rstrip("/"): self.text})
            async with httpx.AsyncClient(transport=transport) as client:
                await main(lambda: client.get(URL))

        with self.lab.running():
            asyncio.run(within())


async def crowd(ask: Ask, calls: int) -> None:
    """So many calls by workers that rest only while they wait for an answer."""

    async def work() -> None:
        for _ in range(calls // WORKERS):
            assert (await ask()).status_code == 200

    async with anyio.create_task_group() as group:
        for _ in range(WORKERS):
            group.start_soon(work)


def shares(before: list[int], after: list[int]) -> list[float]:
    """Each pod's part of what came in between."""
    came = [now - then for now, then in zip(after, before, strict=True)]
    return [count / sum(came) for count in came]


def test_equal_pods_share_equally_and_a_slow_one_is_given_little(
    lab: KernelLab, figures: Callable[[str], None]
) -> None:
    shop, told = Shop(lab), []

    async def main(ask: Ask) -> None:
        start = shop.counted()
        await crowd(ask, 4000 if FULL else 2000)
        equal = shop.counted()
        for pod in range(4):  # long enough for a busy machine's own delays to matter little
            await shop.feels(pod, 200, 0.6 if pod == 0 else 0.03)
        begun = shop.counted()
        await crowd(ask, 4000 if FULL else 700)
        told.extend([shares(start, equal), shares(begun, shop.counted())])

    shop.run(main)
    equal, slow = told
    figures(f"4 equal pods {', '.join(f'{share:.1%}' for share in equal)}")
    figures(f"the first 20 times as slow {', '.join(f'{share:.1%}' for share in slow)}")
    most = 0.15 if FULL else 0.2  # half as many calls, beside other tests
    assert all(1 - most <= 4 * share <= 1 + most for share in equal)
    assert slow[0] < 0.08


def test_a_pod_that_answers_503_is_left_alone_and_comes_back(
    lab: KernelLab, figures: Callable[[str], None]
) -> None:
    """No call fails. Within 20 s of its recovery the pod has its share again; in brief it has some
    of it 8 s after, by way of slow start."""
    shop = Shop(lab)
    marks: dict[str, list[int]] = {}

    async def main(ask: Ask) -> None:
        async def work() -> None:
            while lab.elapsed() < end:
                assert (await ask()).status_code == 200
                await asyncio.sleep(PAUSE)

        async def mark(name: str, at: float) -> None:
            await asyncio.sleep(max(0.0, at - lab.elapsed()))
            marks[name] = await asyncio.to_thread(shop.counted)

        end = BEGIN + FAULT + (25.0 if FULL else 8.0)
        async with anyio.create_task_group() as group:
            for _ in range(WORKERS):
                group.start_soon(work)
            await mark("begin", BEGIN)
            await shop.feels(0, 503, 0.01)
            await mark("learnt", BEGIN + 3.0)
            await mark("healed", BEGIN + FAULT)
            await shop.feels(0, 200, 0.01)
            await mark("late", end - (5.0 if FULL else 2.0))
        marks["end"] = shop.counted()

    shop.run(main)
    ill, late = (
        shares(marks[since], marks[until])[0]
        for since, until in (("learnt", "healed"), ("late", "end"))
    )
    figures(f"a pod that answers 503: {ill:.1%} after 3 s of it; in the end {late:.1%}")
    assert ill < FEW
    assert late > (0.2 if FULL else 0.05)
