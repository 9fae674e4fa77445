"""Plain exchanges: what any httpx transport does, when nothing is wrong."""

from __future__ import annotations

import threading

import httpx
import pytest

from tests.http.callers import Upload, report_of, words
from tests.http.cases.table import Open, case
from tests.http.servers import BOUND, Peer, Server, answering, raw, serve


@case
async def get(open_caller: Open) -> None:
    with Server(serve) as server:
        async with open_caller() as caller:
            response = await caller.get(f"{server.url}/a?b=c", headers={"X-One": "1"})
    assert (response.status_code, response.content) == (200, b"/a?b=c")
    (seen,) = server.requests
    assert (seen.method, seen.target, seen.body) == ("GET", "/a?b=c", b"")
    assert seen.headers["host"] == server.address
    assert seen.headers["x-one"] == "1"


@case
async def post(open_caller: Open) -> None:
    with Server(serve) as server:
        async with open_caller() as caller:
            response = await caller.post(server.url, b"payload")
    assert response.content == b"payload"
    assert server.methods == ["POST"]
    assert server.bodies == [b"payload"]


@case
async def a_megabyte_there_and_back(open_caller: Open) -> None:
    payload = bytes(range(256)) * 4096
    with Server(serve) as server:
        async with open_caller() as caller:
            assert (await caller.post(server.url, payload)).content == payload
            assert (await caller.post(server.url, payload)).content == payload
    assert server.connections == 1


@case
async def every_method_passes(open_caller: Open) -> None:
    methods = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "POST", "PATCH", "PURGE"]
    with Server(answering(204)) as server:
        async with open_caller() as caller:
            for method in methods:
                assert (await caller.request(method, server.url)).status_code == 204
    assert server.methods == methods
    assert server.connections == 1


@case
async def the_response_tells_how_it_came(open_caller: Open) -> None:
    with Server(
        raw(b"HTTP/1.1 299 All Is Well\r\nX-Two: 2\r\ncontent-length: 0\r\n\r\n")
    ) as server:
        async with open_caller() as caller:
            response = await caller.get(server.url)
    assert response.status_code == 299
    assert response.reason_phrase == "All Is Well"
    assert response.http_version == "HTTP/1.1"
    assert response.headers["x-two"] == "2"
    assert (b"X-Two", b"2") in response.headers.raw
    assert words(response, "pool") == ["new"]


@case
async def connections_are_kept(open_caller: Open) -> None:
    with Server(serve) as server:
        async with open_caller() as caller:
            first = await caller.get(server.url)
            second = await caller.get(server.url)
            third = await caller.post(server.url)
            assert caller.counts() == {"places": 1, "idle": 1, "busy": 0, "waiting": 0}
    assert server.connections == 1
    assert [words(r, "pool") for r in (first, second, third)] == [["new"], ["reused"], ["reused"]]
    (event,) = report_of(third).of_phase("pool")
    assert event.address == server.address
    assert event.local_port == report_of(first).of_phase("pool")[0].local_port > 0


@case
async def a_response_is_streamed(open_caller: Open) -> None:
    read = threading.Event()

    def handler(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        peer.wait(read)
        peer.send(b"3\r\ntwo\r\n0\r\n\r\n")
        serve(peer)

    with Server(handler) as server:
        async with open_caller() as caller:
            got = []
            async with caller.stream("GET", server.url) as response:
                async for piece in caller.pieces(response):
                    got.append(piece)
                    read.set()
            assert got == [b"one", b"two"]
            await caller.get(server.url)
    assert server.connections == 1


@case
async def a_request_is_streamed(open_caller: Open) -> None:
    arrived = threading.Event()

    def handler(peer: Peer) -> None:
        while b"one" not in peer._buffer:
            assert peer.more()
        arrived.set()
        serve(peer)

    with Server(handler) as server:
        async with open_caller() as caller:
            upload = Upload(b"one", lambda: arrived.wait(BOUND), b"", b"two")
            response = await caller.post(server.url, upload)
            assert arrived.is_set()
            assert response.content == b"onetwo"
            await caller.get(server.url)
    assert server.requests[0].headers["transfer-encoding"] == "chunked"
    assert server.connections == 1


@case
async def a_stream_may_have_a_length(open_caller: Open) -> None:
    with Server(serve) as server:
        async with open_caller() as caller:
            headers = {"content-length": "6"}
            await caller.post(server.url, Upload(b"one", b"two"), headers=headers)
            with pytest.raises(httpx.LocalProtocolError) as caught:
                await caller.post(server.url, Upload(b"one", b"twoo"), headers=headers)
            with pytest.raises(httpx.LocalProtocolError):
                await caller.post(server.url, Upload(b"one"), headers=headers)
            assert report_of(caught.value)
            await caller.get(server.url)
    assert server.bodies == [b"onetwo", b""]


@case
async def a_response_left_unread_ends_its_connection(open_caller: Open) -> None:
    with Server(answering(200, b"x" * 100)) as server:
        async with open_caller() as caller:
            async with caller.stream("GET", server.url):
                assert caller.counts()["busy"] == 1
            assert caller.counts()["places"] == 0
            await caller.get(server.url)
    assert server.connections == 2


@case
async def a_head_has_no_body(open_caller: Open) -> None:
    with Server(raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n"), serve) as server:
        async with open_caller() as caller:
            response = await caller.request("HEAD", server.url)
    assert (response.content, response.headers["content-length"]) == (b"", "10")


@case
async def interim_responses_are_passed_over(open_caller: Open) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n"
    with Server(raw(interim + b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")) as server:
        async with open_caller() as caller:
            response = await caller.get(server.url)
    assert (response.status_code, response.content) == (200, b"ok")


@case
async def a_body_may_end_with_the_connection(open_caller: Open) -> None:
    with Server(raw(b"HTTP/1.1 200 OK\r\n\r\nto the end"), serve) as server:
        async with open_caller() as caller:
            assert (await caller.get(server.url)).content == b"to the end"
            assert caller.counts()["places"] == 0
            await caller.get(server.url)
    assert server.connections == 2


@case
async def a_connection_that_the_server_closes_is_not_kept(open_caller: Open) -> None:
    last = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"
    with Server(raw(last), serve) as server:
        async with open_caller() as caller:
            assert (await caller.get(server.url)).content == b"ok"
            assert caller.counts()["places"] == 0
            await caller.get(server.url)
    assert server.connections == 2


@case
async def bytes_after_a_response_spoil_the_connection(open_caller: Open) -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
    with Server(raw(answer + b"ok" + answer + b"no"), serve) as server:
        async with open_caller() as caller:
            assert (await caller.get(server.url)).content == b"ok"
            assert (await caller.get(f"{server.url}/mine")).content == b"/mine"
    assert server.connections == 2


@case
async def bytes_on_an_idle_connection_spoil_it(open_caller: Open) -> None:
    asked = threading.Event()

    def handler(peer: Peer) -> None:
        peer.request()
        peer.answer(200, b"ok")
        peer.wait(asked)
        peer.answer(200, b"nobody asked for this")
        peer.until_closed()

    with Server(handler, serve) as server:
        async with open_caller() as caller:
            assert (await caller.get(server.url)).content == b"ok"
            asked.set()
            caller.hear_idle()
            assert (await caller.get(f"{server.url}/mine")).content == b"/mine"
    assert server.connections == 2


@case
async def no_http_is_a_protocol_error(open_caller: Open) -> None:
    with Server(raw(b"SSH-2.0-OpenSSH_9.6\r\n")) as server:
        async with open_caller() as caller:
            with pytest.raises(httpx.RemoteProtocolError, match=server.address) as caught:
                await caller.get(server.url)
    assert "not repeated (the response had begun)" in words(caught.value)[-1]


@case
async def an_endless_head_is_a_protocol_error(open_caller: Open) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + b"x-filler: " + b"x" * 300_000 + b"\r\n\r\n"
    with Server(raw(head)) as server:
        async with open_caller() as caller:
            with pytest.raises(httpx.RemoteProtocolError):
                await caller.get(server.url)
    assert len(server.requests) == 1
