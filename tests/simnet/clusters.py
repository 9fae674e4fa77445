"""Small clusters, and clients on them."""

from __future__ import annotations

from typing import Any

import httpx

import outlast
from outlast.testing import SimNet

NAME = "orders.shop.svc:8080"
URL = f"http://{NAME}/"


def two_nodes(seed: int = 7, serves: Any = None) -> SimNet:
    net = SimNet(seed=seed)
    pods = [net.node(name).pod(serves) for name in ("a", "b")]
    net.service(NAME, pods=pods)
    return net


def pods_of(net: SimNet) -> list[Any]:
    return [pod for node in net.nodes.values() for pod in node.pods]


def client(net: SimNet, **more: Any) -> httpx.Client:
    return httpx.Client(transport=outlast.Transport(network=net, **more))


def async_client(net: SimNet, **more: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=outlast.AsyncTransport(network=net, **more))


def get(net: SimNet, backend: str, url: str) -> httpx.Response:
    """One GET in a world of its own."""
    if backend == "sync":
        with net.running(), client(net) as sync:
            return sync.get(url)

    async def main() -> httpx.Response:
        async with async_client(net) as one:
            return await one.get(url)

    return net.run(main, backend=backend)
