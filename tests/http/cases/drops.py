"""`transport.drop`: what is closed, when, and what whoever waits hears of it."""

from __future__ import annotations

import httpx
import pytest

from tests.http.callers import Caller, report_of
from tests.http.cases.table import Open, case, incident
from tests.http.servers import Peer, Server, serve


@case
async def idle_connections_are_dropped_at_once(open_caller: Open) -> None:
    """All, or an origin's, a target's, an endpoint's; what is something else's stays."""
    with Server(serve) as server, Server(serve) as other:
        async with open_caller() as caller:
            address = server.url.removeprefix("http://").rstrip("/")
            for which in (None, server.url, address, f"static://{address}", f"dns://{address}"):
                await caller.get(server.url)
                await caller.get(other.url)
                assert caller.transport.drop(which) == (2 if which is None else 1)
                assert caller.counts()["places"] == (0 if which is None else 1)
                assert caller.transport.drop(which) == 0
    assert (server.connections, other.connections) == (5, 2)


@case
async def a_busy_connection_is_dropped_after_its_request(open_caller: Open) -> None:
    async with open_caller() as caller:

        def dropping(peer: Peer) -> None:
            while peer.request() is not None:
                assert caller.transport.drop(reason="failed over") == 1
                peer.answer(200, b"whole")

        with Server(dropping) as server:
            for _ in range(3):
                assert (await caller.get(server.url)).content == b"whole"
                assert caller.counts()["places"] == 0
    assert server.connections == 3


def cutting(caller: Caller) -> object:
    """Drops the first connection while its request is in flight."""

    def script(peer: Peer) -> None:
        assert peer.request() is not None
        if len(peer.server.methods) == 1:
            assert caller.transport.drop(reason="failed over", abort=True) == 1
            assert peer.request() is None
        else:
            peer.answer(200, b"again")

    return script


@incident("FR-17")
@case
async def an_aborted_request_is_repeated_if_that_is_safe(open_caller: Open) -> None:
    async with open_caller() as caller:
        with Server(cutting(caller)) as server:  # type: ignore[arg-type]  # a function
            response = await caller.get(server.url)
            assert response.content == b"again"
    told = [event.what for event in report_of(response)]
    assert any("was dropped: failed over; sent, no response: repeated" in what for what in told)


@incident("FR-17")
@case
async def an_aborted_post_is_an_error(open_caller: Open) -> None:
    async with open_caller() as caller:
        with Server(cutting(caller)) as server:  # type: ignore[arg-type]  # a function
            with pytest.raises(httpx.ReadError, match="was dropped: failed over; sent"):
                await caller.request("POST", server.url)
    assert server.methods == ["POST"]


@case
async def what_is_no_target_is_refused(open_caller: Open) -> None:
    async with open_caller() as caller:
        for wrong in ("", "http://", "http://a/path", "orders", 7):
            with pytest.raises(ValueError, match="target"):
                caller.transport.drop(wrong)  # type: ignore[arg-type]  # a wrong one
        with pytest.raises(ValueError, match="reason"):
            caller.transport.drop(reason="")
