"""Cancelled, or interrupted, at every wait in turn: nothing leaks and the next call works.

A request is made again and again, each time cut off at the k-th wait, until one gets through
uncut. The pool has one place: a place lost would leave the next call waiting for ever.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import httpx
import pytest

import outlast
from outlast.net.kernel import KernelNetwork
from outlast.net.seam import Ready, Wait
from tests.http.callers import Upload
from tests.http.cases.bodies import SEND_SMALL, SMALL_BUFFER
from tests.http.cases.tls import client_context, server_context
from tests.http.servers import BOUND, Peer, Server, serve

ONE = httpx.Limits(max_connections=1)


class CutNetwork(KernelNetwork):
    """The kernel's network; the wait with number `at` is cut off by `cut`."""

    def __init__(self) -> None:
        super().__init__()
        self.cut: Callable[[], None] = lambda: None
        self.at = 0
        self.waits = 0

    def count(self) -> None:
        self.waits += 1
        if self.waits == self.at:
            self.cut()

    def wait(self, wait: Wait) -> Ready:
        self.count()
        return super().wait(wait)

    async def wait_async(self, wait: Wait) -> Ready:
        self.count()
        return await super().wait_async(wait)


def slow(peer: Peer) -> None:
    """Every other GET is told to come again at once; answers come in pieces."""
    while (seen := peer.request()) is not None:
        if seen.method == "GET" and peer.server.methods.count("GET") % 2:
            peer.answer(503, b"busy", retry_after="0")
        else:
            peer.send(b"HTTP/1.1 200 OK\r\n", f"X-Target: {seen.target}\r\n".encode())
            peer.send(b"Content-Length: 200000\r\n\r\n")
            peer.send(b"x" * 100_000, b"x" * 100_000)


def scenarios() -> dict[str, Any]:
    """Name to what is asked of the server, besides the method."""
    return {
        "GET": ("GET", None),
        "PUT": ("PUT", b"x" * 300_000),
        "streaming POST": ("POST", Upload(*[b"x" * 50_000] * 6)),
    }


def arguments(network: CutNetwork, tls: bool) -> dict[str, Any]:
    return {
        "network": network,
        "limits": ONE,
        "socket_options": SEND_SMALL,
        "verify": client_context() if tls else True,
    }


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    context = server_context("127.0.0.1") if request.param else None
    with Server(slow, context=context, receive_buffer=SMALL_BUFFER) as made:
        yield made


def at_rest(transport: outlast.Transport | outlast.AsyncTransport) -> None:
    counts = transport._engine.pool.counts()
    assert (counts["busy"], counts["waiting"]) == (0, 0)
    assert counts["places"] == counts["idle"] <= 1


def assert_for(response: httpx.Response, target: str) -> None:
    """The answer to this very request, never to one that was cut off."""
    assert (response.status_code, response.headers["x-target"]) == (200, target)


# -- tasks ---------------------------------------------------------------------------------


@pytest.mark.incident("FR-68")
@pytest.mark.incident("FR-70")
@pytest.mark.anyio
@pytest.mark.parametrize("name", scenarios())
# httpx's own generator around an upload's body: trio remarks on it with any transport.
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
async def test_fr68_fr70_cancelled_at_every_wait(name: str, server: Server) -> None:
    network = CutNetwork()
    transport = outlast.AsyncTransport(**arguments(network, server.url.startswith("https")))
    async with httpx.AsyncClient(transport=transport, timeout=BOUND) as client:
        for at in range(1, 1000):
            method, body = scenarios()[name]
            content = body.async_chunks() if isinstance(body, Upload) else body
            network.waits, network.at = 0, at
            with anyio.CancelScope() as scope:
                network.cut = scope.cancel
                response = await client.request(method, server.url, content=content)
                assert len(response.content) == 200_000
            at_rest(transport)
            network.at = 0
            assert_for((await client.delete(f"{server.url}/next-{at}")), f"/next-{at}")
            at_rest(transport)
            if not scope.cancelled_caught and network.waits < at:
                break
            transport._engine.close()  # the next one dials again
        assert at >= 3


@pytest.mark.anyio
async def test_cancelled_in_line(server: Server) -> None:
    """Others stand behind whoever is cancelled: they are served, none is passed over."""
    transport = outlast.AsyncTransport(limits=ONE, verify=client_context())
    async with httpx.AsyncClient(transport=transport, timeout=BOUND) as client:
        answered = []

        async def get(number: int) -> None:
            await client.put(server.url, content=b"x")
            answered.append(number)

        scopes = [anyio.CancelScope() for _ in range(6)]

        async def cancellable(number: int) -> None:
            with scopes[number]:
                await get(number)

        async with client.stream("PUT", server.url, content=b"x") as held:
            async with anyio.create_task_group() as group:
                for number in range(6):
                    group.start_soon(cancellable, number)
                    await anyio.wait_all_tasks_blocked()
                assert transport._engine.pool.counts()["waiting"] == 6
                for number in (0, 2, 5):
                    scopes[number].cancel()
                await anyio.wait_all_tasks_blocked()
                assert transport._engine.pool.counts()["waiting"] == 3
                await held.aread()
        assert answered == [1, 3, 4]
        at_rest(transport)


@pytest.mark.anyio
async def test_cancelled_at_the_moment_of_the_grant() -> None:
    """Served and cancelled in the same turn of the loop: what was granted goes to the next."""
    with Server(serve) as server:
        transport = outlast.AsyncTransport(limits=ONE)
        async with httpx.AsyncClient(transport=transport, timeout=BOUND) as client:
            for _ in range(3):
                scope = anyio.CancelScope()

                async def in_line(scope: anyio.CancelScope = scope) -> None:
                    with scope:
                        await client.get(server.url)

                async with client.stream("GET", server.url) as held:
                    async with anyio.create_task_group() as group:
                        group.start_soon(in_line)
                        await anyio.wait_all_tasks_blocked()
                        await held.aread()  # its connection is granted here
                        assert transport._engine.pool.counts()["waiting"] == 0
                        scope.cancel()
                at_rest(transport)
                assert (await client.get(server.url)).status_code == 200


@pytest.mark.anyio
async def test_a_response_left_in_the_middle(server: Server) -> None:
    """A stream that is cancelled while it is read ends its connection."""
    transport = outlast.AsyncTransport(limits=ONE, verify=client_context())
    async with httpx.AsyncClient(transport=transport, timeout=BOUND) as client:
        with anyio.CancelScope() as scope:
            async with client.stream("PUT", server.url, content=b"x") as response:
                async for _ in response.aiter_raw():
                    scope.cancel()
        assert scope.cancelled_caught
        at_rest(transport)
        await client.delete(server.url)


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
async def test_an_upload_that_never_waits() -> None:
    """Neither the caller's code nor the quick peer ever waits: others still get their turn."""

    def swallow(peer: Peer) -> None:
        peer.until_closed()

    with Server(swallow) as server:
        transport = outlast.AsyncTransport()
        async with httpx.AsyncClient(transport=transport, timeout=BOUND) as client:
            taken = 0

            async def body() -> AsyncIterator[bytes]:
                nonlocal taken
                for taken in range(1000):
                    if taken == 10:
                        scope.cancel()
                    yield b"x"

            with anyio.CancelScope() as scope:
                await client.post(server.url, content=body())
            assert scope.cancelled_caught
            assert taken == 10
            at_rest(transport)


# -- threads -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("name", scenarios())
def test_interrupted_at_every_wait(name: str, kind: type[BaseException], server: Server) -> None:
    def interrupt() -> None:
        raise kind

    network = CutNetwork()
    network.cut = interrupt
    transport = outlast.Transport(**arguments(network, server.url.startswith("https")))
    with httpx.Client(transport=transport, timeout=BOUND) as client:
        for at in range(1, 1000):
            method, body = scenarios()[name]
            content = body.chunks() if isinstance(body, Upload) else body
            network.waits, network.at = 0, at
            through = False
            with contextlib.suppress(kind):
                assert len(client.request(method, server.url, content=content).content) == 200_000
                through = True
            at_rest(transport)
            network.at = 0
            assert_for(client.delete(f"{server.url}/next-{at}"), f"/next-{at}")
            at_rest(transport)
            if through:
                break
            transport.close()
        assert at >= 3
