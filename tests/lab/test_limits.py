"""Circuit limits on the kernel: what the callers see of them, and what the pods have counted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import httpx
import pytest

import outlast
from outlast.testing import KernelLab
from outlast.testing.pod import Pod
from tests.lab import counting_pods

ORIGIN = "http://orders.shop.svc:8080"

ONE_DIAL = outlast.Policy(open_attempts=1)  # a race may have more sockets than it counts for


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
