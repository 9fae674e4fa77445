"""A shared connection whose peer says nothing more takes no new request; those under way stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

import outlast
from outlast.testing import SimNet
from tests.fire.h2_pod import Books, serve_h2
from tests.http.callers import report_of

URL = "http://orders.shop.svc/"
BACKENDS = ["asyncio", "trio"]


class Shop:
    """One pod that speaks HTTP/2, and a client of it."""

    def __init__(self, streams: int = 100) -> None:
        self.net = SimNet()
        self.pod = self.net.node("a").pod(serve_h2(Books(), 0, streams), port=80)
        self.client: httpx.AsyncClient
        self.ports: dict[str, int] = {}

    async def ask(self, name: str, query: str = "", timeout: float | None = None) -> Any:
        """A status, or the exception's name."""
        url, headers = f"http://{self.pod.host}/{query}", {"x-request-id": name}
        try:
            response = await self.client.get(url, headers=headers, timeout=timeout)
        except httpx.TransportError as error:
            self.ports[name] = report_of(error).events[-1].local_port
            return type(error).__name__
        self.ports[name] = report_of(response).events[-1].local_port
        return response.status_code

    def run(self, backend: str, main: Callable[[], Any]) -> None:
        async def whole() -> None:
            transport = outlast.AsyncTransport(network=self.net, http1=False, http2=True)
            async with httpx.AsyncClient(transport=transport) as self.client:
                await main()

        with self.net:
            self.net.run(whole, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_after_a_timeout_others_begin_elsewhere_and_those_under_way_are_answered(
    backend: str,
) -> None:
    shop = Shop()
    results: dict[str, Any] = {}

    async def main() -> None:
        async def waits() -> None:
            results["sibling"] = await shop.ask("sibling")

        await shop.ask("first")
        shop.pod.freeze()
        async with anyio.create_task_group() as group:
            group.start_soon(waits)
            results["timed out"] = await shop.ask("timed out", timeout=1.0)
            shop.net.at(3.0, shop.pod.thaw)
            results["later"] = await shop.ask("later", timeout=5.0)

    shop.run(backend, main)
    assert results == {"timed out": "ReadTimeout", "sibling": 200, "later": 200}
    assert shop.ports["sibling"] == shop.ports["timed out"] == shop.ports["first"]
    assert shop.ports["later"] != shop.ports["first"]
    assert shop.pod.counts()["connections"] == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_where_others_are_answered_one_timeout_tells_nothing(backend: str) -> None:
    shop = Shop()

    async def main() -> None:
        async def busy() -> None:
            for number in range(20):
                await shop.ask(f"quick-{number}")
                await anyio.sleep(0.3)

        async with anyio.create_task_group() as group:
            group.start_soon(busy)
            await anyio.sleep(0.1)
            for number in range(3):
                assert await shop.ask(f"{number}", "?delay=9", timeout=1.0) == "ReadTimeout"

    shop.run(backend, main)
    assert len(set(shop.ports.values())) == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("times", "kept"), [(1, True), (2, False)])
def test_one_quick_cancellation_tells_nothing_two_do(backend: str, times: int, kept: bool) -> None:
    shop = Shop()

    async def main() -> None:
        await shop.ask("first")
        for _ in range(times):
            with anyio.move_on_after(0.2):
                await shop.ask("cancelled", "?delay=5")
        await shop.ask("then")

    shop.run(backend, main)
    assert (shop.ports["then"] == shop.ports["first"]) is kept


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_heard_between_two_cancellations_counts(backend: str) -> None:
    shop = Shop()

    async def main() -> None:
        for number in range(5):
            await shop.ask(f"answered-{number}")
            with anyio.move_on_after(0.2):
                await shop.ask("cancelled", "?delay=5")

    shop.run(backend, main)
    assert shop.pod.counts()["connections"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_who_waits_to_begin_is_sent_elsewhere(backend: str) -> None:
    """The server takes one stream at a time, and is frozen."""
    shop = Shop(streams=1)
    results: dict[str, Any] = {}

    async def main() -> None:
        async def waits() -> None:
            await anyio.sleep(0.5)
            results["waits"] = await shop.ask("waits")

        await shop.ask("first")
        shop.pod.freeze()
        shop.net.at(3.0, shop.pod.thaw)
        async with anyio.create_task_group() as group:
            group.start_soon(waits)
            results["first"] = await shop.ask("times out", timeout=1.0)

    shop.run(backend, main)
    assert results == {"first": "ReadTimeout", "waits": 200}
    assert shop.ports["waits"] != shop.ports["first"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_who_waits_to_begin_is_sent_elsewhere_as_soon_as_the_machine_is_suspect(
    backend: str,
) -> None:
    """The server has not said yet how many streams it takes when its machine loses power. Neither
    request is safe to repeat, but of the second nothing was sent."""
    shop = Shop()
    net, spare = shop.net, shop.net.node("b")
    spare.pod(serve_h2(Books(), 0, 100), port=80)
    nodes = [net.nodes["a"], spare]
    net.service("orders.shop.svc:80", pods=[node.pods[0] for node in nodes])

    async def first(client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.ReadError, match="read from"):
            await client.post(URL)

    async def main() -> None:
        for node in nodes:
            node.pods[0].freeze()
        transport = outlast.AsyncTransport(network=net, http1=False, http2=True)
        async with httpx.AsyncClient(transport=transport, timeout=60.0) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(first, client)
                await anyio.sleep(0.5)
                for node in nodes:
                    node.power_off() if node.kernel.connections else node.pods[0].thaw()
                response = await client.post(URL, headers={"x-request-id": "second"})
                assert net.elapsed() < 4.0
                told = str(report_of(response))
                assert "reused" in told
                assert "the server is suspect" in told

    shop.run(backend, main)
