"""Hedging on the kernel: what the callers see of it, and how many requests the pods have counted.

In brief the load is of 10 s; `OUTLAST_FULL=1` gives it a minute. It has the machine to itself:
beside tests that ask as fast as they can every twentieth answer may be late, and then p95 is, too.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

import anyio
import httpx

import outlast
from outlast.testing import KernelLab
from tests.lab import counting_pods

FULL = bool(os.environ.get("OUTLAST_FULL"))
ORIGIN = "http://orders.shop.svc:8080"
RATE = 100.0  # calls a second, of each client
SECONDS = 60.0 if FULL else 10.0
LEARNT = 10.0 if FULL else 5.5  # when the last 512 response times have nothing of the start
LATE = 1.0


async def load(client: httpx.AsyncClient, method: str) -> list[float]:
    """What calls take that begin RATE times a second, once it has learnt."""
    took: list[float] = []

    async def call(late: bool) -> None:
        began = time.monotonic()
        assert (await client.request(method, ORIGIN)).status_code == 200
        if late:
            took.append(time.monotonic() - began)

    started = time.monotonic()
    async with anyio.create_task_group() as group:
        for number in range(int(SECONDS * RATE)):
            at = number / RATE
            await asyncio.sleep(max(0.0, started + at - time.monotonic()))
            group.start_soon(call, at >= LEARNT)
    return sorted(took)


def test_hedging_at_p95(lab: KernelLab, figures: Callable[[str], None]) -> None:
    """Every tenth answer of one of four pods takes a second. Two clients ask them at the same time,
    of which one hedges: it asks by GET, the other by HEAD."""
    pods = [lab.node(f"n{number}").pod(app=counting_pods.tardy) for number in range(4)]
    addresses = [pod.address for pod in pods]

    def client(order: list[str], policy: outlast.Policy) -> httpx.AsyncClient:
        target = outlast.Target("static://" + ",".join(order), balance=outlast.RoundRobin())
        transport = outlast.AsyncTransport(targets={ORIGIN: target}, policy=policy)
        return httpx.AsyncClient(transport=transport)

    async def main() -> tuple[list[float], list[float]]:
        found: dict[str, list[float]] = {}
        async with (
            client(addresses, outlast.Policy(hedge="p95")) as hedged,
            client(addresses[::-1], outlast.Policy()) as plain,  # another target: its own table
        ):
            await plain.get(f"{pods[0].url}/late/{LATE}")

            async def one(name: str, client: httpx.AsyncClient) -> None:
                found[name] = await load(client, name)

            async with anyio.create_task_group() as group:
                group.start_soon(one, "GET", hedged)
                group.start_soon(one, "HEAD", plain)
        return found["GET"], found["HEAD"]

    with lab.running():
        hedged, plain = asyncio.run(main())
        counts = [pod.counts()["methods"] for pod in pods]
    asked, calls = (sum(each.get(name, 0) for each in counts) for name in ("GET", "HEAD"))
    more = (asked - 1) / calls - 1  # one GET has told the pod to be late
    last, before = (times[int(len(times) * 0.99)] for times in (hedged, plain))
    figures(f"hedging at p95: p99 {before:.3f} s -> {last:.4f} s for {more:.1%} more requests")
    assert before >= 0.9 * LATE
    assert before >= 5 * last
    assert more <= 0.05
