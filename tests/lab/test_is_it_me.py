"""Is it me? What is our own fault is held against no endpoint: through the transports, on a kernel.

A loop that stands still, a client process that is stopped, and our own cable pulled out, each with
requests in flight to machines that are well. No endpoint is marked, nothing is sent twice, and no
connection more is made than was needed. The same for sockets: test_liveness.py.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

import anyio
import httpx
import pytest

import outlast
from outlast.net.kernel import kernel
from outlast.service.table import service_of
from outlast.target import target_of
from outlast.testing import KernelLab
from outlast.testing.pod import total
from outlast.testing.service import Service
from tests.house.sources import ROOT
from tests.lab.asker import PROGRAM, WARM
from tests.lab.test_liveness_http import FULL, pause
from tests.lab.wire import PATIENCE, state

WORLDS = ("threads", "asyncio", "trio")
AWAY = 4.0  # seconds; a dead peer would be suspect by then, whatever state the request is in


class Shop:
    """Two nodes, and a VIP over them for each world that asks."""

    def __init__(self, lab: KernelLab, worlds: Sequence[str]) -> None:
        self.pods = [lab.node(name).pod() for name in ("a", "b")]
        for pod in self.pods:
            pod.wait_ready()
        self.services = {
            world: lab.service(f"{world}.shop.svc:8080", pods=self.pods) for world in worlds
        }

    def counts(self) -> tuple[int, int]:
        """Requests and connections of all pods."""
        found = total(pod.counts() for pod in self.pods)
        return found["requests"], found["connections"]

    def marked(self) -> list[str]:
        """What this process holds against the VIPs."""
        return [entry for service in self.services.values() for entry in marked(service)]


def together(work: Callable[[str], None], worlds: Sequence[str]) -> list[threading.Thread]:
    """`work(world)` for each, in threads that have begun."""
    threads = [threading.Thread(target=work, args=(world,)) for world in worlds]
    for thread in threads:
        thread.start()
    return threads


def join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join(3 * PATIENCE)
        assert not thread.is_alive()


def marked(service: Service) -> list[str]:
    """What this process holds against the Service's address."""
    known = service_of(target_of(service.host, service.port), kernel())
    out = known.look(lambda roster: [e for e in roster if not e.health._clean])
    return [f"{endpoint.key}: {endpoint.health.why}" for endpoint in out]


def untroubled(answer: httpx.Response) -> None:
    assert answer.status_code == 200
    report = outlast.report_of(answer)
    assert report is not None
    assert report.of_phase("request") == [], str(report)


# -- a loop that stands still ------------------------------------------------------------------


@pytest.mark.parametrize("rtt", [0.0, 0.2] if FULL else [0.2])
def test_a_loop_that_stands_still(lab: KernelLab, rtt: float) -> None:
    """Right after the requests have left, so that ACKs and answers wait to be looked at; and once
    more while answers are awaited for longer. With a long way to go the ACK is not there yet."""
    backends = ("asyncio", "trio")
    shop = Shop(lab, backends)
    for pod in shop.pods:
        pod.node.delay(rtt)
    answers: list[httpx.Response] = []

    async def main(url: str) -> None:
        transport = outlast.AsyncTransport()
        async with httpx.AsyncClient(transport=transport, timeout=None) as client:

            async def one(query: str) -> None:
                answers.append(await client.get(url + query))

            async with anyio.create_task_group() as group:
                for number in range(10):
                    group.start_soon(one, f"?delay=2&i={number}")
                await anyio.sleep(rtt * 2 + 0.05)
                stand_still(1.0)
                await anyio.sleep(0.3)
                stand_still(0.8)
            async with anyio.create_task_group() as group:
                for number in range(10):
                    group.start_soon(one, f"?i={number}")
                await anyio.sleep(0.001)
                stand_still(0.6)

    def work(backend: str) -> None:
        anyio.run(main, shop.services[backend].url, backend=backend)

    with lab.running():
        join(together(work, backends))
    for answer in answers:
        untroubled(answer)
    assert shop.counts() == (40, 20)
    assert shop.marked() == []


def stand_still(seconds: float) -> None:
    """Whatever blocks a loop."""
    time.sleep(seconds)


# -- a process that is stopped -----------------------------------------------------------------


def test_clients_that_are_stopped_for_a_while(lab: KernelLab) -> None:
    """For four seconds in the middle of an answer that takes two, by the process's own number."""
    shop = Shop(lab, WORLDS)
    with lab.running(), contextlib.ExitStack() as stack:
        clients = []
        for world, service in shop.services.items():
            command = [*PROGRAM, world, f"{service.url}?delay=2", "1"]
            client = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
            stack.enter_context(client)
            stack.callback(client.kill)
            clients.append(client)
        until(lambda: shop.counts()[0] == len(clients) * (WARM + 1))
        for client in clients:
            client.send_signal(signal.SIGSTOP)
        for client in clients:
            until(lambda client=client: state(client.pid) == "T")  # type: ignore[misc]  # bound now
        pause(AWAY)
        for client in clients:
            client.send_signal(signal.SIGCONT)
        found = [json.loads(client.communicate(timeout=3 * PATIENCE)[0]) for client in clients]
    for told in found:
        assert told["statuses"] == [200]
        assert told["slowest"] > AWAY
        assert "suspect" not in told["report"]
    assert shop.counts() == (len(clients) * (WARM + 1), len(clients))


def until(true: Callable[[], bool]) -> None:
    """Wait for something, with a bound."""
    end = time.monotonic() + 2 * PATIENCE
    while not true():
        assert time.monotonic() < end
        pause(0.02)


# -- our own link ------------------------------------------------------------------------------


@pytest.mark.parametrize("away", [AWAY, AWAY + 1.5] if FULL else [AWAY])
def test_our_own_cable_is_out_for_a_while(lab: KernelLab, away: float) -> None:
    """With requests that were acknowledged before, and some that are sent into the void. When the
    link is back the kernel may take two seconds until it repeats them."""
    shop = Shop(lab, WORLDS)
    answers: list[httpx.Response] = []
    warm, out = threading.Barrier(len(WORLDS) + 1, timeout=PATIENCE), threading.Event()

    def work(world: str) -> None:
        url = shop.services[world].url
        if world == "threads":
            with httpx.Client(transport=outlast.Transport(), timeout=None) as client:
                answers.append(client.get(url))
                wait()
                answers.append(client.get(f"{url}?late"))
        else:
            anyio.run(in_loop, url, backend=world)

    async def in_loop(url: str) -> None:
        transport = outlast.AsyncTransport()
        async with httpx.AsyncClient(transport=transport, timeout=None) as client:
            answers.append(await client.get(url))
            wait()
            answers.append(await client.get(f"{url}?late"))

    def wait() -> None:
        warm.wait()
        assert out.wait(PATIENCE)

    def early(world: str) -> None:
        with httpx.Client(transport=outlast.Transport(), timeout=None) as client:
            answers.append(client.get(f"{shop.services[world].url}?delay=2"))

    with lab.running():
        threads = together(work, WORLDS)
        warm.wait()
        threads += together(early, WORLDS)
        until(lambda: shop.counts()[0] == 2 * len(WORLDS))
        pause(0.3)
        lab.client.unplug()
        out.set()
        pause(away)
        lab.client.heal()
        join(threads)
    assert len(answers) == 3 * len(WORLDS)
    for answer in answers:
        untroubled(answer)
    assert shop.counts() == (3 * len(WORLDS), 2 * len(WORLDS))
    assert shop.marked() == []
