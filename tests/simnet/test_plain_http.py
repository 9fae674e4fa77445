"""Plain httpx on the simulated network: it meets what it would meet on the real one."""

from __future__ import annotations

import ssl
from typing import Any

import anyio
import httpx
import pytest
import trustme

import outlast
from outlast.testing import SimNet

URL = "http://orders.shop.svc:8080/"


@pytest.fixture(params=["sync", "asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ask(net: SimNet, backend: str, url: str, *, plain: bool = True, **more: Any) -> httpx.Response:
    """One GET, by plain httpx or by outlast, in a world of its own."""
    timeout = more.pop("timeout", 5.0)
    if backend == "sync":
        one = net.httpx_transport(**more) if plain else outlast.Transport(network=net, **more)
        with net.running(), httpx.Client(transport=one, timeout=timeout) as client:
            return client.get(url)

    async def main() -> httpx.Response:
        one = (
            net.async_httpx_transport(**more)
            if plain
            else outlast.AsyncTransport(network=net, **more)
        )
        async with httpx.AsyncClient(transport=one, timeout=timeout) as client:
            return await client.get(url)

    return net.run(main, backend=backend)


def test_a_get(backend: str) -> None:
    net = SimNet(seed=1)
    net.service("orders.shop.svc:8080", pods=[net.node("a").pod()])
    assert ask(net, backend, URL).json() == {"pod": "a-1", "n": 1}


def test_a_dead_pod_behind_a_vip_is_a_time_out_for_plain_httpx(backend: str) -> None:
    net = SimNet(seed=1)
    a = net.node("a")
    net.service("orders.shop.svc:8080", pods=[a.pod()])
    a.power_off()
    with pytest.raises(httpx.ConnectTimeout):
        ask(net, backend, URL, timeout=2.0)
    assert net.elapsed() == pytest.approx(2, abs=0.01)


def test_what_is_refused_is_a_connect_error(backend: str) -> None:
    net = SimNet(seed=1)
    pod = net.node("a").pod()
    pod.kill()
    with pytest.raises(httpx.ConnectError, match="refused"):
        ask(net, backend, pod.url)


def test_a_name_that_is_not_known_is_a_connect_error(backend: str) -> None:
    with pytest.raises(httpx.ConnectError, match="not known"):
        ask(SimNet(), backend, URL)


def test_a_slow_answer_is_a_read_time_out(backend: str) -> None:
    net = SimNet(seed=1)
    pod = net.node("a").pod()
    with pytest.raises(httpx.ReadTimeout):
        ask(net, backend, f"{pod.url}/?delay=9", timeout=3.0)
    assert net.elapsed() == pytest.approx(3, abs=0.01)


def test_addresses_are_tried_as_the_real_clients_do(backend: str) -> None:
    """In threads one after the other, on loops 250 ms apart."""
    net = SimNet(seed=1)
    dead, alive = net.node("a"), net.node("b")
    net.service("orders.shop.svc:8080", pods=[dead.pod(), alive.pod()], headless=True)
    dead.black_hole()
    assert ask(net, backend, URL, timeout=3.0).status_code == 200
    assert net.elapsed() == pytest.approx(3 if backend == "sync" else 0.25, abs=0.01)


@pytest.mark.parametrize("plain", [True, False])
def test_tls(backend: str, plain: bool) -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("orders.shop.svc").configure_cert(server)
    verify = ssl.create_default_context()
    authority.configure_trust(verify)
    with SimNet(seed=1) as net:
        net.service("orders.shop.svc:443", pods=[net.node("a").pod(tls=server)])
        url = "https://orders.shop.svc/?size=300000"
        response = ask(net, backend, url, plain=plain, verify=verify)
        assert len(response.content) == 300_000
        with pytest.raises(httpx.ConnectError):
            ask(net, backend, url, plain=plain)


def test_the_incident_beside_outlast() -> None:
    """The same seed, the same outage: one of them has errors."""

    def errors(make: Any) -> int:
        net = SimNet(seed=5)
        a, b = net.node("a"), net.node("b")
        net.service("orders.shop.svc:8080", pods=[a.pod(), b.pod()])
        net.at(1.0, a.power_off)
        found: list[str] = []

        async def main() -> None:
            async with httpx.AsyncClient(transport=make(net), timeout=1.0) as client:
                while net.elapsed() < 20:
                    try:
                        await client.get(URL, headers={"connection": "close"})
                    except httpx.TransportError as error:
                        found.append(type(error).__name__)
                    await anyio.sleep(0.2)

        net.run(main)
        return len(found)

    assert errors(lambda net: net.async_httpx_transport()) > 3
    assert errors(lambda net: outlast.AsyncTransport(network=net)) == 0
