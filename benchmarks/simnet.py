"""What the simulated network costs: CPU per request, an incident, two thousand, an idle hour.

CPU time is this process's own, so that a busy machine says little; wall time is printed too. The
limits are those that the simulation is held to: the exit status says whether they hold.

Run: python -m benchmarks.simnet [rounds]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import anyio
import httpx

import outlast
from outlast.testing import SimNet
from tests.fire.incident import draw
from tests.fire.report import breaches

URL = "http://orders.shop.svc:8080/"
REQUESTS = 1000
WORKERS, PAUSE, LENGTH = 8, 1.0, 60.0

PER_REQUEST = 1.5  # ms of CPU beyond a transport that does nothing
INCIDENT = 1.5  # s of wall time
IDLE_HOUR = 0.050  # s
INCIDENTS = 2000  # of 30 s, with 4 workers that make up to 60 requests each, judged
SAMPLE = 20  # of them are played in each round
ALL_INCIDENTS = 240.0  # s on two cores


class Null(httpx.BaseTransport):
    """Answers without doing anything."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """A small answer."""
        return httpx.Response(200, content=b'{"pod": "a-1", "n": 1}', request=request)


def cluster(seed: int) -> SimNet:
    """Two nodes with a pod each; one loses power at 3 s, which is known at 43 s."""
    net = SimNet(seed=seed)
    a, b = net.node("a"), net.node("b")
    orders = net.service("orders.shop.svc:8080", pods=[a.pod(), b.pod()])
    net.at(3.0, a.power_off)
    net.at(43.0, orders.remove, a)
    return net


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of CPU and of wall time."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def asking(client: httpx.Client) -> None:
    """Requests, one after the other."""
    for _ in range(REQUESTS):
        client.get(URL)


def null_requests() -> float:
    """Milliseconds of CPU for a request that goes nowhere."""
    with httpx.Client(transport=Null()) as client:
        return timed(lambda: asking(client))[0] / REQUESTS * 1e3


def requests() -> float:
    """The same over the simulated network."""
    net = SimNet(seed=1)
    net.service("orders.shop.svc:8080", pods=[net.node("a").pod(), net.node("b").pod()])
    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        client.get(URL)
        return timed(lambda: asking(client))[0] / REQUESTS * 1e3


def in_threads(net: SimNet) -> None:
    """The incident for simulated threads."""

    def work() -> None:
        while net.elapsed() < LENGTH:
            client.get(URL)
            net.sleep(PAUSE)

    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        net.gather(*[work] * WORKERS)


async def in_tasks(net: SimNet) -> None:
    """The incident for tasks."""
    transport = outlast.AsyncTransport(network=net)
    async with httpx.AsyncClient(transport=transport) as client:

        async def work() -> None:
            while net.elapsed() < LENGTH:
                await client.get(URL)
                await anyio.sleep(PAUSE)

        async with anyio.create_task_group() as group:
            for number in range(WORKERS):
                group.start_soon(work, name=f"w{number}")


def incident(world: str, seed: int) -> tuple[float, float]:
    """Seconds of CPU and of wall time for the incident."""
    net = cluster(seed)
    if world == "threads":
        return timed(lambda: in_threads(net))
    return timed(lambda: net.run(in_tasks, net, backend=world))


def idle_hour() -> float:
    """Seconds of wall time for an hour in which ten connections do nothing but keep alive."""
    net = SimNet(seed=1)
    pod = net.node("a").pod()
    policy = outlast.Policy(idle_expiry=1e6, max_age=1e6)
    limits = httpx.Limits(max_keepalive_connections=10, keepalive_expiry=None)
    transport = outlast.Transport(network=net, policy=policy, limits=limits)
    with net.running(), httpx.Client(transport=transport) as client:
        net.gather(*[lambda: client.get(f"{pod.url}/?delay=1")] * 10)
        wall = timed(lambda: net.sleep(3600))[1]
        if pod.counts()["open"] != 10:
            raise RuntimeError("the connections did not stay")
        return wall


def random_incidents(first: int) -> float:
    """Seconds of CPU for two thousand on two cores, by a sample of them."""

    def play() -> None:
        for seed in range(first, first + SAMPLE):
            found, _ = breaches(draw(seed, full=True))
            if found:
                raise RuntimeError(found[0])

    return timed(play)[0] / SAMPLE * INCIDENTS / 2


def main(rounds: int) -> int:
    """Measure, print, judge."""
    verdicts = []

    def tell(what: str, value: float, unit: str, limit: float) -> None:
        verdicts.append(value <= limit)
        held = "held" if verdicts[-1] else "NOT HELD"
        print(f"{what:<58} {value:8.3f} {unit:<3} (at most {limit:g}: {held})")

    null = statistics.median(null_requests() for _ in range(rounds))
    ours = statistics.median(requests() for _ in range(rounds))
    tell(f"CPU per request beyond a null transport ({null:.3f} ms)", ours - null, "ms", PER_REQUEST)
    for world in ("threads", "asyncio", "trio"):
        incident(world, 0)  # imports
        found = [incident(world, seed) for seed in range(rounds)]
        cpu = statistics.median(cpu for cpu, _ in found)
        wall = statistics.median(wall for _, wall in found)
        tell(f"incident of 60 s, 8 workers, {world} (CPU {cpu:.3f} s)", wall, "s", INCIDENT)
    found_all = [random_incidents(SAMPLE * number) for number in range(rounds)]
    total = statistics.mean(found_all)
    tell(f"{INCIDENTS} random incidents, on two cores", total, "s", ALL_INCIDENTS)
    tell("idle hour, 10 connections", min(idle_hour() for _ in range(rounds)), "s", IDLE_HOUR)
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
