"""Calls on the simulated network with somebody who listens: what is told, and in which order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx

import outlast
from outlast.core.report import report_of
from outlast.events import OutlastEvent
from outlast.net.seam import Wait
from outlast.testing import SimNet
from outlast.testing.simnet.net import SimNode
from tests.http.callers import run_now

KINDS = ("sync", "asyncio", "trio")
ORIGIN = "http://orders.shop.svc:8080"
URL = ORIGIN + "/"


class Shop:
    """Pods, each on a node of its own, behind a static target or a name, and a client of them."""

    def __init__(self, kind: str, count: int = 3, *, seed: int = 0, **more: Any) -> None:
        self.kind = kind
        self.net = SimNet(seed=seed)
        self.nodes: list[SimNode] = [self.net.node(f"n{number}") for number in range(count)]
        self.pods = [node.pod() for node in self.nodes]
        self.target = "static://" + ",".join(pod.address for pod in self.pods)
        self.timeout: float | None = more.pop("timeout", 5.0)
        self._more = {"targets": {ORIGIN: self.target}, **more}

    def configure(self, more: dict[str, Any]) -> None:
        """Further arguments of the transport."""
        self._more.update(more)

    def play(self, case: Callable[[Shop], Awaitable[None]]) -> None:
        """Run a case, which calls `get` and `nap`, and close its client."""
        if self.kind == "sync":
            transport = outlast.Transport(network=self.net, **self._more)
            with self.net.running(), httpx.Client(transport=transport, timeout=self.timeout) as c:
                self.client: Any = c
                self.transport: Any = transport

                async def now() -> None:
                    await case(self)

                run_now(now())
            return

        async def main() -> None:
            transport = outlast.AsyncTransport(network=self.net, **self._more)
            async with httpx.AsyncClient(transport=transport, timeout=self.timeout) as client:
                self.client, self.transport = client, transport
                await case(self)

        self.net.run(main, backend=self.kind)

    async def get(self, path: str = "", method: str = "GET", **more: Any) -> httpx.Response:
        """One call, its whole answer."""
        sent = self.client.request(method, URL + path, **more)
        response: httpx.Response = sent if self.kind == "sync" else await sent
        return response

    async def fails(self, path: str = "", method: str = "GET", **more: Any) -> httpx.TransportError:
        """One call that must fail."""
        try:
            response = await self.get(path, method, **more)
        except httpx.TransportError as error:
            return error
        raise AssertionError(f"{response} {report_of(response)}")

    async def nap(self, seconds: float) -> None:
        """Let virtual time pass."""
        if self.kind == "sync":
            self.net.sleep(seconds)
        else:
            await self.net.wait_async(Wait((), self.net.now() + seconds))


def names(told: Sequence[OutlastEvent]) -> list[str]:
    """The kinds of events, in order."""
    return [type(each).__name__ for each in told]


def of(told: Sequence[OutlastEvent], kind: type[Any]) -> list[Any]:
    """Those of one kind."""
    return [each for each in told if type(each) is kind]
