"""FR-50: the event loop's default executor is taken, and the resolver hangs.

Whatever looks names up in that executor waits for a thread that does not come, cannot be cancelled
there, and keeps the loop from closing. This library's look-ups have threads of their own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

import httpx
import pytest

import outlast
from outlast.net.address import Address, literal
from outlast.net.kernel import KernelNetwork
from tests.http.servers import Server, answering

JOBS = 40  # more than any default executor has threads on two cores
CALLERS = 10
LIMIT = 0.2  # seconds that each may take to connect
PATIENCE = 5.0  # seconds; what is bounded by `LIMIT` must not need them


@pytest.mark.incident("FR-50")
def test_fr50_a_taken_executor_and_a_hung_resolver_delay_nobody() -> None:
    gate, asked = threading.Event(), list[str]()

    def resolve(host: str, port: int) -> Sequence[Address]:
        asked.append(host)
        if host == "hung.test":
            gate.wait(30)
        found = literal("127.0.0.1", port)
        assert found is not None
        return [found]

    async def main(port: int) -> float:
        loop = asyncio.get_running_loop()
        jobs = [loop.run_in_executor(None, gate.wait, 30) for _ in range(JOBS)]
        transport = outlast.AsyncTransport(network=KernelNetwork(resolve))
        began = time.monotonic()
        try:
            async with httpx.AsyncClient(transport=transport, timeout=LIMIT) as client:
                url = f"http://hung.test:{port}/"
                calls = [client.get(url) for _ in range(CALLERS)]
                ended = await asyncio.gather(*calls, return_exceptions=True)
                assert [type(each) for each in ended] == [httpx.ConnectTimeout] * CALLERS
                answer = await client.get(f"http://orders.test:{port}/", timeout=PATIENCE)
                assert answer.text == "here"
            took = time.monotonic() - began  # and the client is closed, with the resolver hung
        finally:
            gate.set()
        await asyncio.gather(*jobs)
        return took

    with Server(answering(200, b"here")) as server:
        took = asyncio.run(main(server.port))
    assert took < PATIENCE
    assert sorted(asked) == ["hung.test", "orders.test"]  # once, however many wait
