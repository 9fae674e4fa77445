"""Hedges and circuit limits on the kernel: what the callers see of it, and what the pods.

In brief the hedging load is of 6 s; `OUTLAST_FULL=1` gives it a minute. Requests and connections
are those that the pods themselves have counted.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import httpx
import pytest

import outlast
from outlast.testing import KernelLab
from outlast.testing.pod import Pod
from tests.lab import counting_pods

FULL = bool(os.environ.get("OUTLAST_FULL"))
ORIGIN = "http://orders.shop.svc:8080"
RATE = 100.0  # calls a second, of each client
SECONDS = 60.0 if FULL else 6.0
LEARNT = 10.0 if FULL else 2.0  # when there are response times enough, and hedges to spare
LATE = 1.0

ONE_DIAL = outlast.Policy(open_attempts=1)  # a race may have more sockets than it counts for


# -- hedges --------------------------------------------------------------------------------


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


# -- limits --------------------------------------------------------------------------------


@pytest.fixture
def pod(lab: KernelLab) -> Iterator[Pod]:
    """One that counts what is on at once."""
    made = lab.node("n").pod(raw=counting_pods.counting)
    with lab.running():
        yield made


def limited(pod: Pod, policy: outlast.Policy = ONE_DIAL, **limits: Any) -> dict[str, Any]:
    """Arguments of a transport to a pod with these limits."""
    circuit = outlast.CircuitLimits(**limits)
    target = outlast.Target(f"static://{pod.address}", circuit=circuit)
    return {"targets": {ORIGIN: target}, "policy": policy}


async def crowd(client: httpx.AsyncClient, workers: int, calls: int) -> tuple[int, int]:
    """Calls without a pause; the most connections and requests that the pod has had at once."""
    most = (0, 0)

    async def work() -> None:
        nonlocal most
        for _ in range(calls):
            told = (await client.get(ORIGIN)).text.split()
            most = max(most[0], int(told[0])), max(most[1], int(told[1]))

    async with anyio.create_task_group() as group:
        for _ in range(workers):
            group.start_soon(work)
    return most


def test_no_more_connections_than_the_limit(pod: Pod, figures: Callable[[str], None]) -> None:
    async def main() -> tuple[int, int]:
        transport = outlast.AsyncTransport(**limited(pod, connections=3))
        async with httpx.AsyncClient(transport=transport, timeout=30.0) as client:
            return await crowd(client, 20, 10)

    most = asyncio.run(main())
    figures(f"at most 3 connections: the pod has had {most[0]}, and {most[1]} requests at once")
    assert most == (3, 3)
    assert pod.counts()["connections"] == 3


def test_the_limit_holds_for_all_transports_together(
    pod: Pod, figures: Callable[[str], None]
) -> None:
    """Threads and tasks; idle connections of either give way to the other."""
    settings = limited(pod, connections=3)
    most: list[tuple[int, int]] = []

    def threads(client: httpx.Client) -> None:
        for _ in range(10):
            told = client.get(ORIGIN).text.split()
            most.append((int(told[0]), int(told[1])))

    async def tasks() -> None:
        transport = outlast.AsyncTransport(**settings)
        async with httpx.AsyncClient(transport=transport, timeout=30.0) as client:
            most.append(await crowd(client, 6, 10))

    with httpx.Client(transport=outlast.Transport(**settings), timeout=30.0) as client:
        workers = [threading.Thread(target=threads, args=(client,)) for _ in range(6)]
        for each in workers:
            each.start()
        asyncio.run(tasks())
        for each in workers:
            each.join(30.0)
    assert len(most) == 61  # nobody has failed
    connections, requests = (max(each[which] for each in most) for which in (0, 1))
    dials = pod.counts()["connections"]
    figures(f"the same for two transports: {connections}, {requests} at once, {dials} dials")
    assert connections <= 3
    assert requests <= 3
    assert dials > 3  # some have given way


def test_no_more_in_flight_and_in_line_than_the_limits(pod: Pod) -> None:
    ended: list[object] = []

    async def main() -> None:
        transport = outlast.AsyncTransport(**limited(pod, in_flight=2, waiting=3))

        async def ask(client: httpx.AsyncClient) -> None:
            try:
                ended.append((await client.get(ORIGIN)).text.split()[1:])
            except httpx.PoolTimeout as error:
                ended.append(error)

        async with httpx.AsyncClient(transport=transport, timeout=30.0) as client:
            async with anyio.create_task_group() as group:
                for _ in range(8):
                    group.start_soon(ask, client)

    asyncio.run(main())
    refused = [str(each) for each in ended if isinstance(each, httpx.PoolTimeout)]
    assert len(refused) == 3
    assert all(
        "2 requests in flight of at most 2, 3 waiting of at most 3" in each for each in refused
    )
    assert ended[3:] == [["2", str(number)] for number in range(1, 6)]  # the refused come first


def test_one_connection_of_http2_for_many(lab: KernelLab) -> None:
    """Two at once on it, as the pod wants; the others wait for their turn."""
    pod = lab.node("n").pod(raw="tests.lab.counting_pods:two_streams")

    async def main() -> list[int]:
        transport = outlast.AsyncTransport(http1=False, http2=True, **limited(pod, connections=1))
        found: list[int] = []

        async def ask(client: httpx.AsyncClient, number: int) -> None:
            told = await client.get(f"{ORIGIN}/?delay=0.05", headers={"x-request-id": str(number)})
            found.append(told.status_code)

        async with httpx.AsyncClient(transport=transport, timeout=30.0) as client:
            async with anyio.create_task_group() as group:
                for number in range(16):
                    group.start_soon(ask, client, number)
        return found

    with lab.running():
        assert asyncio.run(main()) == [200] * 16
        assert pod.counts()["connections"] == 1
