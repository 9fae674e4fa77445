"""Event loops that come and go, and several at once, over one transport and its connections."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import h2.config
import h2.connection
import h2.events
import httpx
import pytest
import trio

import outlast
from tests.http.h2_server import serve_h2
from tests.http.servers import BOUND, Peer, Server, serve

RUNS: dict[str, Callable[[Callable[[], Coroutine[Any, Any, None]]], None]] = {
    "asyncio": lambda work: asyncio.run(work()),
    "trio": trio.run,
}
KINDS: dict[str, dict[str, Any]] = {
    "HTTP/1.1": {},
    "HTTP/2": {"http1": False, "http2": True},
}
HANDLERS = {"HTTP/1.1": serve, "HTTP/2": serve_h2}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def client_over(transport: outlast.AsyncTransport) -> httpx.AsyncClient:
    """A client that is never closed: the next loop has one of its own."""
    return httpx.AsyncClient(transport=transport, timeout=BOUND)


def test_loops_come_and_go_and_the_connection_stays(kind: str) -> None:
    """asyncio after asyncio, trio after asyncio: one connection for all."""
    with Server(HANDLERS[kind]) as server:
        transport = outlast.AsyncTransport(**KINDS[kind])

        async def two() -> None:
            client = client_over(transport)
            for number in range(2):
                assert (await client.get(f"{server.url}/{number}")).text == f"/{number}"

        for name in ("asyncio", "asyncio", "trio", "asyncio", "trio", "trio"):
            RUNS[name](two)
        assert server.connections == 1
        assert len(server.requests) == 12
        transport._engine.close()


@pytest.mark.parametrize("ending", RUNS)
def test_a_loop_ends_with_requests_in_flight(ending: str, kind: str) -> None:
    """Its own are cancelled; those of another loop, on the same connection even, go on."""
    gate = threading.Event()

    def slow(peer: Peer) -> None:
        gate.wait(BOUND)
        HANDLERS[kind](peer)

    with Server(slow) as server:
        transport = outlast.AsyncTransport(**KINDS[kind])
        under_way = threading.Event()
        answers: list[str] = []

        async def stays() -> None:
            answers.append((await client_over(transport).get(server.url + "/stays")).text)

        async def leaves() -> None:
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(client_over(transport).get, server.url)
                await anyio.wait_all_tasks_blocked()
                under_way.set()
                group.cancel_scope.cancel()

        threads = [threading.Thread(target=RUNS["asyncio"], args=(stays,))]
        threads[0].start()
        threads.append(threading.Thread(target=RUNS[ending], args=(leaves,)))
        threads[1].start()
        assert under_way.wait(BOUND)
        threads[1].join(BOUND)
        gate.set()
        threads[0].join(BOUND)
        assert answers == ["/stays"]
        counts = transport._engine.pool.counts()
        assert (counts["busy"], counts["waiting"], counts["places"]) == (0, 0, counts["idle"])
        transport._engine.close()


def abandon_a_loop(transport: outlast.AsyncTransport, url: str) -> None:
    """A loop that is closed with a request under way, which nobody has cancelled."""
    loop = asyncio.new_event_loop()

    async def begin() -> None:
        request = loop.create_task(client_over(transport).get(url))
        while not transport._engine.pool.counts()["busy"]:
            await anyio.lowlevel.checkpoint()
        assert not request.done()

    loop.run_until_complete(begin())
    loop.close()


def answering_the_second(begins: bool) -> Callable[[Peer], None]:
    """Takes two requests on a connection, and answers the second, at once or its head alone."""

    def handler(peer: Peer) -> None:
        machine = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        machine.initiate_connection()
        while True:
            peer.send(machine.data_to_send())
            data = peer.sock.recv(65_536)
            if not data:
                return
            for event in machine.receive_data(data):
                if isinstance(event, h2.events.StreamEnded) and event.stream_id == 3:
                    machine.send_headers(3, [(":status", "200")])
                    if begins:
                        peer.send(machine.data_to_send())
                        peer.wait(peer.server.gate)
                    machine.send_data(3, b"here", end_stream=True)

    return handler


@pytest.mark.parametrize("begins", [False, True], ids=["no answer yet", "in the middle of it"])
@pytest.mark.parametrize("ending", ["closed", "held up"])
def test_whoever_reads_for_all_is_not_there_any_more(begins: bool, ending: str) -> None:
    """On an HTTP/2 connection one reads for all. Its loop has been closed under it, or does
    something else for a while: the others read for themselves."""
    with Server(answering_the_second(begins)) as server:
        transport = outlast.AsyncTransport(**KINDS["HTTP/2"])
        if ending == "closed":
            abandon_a_loop(transport, server.url)
            in_another_loop(transport, server.url, b"here", server.gate)
            for connection in transport._engine.pool.in_use.busy:
                connection.stream.close()  # anyio keeps what has waited in a closed loop
        else:
            asyncio.run(hold_up(transport, server))
        transport._engine.close()


def test_whoever_dials_for_all_is_held_up() -> None:
    """Others wait for its connection, which they could share; not for ever."""
    with Server(serve_h2) as server:
        transport = outlast.AsyncTransport(**KINDS["HTTP/2"])

        async def main() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(client_over(transport).get, server.url)
                while not transport._engine.pool.counts()["places"]:
                    await anyio.lowlevel.checkpoint()
                assert transport._engine.pool.counts()["busy"] == 0
                in_another_loop(transport, server.url, b"/")

        asyncio.run(main())
        assert server.connections == 2
        transport._engine.close()


async def hold_up(transport: outlast.AsyncTransport, server: Server) -> None:
    """A loop with a request under way that stands still, while another has one."""
    async with anyio.create_task_group() as group:
        group.start_soon(client_over(transport).get, server.url)
        while not transport._engine.pool.counts()["busy"]:
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        in_another_loop(transport, server.url, b"here", server.gate)
        group.cancel_scope.cancel()


def in_another_loop(
    transport: outlast.AsyncTransport,
    url: str,
    body: bytes,
    begun: threading.Event | None = None,
) -> None:
    """A request that is answered while this loop stands still."""
    got: list[bytes] = []

    async def get() -> None:
        async with client_over(transport).stream("GET", url) as response:
            if begun is not None:
                begun.set()
            got.append(await response.aread())

    thread = threading.Thread(target=asyncio.run, args=(get(),))
    thread.start()
    thread.join(BOUND)
    assert not thread.is_alive()
    assert got == [body]
