"""Uploads to readers that pause, over minutes of virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import httpx
import pytest

import outlast
from outlast.testing import SimNet

SIZE = 20_000_000  # bytes; more than both kernels hold
PAUSES = (15.0, 60.0, 150.0)  # seconds; the gaps between window probes grow to as long


def pausing(pause: float) -> Any:
    """A server that reads the request's head, pauses, reads the rest and answers."""

    async def serve(reader: Any, writer: Any) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += await reader.read(1000)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), pause)
        total = len(head.partition(b"\r\n\r\n")[2])
        while total < SIZE:
            total += len(await reader.read(1 << 20))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()

    return serve


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("pause", PAUSES)
def test_a_reader_that_pauses_keeps_its_connection(pause: float, method: str) -> None:
    net = SimNet()
    pod = net.node("a").pod(pausing(pause), port=80)
    url = f"http://{pod.host}/"
    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        response = client.request(method, url, content=bytes(SIZE), timeout=None)
        assert response.text == "ok"
        assert net.elapsed() > pause
    assert pod.counts()["connections"] == 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_so_it_is_in_an_event_loop(backend: str) -> None:
    net = SimNet()
    pod = net.node("a").pod(pausing(60.0), port=80)

    async def main() -> str:
        transport = outlast.AsyncTransport(network=net)
        async with httpx.AsyncClient(transport=transport, timeout=None) as client:
            return (await client.post(f"http://{pod.host}/", content=bytes(SIZE))).text

    assert net.run(main, backend=backend) == "ok"
    assert pod.counts()["connections"] == 1
