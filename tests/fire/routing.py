"""What the tests of balance and health share: equal pods, a load of so many calls a second, and
who was asked when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx

import outlast
from outlast.net.address import Address
from outlast.net.options import SocketPlan
from outlast.net.seam import Stream
from outlast.testing import Request, SimNet
from outlast.testing.simnet.net import SimNode
from outlast.testing.simnet.pod import Pod

URL = "http://orders.shop.svc:8080/"
ORIGIN = "http://orders.shop.svc:8080"

Serves = Callable[[Request], Any]


@dataclass
class Asked:
    """When each pod was asked, in seconds since the run began, by the pod's number."""

    at: list[tuple[float, int]] = field(default_factory=list)

    def shares(self, since: float = 0.0, until: float = float("inf")) -> Counter[int]:
        """How often each pod was asked in a stretch of time."""
        return Counter(pod for at, pod in self.at if since <= at < until)

    def share(self, pod: int, since: float = 0.0, until: float = float("inf")) -> float:
        """One pod's part of them."""
        shares = self.shares(since, until)
        return shares[pod] / max(1, shares.total())

    def peak(self, pod: int, since: float, until: float) -> int:
        """The most that a pod was asked in one second."""
        seconds = Counter(int(at) for at, who in self.at if who == pod and since <= at < until)
        return max(seconds.values(), default=0)


class Scene:
    """`count` pods, each on a node of its own, that answer after `takes` seconds; and what a
    static target of them is called. `faults[pod]` overrules a pod's answer while it is set."""

    def __init__(
        self, seed: int, count: int, *, takes: float = 0.005, per_node: int = 1, **options: Any
    ) -> None:
        self._pods_per_node = per_node
        self.net = SimNet(seed=seed, **options)
        self.asked = Asked()
        self.takes = [takes] * count
        self.faults: dict[int, Any] = {}
        self._tenth: dict[int, float] = {}
        self.dials: list[float] = []
        self._count_dials()
        self.pods = [self._pod(number) for number in range(count)]

    def _count_dials(self) -> None:
        dial = self.net.dial

        def counted(address: Address, plan: SocketPlan) -> Stream:
            self.dials.append(self.net.elapsed())
            return dial(address, plan)

        self.net.dial = counted  # type: ignore[method-assign]  # of this one network

    def dials_between(self, since: float, until: float) -> int:
        """Dials that were begun in a stretch of time."""
        return sum(since <= at < until for at in self.dials)

    def slow_tenth(self, pod: int, seconds: float) -> None:
        """Every tenth reply of a pod takes so long."""
        self._tenth[pod] = seconds

    def _takes(self, number: int) -> float:
        slow = self._tenth.get(number)
        if slow is not None and self.asked.shares()[number] % 10 == 0:
            return slow
        return self.takes[number]

    def _pod(self, number: int) -> Pod:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                return
            self.asked.at.append((self.net.elapsed(), number))
            if number in self.faults:
                status, wait = self.faults[number]
            else:
                status, wait = 200, self._takes(number)
            if wait:
                await anyio.sleep(wait)
            head = {"type": "http.response.start", "status": status, "headers": []}
            await send({**head, "headers": [(b"content-length", b"1")]})
            await send({"type": "http.response.body", "body": b"%d" % (number % 10)})

        name = f"n{number // self._pods_per_node}"
        node = self.net.nodes.get(name) or self.net.node(name)
        assert isinstance(node, SimNode)
        return node.pod(app=app, name=f"pod-{number}")

    @property
    def text(self) -> str:
        """The target of all pods."""
        return "static://" + ",".join(pod.address for pod in self.pods)

    def client(self, *, target: Any = None, **more: Any) -> httpx.AsyncClient:
        """A client of the target."""
        chosen = {ORIGIN: self.text if target is None else target}
        transport = outlast.AsyncTransport(network=self.net, targets=chosen, **more)
        return httpx.AsyncClient(transport=transport, timeout=5.0)


@dataclass
class Called:
    """What callers met: when each call began, how long it took, its status or its error."""

    calls: list[tuple[float, float, int | Exception]] = field(default_factory=list)

    def errors(self, since: float = 0.0) -> list[int | Exception]:
        """Calls that failed or brought no 200."""
        return [what for at, _, what in self.calls if at >= since and what != 200]

    def first_success(self, since: float) -> float:
        """When the first call after `since` was answered with 200."""
        return min(at + took for at, took, what in self.calls if what == 200 and at + took >= since)


async def steady(scene: Scene, client: httpx.AsyncClient, *, rate: float, until: float) -> Called:
    """So many calls a second, each begun at its time whether or not others are answered."""
    called = Called()

    async def one() -> None:
        began = scene.net.elapsed()
        what: int | Exception
        try:
            what = (await client.get(URL)).status_code
        except httpx.HTTPError as error:
            what = error
        called.calls.append((began, scene.net.elapsed() - began, what))

    async with anyio.create_task_group() as group:
        number = 0
        while scene.net.elapsed() < until:
            group.start_soon(one)
            number += 1
            await anyio.sleep(max(0.0, number / rate - scene.net.elapsed()))
    return called


async def crowd(scene: Scene, client: httpx.AsyncClient, *, workers: int, calls: int) -> Called:
    """Workers that call one after the other, `calls` in all."""
    called, left = Called(), calls

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began = scene.net.elapsed()
            status = (await client.get(URL)).status_code
            called.calls.append((began, scene.net.elapsed() - began, status))

    async with anyio.create_task_group() as group:
        for _ in range(workers):
            group.start_soon(work)
    return called
