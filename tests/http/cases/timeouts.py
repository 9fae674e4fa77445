"""httpx's four timeouts, and the deadline over everything."""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
from collections.abc import Iterator

import httpx
import pytest

from outlast import Policy, Progress
from tests.http.callers import Upload, report_of, words
from tests.http.cases.bodies import MEGABYTE, SEND_SMALL, SMALL_BUFFER
from tests.http.cases.table import Open, case, incident
from tests.http.servers import BOUND, Peer, Server, in_turn, mute, serve

SHORT = 0.1  # seconds


def timeout(**limits: float | None) -> httpx.Timeout:
    return httpx.Timeout(BOUND, **limits)


@contextlib.contextmanager
def silent_address() -> Iterator[str]:
    """An address that answers no SYN: a listener whose queue is full, and nobody accepts."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def deaf(peer: Peer) -> None:
    """Reads nothing at all."""
    peer.wait(peer.server.gate)


# -- read ----------------------------------------------------------------------------------


@case
async def a_read_timeout_is_final(open_caller: Open) -> None:
    with Server(mute, serve) as server:
        async with open_caller() as caller:
            with pytest.raises(httpx.ReadTimeout, match=f"{server.address} within 0.1 s") as caught:
                await caller.get(server.url, timeout=timeout(read=SHORT))
            assert caller.counts()["places"] == 0
            assert (await caller.get(server.url)).status_code == 200
    assert server.methods == ["GET", "GET"]
    assert re.search(r"not repeated \(.*caller's.* limit", words(caught.value)[-1])
    assert report_of(caught.value).progress is Progress.SENT


@case
async def a_read_timeout_counts_from_the_last_byte(open_caller: Open) -> None:
    """As in httpx: a head that comes in pieces, each in time, is no timeout."""

    def slow(peer: Peer) -> None:
        peer.request()
        for piece in (b"HTTP/1.1 200 OK\r\n", b"content-length: 2\r\n", b"\r\n"):
            peer.send(piece)
        peer.wait(peer.server.gate)

    with Server(slow) as server:
        async with open_caller() as caller:
            with pytest.raises(httpx.ReadTimeout, match="no more of the body") as caught:
                await caller.get(server.url, timeout=timeout(read=SHORT))
            assert caller.counts()["places"] == 0
    assert server.methods == ["GET"]
    assert report_of(caught.value).progress is Progress.BODY


@case
async def an_endpoint_that_timed_out_is_tried_last(open_caller: Open) -> None:
    with Server(mute) as bad, Server(serve) as good:
        targets = {"http://orders": in_turn(bad, good)}
        async with open_caller(targets=targets) as caller:
            outcomes = []
            for _ in range(6):
                try:
                    await caller.get("http://orders", timeout=timeout(read=SHORT))
                    outcomes.append("answered")
                except httpx.ReadTimeout:
                    outcomes.append("timed out")
    assert outcomes.count("timed out") == 1


@case
async def an_endpoint_that_timed_out_in_a_body_is_tried_last(open_caller: Open) -> None:
    def stall(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
        peer.until_closed()

    with Server(stall) as bad, Server(serve) as good:
        targets = {"http://orders": in_turn(bad, good)}
        async with open_caller(targets=targets) as caller:
            outcomes = []
            for _ in range(6):
                try:
                    await caller.get("http://orders", timeout=timeout(read=SHORT))
                    outcomes.append("answered")
                except httpx.ReadTimeout:
                    outcomes.append("timed out")
    assert outcomes.count("timed out") == 1


# -- write ---------------------------------------------------------------------------------


@case
async def a_write_timeout_is_final(open_caller: Open) -> None:
    with Server(deaf, serve, receive_buffer=SMALL_BUFFER) as server:
        async with open_caller(socket_options=SEND_SMALL) as caller:
            limit = timeout(write=SHORT)
            with pytest.raises(httpx.WriteTimeout, match=server.address) as caught:
                await caller.request("PUT", server.url, body=b"x" * MEGABYTE, timeout=limit)
            assert caller.counts()["places"] == 0
    assert server.connections == 1
    assert report_of(caught.value).progress is Progress.SENT


@case
async def a_write_timeout_in_a_stream(open_caller: Open) -> None:
    upload = Upload(*[b"x" * 65_536] * 64)
    with Server(deaf, serve, receive_buffer=SMALL_BUFFER) as server:
        async with open_caller(socket_options=SEND_SMALL) as caller:
            with pytest.raises(httpx.WriteTimeout, match=server.address):
                await caller.post(server.url, upload, timeout=timeout(write=SHORT))
    assert upload.taken < 64
    assert server.connections == 1


# -- pool ----------------------------------------------------------------------------------


@case
async def a_pool_timeout(open_caller: Open) -> None:
    with Server(serve) as server:
        async with open_caller(limits=httpx.Limits(max_connections=1)) as caller:
            async with caller.stream("GET", server.url) as response:
                with pytest.raises(httpx.PoolTimeout, match="all 1 places are taken") as caught:
                    await caller.get(server.url, timeout=timeout(pool=SHORT))
                assert caller.counts()["waiting"] == 0
                async for _ in caller.pieces(response):
                    pass
            assert (await caller.get(server.url)).status_code == 200
    assert server.connections == 1
    assert report_of(caught.value).progress is Progress.NOT_SENT


# -- connect -------------------------------------------------------------------------------


@incident("FR-06")
@case
async def a_connect_timeout_bounds_the_whole_connect(open_caller: Open) -> None:
    """One limit for both addresses and every dial to them."""
    with silent_address() as one, silent_address() as two:
        targets = {"http://orders": f"static://{one},{two}"}
        async with open_caller(targets=targets) as caller:
            with pytest.raises(httpx.ConnectTimeout, match="nothing was sent") as caught:
                await caller.get("http://orders", timeout=timeout(connect=0.6))
            assert caller.counts()["places"] == 0
    report = report_of(caught.value)
    assert 0.6 <= report.events[-1].at < 0.6 + BOUND
    assert one in str(caught.value)
    assert two in str(caught.value)


@incident("FR-66")
@case
async def fr66_a_handshake_that_stalls_is_a_connect_timeout(open_caller: Open) -> None:
    with Server(deaf) as server:
        async with open_caller(verify=False) as caller:
            url = server.url.replace("http:", "https:")
            with pytest.raises(httpx.ConnectTimeout, match="nothing was sent"):
                await caller.get(url, timeout=timeout(connect=SHORT))


@case
async def a_request_without_timeouts_connects_by_the_policy(open_caller: Open) -> None:
    """A bare transport: no client, so no timeouts but the policy's."""
    with silent_address() as address:
        async with open_caller(policy=Policy(connect_timeout=SHORT)) as caller:
            request = httpx.Request("GET", f"http://{address}")
            with pytest.raises(httpx.ConnectTimeout):
                await caller.handle(request)


# -- deadline ------------------------------------------------------------------------------


@case
async def a_deadline_bounds_the_wait_for_an_answer(open_caller: Open) -> None:
    with Server(mute) as server:
        async with open_caller(policy=Policy(deadline=SHORT)) as caller:
            with pytest.raises(httpx.ReadTimeout, match=r"the call's deadline of 0.1 s"):
                await caller.get(server.url)
    assert len(server.requests) == 1


@case
async def a_deadline_bounds_a_connect(open_caller: Open) -> None:
    with silent_address() as address:
        async with open_caller(policy=Policy(deadline=SHORT)) as caller:
            with pytest.raises(httpx.ConnectTimeout):
                await caller.get(f"http://{address}")


@case
async def a_deadline_bounds_a_wait_for_the_pool(open_caller: Open) -> None:
    with Server(serve) as server:
        async with open_caller(limits=httpx.Limits(max_connections=1)) as caller:
            async with caller.stream("GET", server.url):
                with pytest.raises(httpx.PoolTimeout):
                    await caller.get(server.url, extensions={"outlast": {"deadline": SHORT}})


@incident("FR-58")
@case
async def a_deadline_bounds_a_body_without_end(open_caller: Open) -> None:
    """Every read gets something at once, for ever: only the deadline can end it."""

    def endless(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            peer.send(b"x" * 1024)

    with Server(endless) as server:
        # Its head has to come before, however busy the machine is.
        async with open_caller(policy=Policy(deadline=5 * SHORT)) as caller:
            with pytest.raises(httpx.ReadTimeout, match=r"the call's deadline of 0.5 s") as caught:
                await caller.stream_into([], server.url)
    assert report_of(caught.value).progress is Progress.BODY


@case
async def a_deadline_bounds_interim_responses_without_end(open_caller: Open) -> None:
    def endless(peer: Peer) -> None:
        peer.request()
        while True:
            peer.send(b"HTTP/1.1 102 Processing\r\n\r\n")

    with Server(endless) as server:
        async with open_caller(policy=Policy(deadline=SHORT)) as caller:
            with pytest.raises(httpx.ReadTimeout, match=r"the call's deadline of 0.1 s"):
                await caller.get(server.url)


@case
async def a_deadline_bounds_an_upload_without_end(open_caller: Open) -> None:
    def swallow(peer: Peer) -> None:
        peer.until_closed()

    class Endless(Upload):
        def chunks(self) -> Iterator[bytes]:
            return (b"x" * 1024 for _ in itertools.count())

    with Server(swallow) as server:
        async with open_caller(policy=Policy(deadline=SHORT)) as caller:
            with pytest.raises(httpx.WriteTimeout, match=r"the call's deadline of 0.1 s"):
                await caller.post(server.url, Endless())
            assert caller.counts()["places"] == 0
