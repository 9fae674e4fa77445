"""Requests in flight and idle pools on the kernel, when a machine behind a VIP loses power.

The same in virtual time, with more seeds and longer: tests/http/test_liveness_simnet.py.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import httpx

import outlast
from outlast.net.kernel import kernel
from outlast.net.run import run_sync, sleep_until
from outlast.testing import KernelLab
from outlast.testing.node import Node
from outlast.testing.service import Service
from tests.lab import handlers
from tests.lab.wire import PATIENCE

FULL = bool(os.environ.get("OUTLAST_FULL"))
POOL = 100
LIMITS = httpx.Limits(max_connections=200, max_keepalive_connections=200)

# Puts questions to a client in a thread of its own, or in an event loop: (url) -> (seconds, pod).
Asked = tuple[float, str]


def ask(url: str, warm: str, then: Callable[[str], None]) -> Asked:
    """One GET without a read timeout on the connection that has answered `warm`; `then(pod)` is
    called between the two, with the pod that holds it."""
    with httpx.Client(transport=outlast.Transport(), timeout=None) as client:
        then(client.get(warm).json()["pod"])
        began = time.monotonic()
        pod = client.get(url).json()["pod"]
        return time.monotonic() - began, pod


async def ask_async(url: str, warm: str, then: Callable[[str], None]) -> Asked:
    async with httpx.AsyncClient(transport=outlast.AsyncTransport(), timeout=None) as client:
        then((await client.get(warm)).json()["pod"])
        began = time.monotonic()
        pod = (await client.get(url)).json()["pod"]
        return time.monotonic() - began, pod


def in_loop(backend: str) -> Callable[..., Asked]:
    def run(url: str, warm: str, then: Callable[[str], None]) -> Asked:
        return anyio.run(ask_async, url, warm, then, backend=backend)

    return run


WORLDS: dict[str, Callable[..., Asked]] = {
    "threads": ask,
    "asyncio": in_loop("asyncio"),
    "trio": in_loop("trio"),
}


class Shop:
    """Two nodes behind a VIP."""

    def __init__(self, lab: KernelLab, name: str) -> None:
        self.nodes: list[Node] = [lab.node(f"{name}-a"), lab.node(f"{name}-b")]
        pods = [node.pod() for node in self.nodes]
        self.service: Service = lab.service(f"{name}.shop.svc:8080", pods=pods)
        for pod in pods:
            pod.wait_ready()

    def holder(self, pod: str) -> Node:
        return next(node for node in self.nodes if node.pods[0].name == pod)


def pause(seconds: float) -> None:
    """Connections lie idle for so long."""
    run_sync(kernel(), sleep_until(kernel().now() + seconds))


def bound() -> float:
    """Seconds: what is promised; more where every process waits for a core."""
    return 0.25 if os.getloadavg()[0] < 1.5 * (os.cpu_count() or 1) else 1.5


def under_load() -> str:
    """What a time has to be read with."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def each_on_its_own(client: httpx.Client, url: str, count: int) -> float:
    """So many GETs, each on a connection of its own: none is free while its answer is unread. The
    seconds of the slowest."""
    answers, slowest = [], 0.0
    for _ in range(count):
        began = time.monotonic()
        answers.append(client.send(client.build_request("GET", url), stream=True))
        slowest = max(slowest, time.monotonic() - began)
    for answer in answers:
        assert answer.status_code == 200
        answer.read()
    return slowest


def test_in_flight_when_the_machine_dies(lab: KernelLab, figures: Callable[[str], None]) -> None:
    """All worlds at once: a request that its kernel never got, one that it had acknowledged."""
    results: dict[str, tuple[Asked, float]] = {}

    def run(name: str, world: str, shop: Shop, query: str, loss: float) -> None:
        lost = [0.0]

        def lose(pod: str) -> None:
            def off() -> None:
                lost[0] = time.monotonic()
                shop.holder(pod).power_off()

            if loss:
                timer = threading.Timer(loss, off)
                timers.append(timer)
                timer.start()
            else:
                off()

        began = time.monotonic()
        asked = WORLDS[world](shop.service.url + query, shop.service.url, lose)
        results[name] = asked, time.monotonic() - max(lost[0], began)

    timers: list[threading.Timer] = []
    shops = {
        (kind, world): Shop(lab, f"{kind}-{world}")
        for kind in ("unacked", "acked")
        for world in WORLDS
    }
    with lab.running():
        threads = [
            threading.Thread(
                target=run,
                args=(
                    f"{kind}, {world}",
                    world,
                    shop,
                    "?delay=2" if kind == "acked" else "",
                    0.5 if kind == "acked" else 0.0,
                ),
            )
            for (kind, world), shop in shops.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert len(results) == len(shops)
    for name, (_, seconds) in results.items():
        figures(f"answered elsewhere, {name}: {seconds:.2f} s after the loss")
        assert seconds < (1.0 if name.startswith("unacked") else 4.5 + 2.0)


def test_a_pool_of_a_hundred_when_a_node_dies_while_it_is_idle(
    lab: KernelLab, figures: Callable[[str], None]
) -> None:
    """All succeed, none takes long: one finds it out, and the others are asked together."""
    shop = Shop(lab, "idle")
    url = shop.service.url
    with lab.running(), httpx.Client(transport=outlast.Transport(limits=LIMITS)) as client:
        each_on_its_own(client, url, POOL)
        pause(1.2)
        shop.nodes[0].power_off()
        slowest = each_on_its_own(client, url, POOL)
        figures(f"slowest of 100 GETs on the idle pool: {slowest:.3f} s, {under_load()}")
        assert slowest <= bound()


def test_after_the_network_heals_the_pool_works_at_once(
    lab: KernelLab, figures: Callable[[str], None]
) -> None:
    """Both machines were away while nobody asked: no connection is made anew."""
    shop = Shop(lab, "healed")
    url = shop.service.url
    with lab.running(), httpx.Client(transport=outlast.Transport(limits=LIMITS)) as client:
        each_on_its_own(client, url, POOL)
        for node in shop.nodes:
            node.black_hole()
        pause(3.0 if FULL else 1.5)
        for node in shop.nodes:
            node.heal()
        before = connections(shop)
        slowest = each_on_its_own(client, url, POOL)
        figures(f"slowest of 100 GETs on a healed pool: {slowest:.3f} s, {under_load()}")
        assert slowest <= bound()
        assert connections(shop) == before == POOL


def connections(shop: Shop) -> int:
    return sum(node.pods[0].counts()["connections"] for node in shop.nodes)


def test_posts_on_an_idle_pool_when_a_node_dies(
    lab: KernelLab, figures: Callable[[str], None]
) -> None:
    """Each is asked first, so that each is applied once: none meets the dead machine."""
    shop = Shop(lab, "posts")
    url = shop.service.url
    with lab.running(), httpx.Client(transport=outlast.Transport(limits=LIMITS)) as client:
        each_on_its_own(client, url, 20)
        pause(1.2)
        shop.nodes[0].power_off()
        slowest = 0.0
        for _ in range(20):
            began = time.monotonic()
            assert client.post(url).status_code == 200
            slowest = max(slowest, time.monotonic() - began)
        figures(f"slowest of 20 POSTs on the idle pool: {slowest:.3f} s, {under_load()}")
        assert slowest <= bound()
    applied: Any = [node.pods[0].counts()["methods"].get("POST", 0) for node in shop.nodes]
    assert applied == [0, 20]


def test_a_slow_answer_is_left_alone(lab: KernelLab) -> None:
    """60 s of the promise, pressed into as many as there is patience for."""
    shop = Shop(lab, "slow")
    wait = 60.0 if FULL else 3.5

    async def main() -> None:
        transport = outlast.AsyncTransport(limits=LIMITS)
        async with httpx.AsyncClient(transport=transport, timeout=None) as client:

            async def one() -> None:
                response = await client.get(f"{shop.service.url}?delay={wait}")
                assert response.status_code == 200
                assert [e.what for e in response.extensions["outlast"].of_phase("request")] == []

            async with anyio.create_task_group() as group:
                for _ in range(50):
                    group.start_soon(one)

    job: Callable[[], Coroutine[Any, Any, None]] = main
    with lab.running():
        anyio.run(job)
    counts = [node.pods[0].counts() for node in shop.nodes]
    assert sum(each["requests"] for each in counts) == 50
    assert sum(each["connections"] for each in counts) == 50


# -- a reader that pauses ------------------------------------------------------------------------

SIZE = 20_000_000  # bytes; more than both kernels hold
PAUSE = 60.0 if FULL else 4.0  # seconds
HURRIED = outlast.Policy() if FULL else outlast.Policy(user_timeout=2.0, keepalive=(1, 1, 1))


def test_an_upload_to_a_reader_that_pauses_goes_on(
    lab: KernelLab, figures: Callable[[str], None]
) -> None:
    """Twice as long as the user timeout that stands while its window is open."""
    pod = lab.node("slow").pod(raw=handlers.pause_uploads)
    pod.wait_ready()
    url, received = f"{pod.url}/{PAUSE:g}/", dict[str, tuple[str, float]]()

    def work(world: str) -> None:
        began = time.monotonic()
        if world == "threads":
            with httpx.Client(transport=outlast.Transport(policy=HURRIED), timeout=None) as client:
                text = client.post(url, content=bytes(SIZE)).text
        else:
            text = anyio.run(upload, backend=world)
        received[world] = text, time.monotonic() - began

    async def upload() -> str:
        transport = outlast.AsyncTransport(policy=HURRIED)
        async with httpx.AsyncClient(transport=transport, timeout=None) as client:
            return (await client.post(url, content=bytes(SIZE))).text

    with lab.running():
        threads = [threading.Thread(target=work, args=(world,)) for world in WORLDS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PAUSE + 2 * PATIENCE)
            assert not thread.is_alive()
    told = ", ".join(f"{world} {took:.1f} s" for world, (_, took) in sorted(received.items()))
    figures(f"20 MB to a reader that pauses for {PAUSE:g} s: {told}")
    assert {world: text for world, (text, _) in received.items()} == dict.fromkeys(
        WORLDS, str(SIZE)
    )
    assert pod.counts()["connections"] == len(WORLDS)
