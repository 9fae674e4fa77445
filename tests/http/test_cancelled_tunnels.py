"""Cancelled, or interrupted, at every wait on the way through a proxy or a Unix socket."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest

import outlast
from tests.http.cases.proxies import secure_proxy
from tests.http.cases.tls import client_context, server_context
from tests.http.proxy_servers import http_proxy, socks_proxy
from tests.http.servers import BOUND, Server, serve
from tests.http.test_cancellation import ONE, CutNetwork, at_rest

WAYS = ["http", "https", "socks5", "uds"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    """A URL of a TLS server, and the arguments that lead to it on one of the ways."""
    context = server_context("orders", "127.0.0.1")
    with contextlib.ExitStack() as stack:
        if request.param == "uds":
            path = f"{stack.enter_context(tempfile.TemporaryDirectory(prefix='outlast-'))}/s"
            stack.enter_context(Server(serve, context=context, path=path))
            yield "https://orders", {"uds": path}
            return
        origin = stack.enter_context(Server(serve, context=context))
        handler = socks_proxy() if request.param == "socks5" else http_proxy()
        secure = secure_proxy() if request.param == "https" else None
        proxy = stack.enter_context(Server(handler, context=secure))
        own = client_context() if secure is not None else None
        url = f"{request.param}://{proxy.address}"
        yield origin.url, {"proxy": httpx.Proxy(url, ssl_context=own)}


def arguments(network: CutNetwork, more: dict[str, Any]) -> dict[str, Any]:
    return {"network": network, "limits": ONE, "verify": client_context(), **more}


@pytest.mark.anyio
async def test_cancelled_at_every_wait(way: tuple[str, dict[str, Any]]) -> None:
    url, more = way
    network = CutNetwork()
    transport = outlast.AsyncTransport(**arguments(network, more))
    async with httpx.AsyncClient(transport=transport, timeout=BOUND) as client:
        for at in range(1, 100):
            network.waits, network.at = 0, at
            with anyio.CancelScope() as scope:
                network.cut = scope.cancel
                await client.post(url, content=b"x")
            at_rest(transport)
            network.at = 0
            assert (await client.get(f"{url}/next-{at}")).text == f"/next-{at}"
            at_rest(transport)
            if not scope.cancelled_caught and network.waits < at:
                break
            transport._engine.close()
        assert at >= 3


def test_interrupted_at_every_wait(way: tuple[str, dict[str, Any]]) -> None:
    url, more = way

    def interrupt() -> None:
        raise KeyboardInterrupt

    network = CutNetwork()
    network.cut = interrupt
    transport = outlast.Transport(**arguments(network, more))
    with httpx.Client(transport=transport, timeout=BOUND) as client:
        for at in range(1, 100):
            network.waits, network.at = 0, at
            through = False
            with contextlib.suppress(KeyboardInterrupt):
                client.post(url, content=b"x")
                through = True
            at_rest(transport)
            network.at = 0
            assert client.get(f"{url}/next-{at}").text == f"/next-{at}"
            at_rest(transport)
            if through:
                break
            transport.close()
        assert at >= 3
