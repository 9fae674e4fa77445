"""Closing a transport: idle connections at once, busy ones heard of, nothing left later."""

from __future__ import annotations

import httpx
import pytest

from tests.http.callers import report_of
from tests.http.cases.table import Open, case
from tests.http.servers import Peer, Server, serve


@case
async def idle_connections_are_closed(open_caller: Open) -> None:
    gone = []

    def handler(peer: Peer) -> None:
        serve(peer)
        gone.append(peer.number)

    with Server(handler) as server:
        async with open_caller() as caller:
            await caller.get(server.url)
            (descriptor,) = caller.idle_sockets()
            assert descriptor >= 0
        assert caller.counts()["places"] == 0
    assert gone == [0]


@case
async def whoever_waits_hears_of_it_and_does_not_begin_again(open_caller: Open) -> None:
    def handler(peer: Peer) -> None:
        peer.request()
        peer.server.gate.set()
        peer.until_closed()

    with Server(handler) as server:
        async with open_caller() as caller:

            async def get() -> None:
                with pytest.raises(httpx.TransportError, match="closed") as caught:
                    await caller.get(server.url)
                assert report_of(caught.value)

            async def close() -> None:
                await caller.until_set(server.gate)
                await caller.close()

            await caller.together(get, close)
            assert caller.counts()["places"] == 0
    assert server.methods == ["GET"]
    assert server.connections == 1


@case
async def a_response_under_way_is_cut(open_caller: Open) -> None:
    def handler(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
        peer.until_closed()

    with Server(handler) as server:
        async with open_caller() as caller:
            got: list[bytes] = []
            with pytest.raises(httpx.RemoteProtocolError):
                await caller.stream_into(got, server.url, caller.close_transport)
            assert got == [b"half"]


@case
async def a_response_that_ends_later_is_not_kept(open_caller: Open) -> None:
    """All of it has arrived before the close: the caller may read it; the connection goes."""
    with Server(serve) as server:
        async with open_caller() as caller:
            async with caller.stream("GET", f"{server.url}/x") as response:
                await caller.close_transport()
                got = [piece async for piece in caller.pieces(response)]
            assert got == [b"/x"]
            assert caller.counts()["places"] == 0


@case
async def a_transport_may_be_used_again(open_caller: Open) -> None:
    """A transport may serve one client, or one event loop, after the other."""
    with Server(serve) as server:
        async with open_caller() as caller:
            for _ in range(2):
                await caller.get(server.url)
                await caller.get(server.url)
                await caller.close_transport()
                assert caller.counts()["places"] == 0
    assert server.connections == 2


@case
async def closing_twice_is_closing(open_caller: Open) -> None:
    async with open_caller() as caller:
        await caller.close_transport()
        await caller.close_transport()
