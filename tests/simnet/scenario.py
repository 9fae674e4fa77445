"""One incident with four named workers, and what its transcript says; also a program.

python tests/simnet/scenario.py BACKEND SEED
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import anyio
import httpx

import outlast
from outlast.testing import SimNet

URL = "http://orders.shop.svc:8080/"
NAMES = ["w1", "w2", "w3", "w4"]
LENGTH = 12.0


def incident(seed: int) -> SimNet:
    """Three nodes: one loses power, one is frozen for a while, one answers 503 at times."""
    net = SimNet(seed=seed, traced=True)
    a, b, c = (net.node(name) for name in "abc")
    orders = net.service("orders.shop.svc:8080", pods=[a.pod(), b.pod(), c.pod()])
    net.at(2.0, a.power_off)
    net.at(3.0, b.freeze)
    net.at(5.0, b.thaw)
    net.at(8.0, orders.remove, a)
    c.lose(0.05)
    return net


def path(number: int) -> str:
    return f"{URL}?status=503" if number % 5 == 4 else URL


def play(backend: str, seed: int) -> SimNet:
    """The incident, whole; `net.transcript` has it all."""
    net = incident(seed)
    if backend == "sync":
        transport = outlast.Transport(network=net)
        with net.running(), httpx.Client(transport=transport, timeout=1.0) as client:
            net.gather(*(_worker(net, client, name) for name in NAMES), names=NAMES)
    else:
        net.run(_main, net, backend=backend)
    return net


def _worker(net: SimNet, client: httpx.Client, name: str) -> Callable[[], None]:
    def work() -> None:
        number = 0
        while net.elapsed() < LENGTH:
            try:
                client.get(path(number), headers={"x-request-id": f"{name}-{number}"})
            except httpx.TransportError as error:
                net.transcript(name, type(error).__name__)
            number += 1
            net.sleep(0.25)

    return work


async def _main(net: SimNet) -> None:
    transport = outlast.AsyncTransport(network=net)
    async with httpx.AsyncClient(transport=transport, timeout=1.0) as client:
        async with anyio.create_task_group() as group:
            for name in NAMES:
                group.start_soon(_task, net, client, name, name=name)


async def _task(net: SimNet, client: httpx.AsyncClient, name: str) -> None:
    number = 0
    while net.elapsed() < LENGTH:
        try:
            await client.get(path(number), headers={"x-request-id": f"{name}-{number}"})
        except httpx.TransportError as error:
            net.transcript(name, type(error).__name__)
        number += 1
        await anyio.sleep(0.25)


def decisions(net: SimNet) -> dict[str, list[Any]]:
    """What each worker has decided, with times: look-ups, dials, ends, errors."""
    found: dict[str, list[Any]] = {name: [] for name in NAMES}
    for line in net.transcript.lines:
        worker, _, dial = line.who.partition("/")
        words = ("looks up", "dials", "closes", "aborts", "Read", "Connect", "Pool", "Write")
        if worker in found and " at " not in dial and line.what.startswith(words):
            found[worker].append((line.at, dial, line.what))
    return found


if __name__ == "__main__":
    sys.stdout.write(play(sys.argv[1], int(sys.argv[2])).transcript.text())
