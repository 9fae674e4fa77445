"""Bodies: replayed exactly or not at all; answers that come before a request is over."""

from __future__ import annotations

import random
import socket
from typing import Any

import httpx
import pytest

from outlast import Policy
from tests.http.callers import Upload, words
from tests.http.cases.table import Open, case
from tests.http.servers import Peer, Server, hang_up, serve

SMALL_BUFFER = 16_384  # bytes: a sender blocks after a few of these
SEND_SMALL = [(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)]
MEGABYTE = 1_048_576

TOO_LARGE = b"HTTP/1.1 413 Too Large\r\ncontent-length: 7\r\n\r\ntoo big"


@case
async def a_replayed_body_is_the_same_to_the_byte(open_caller: Open) -> None:
    payload = random.Random(2).randbytes(3 * MEGABYTE)
    with Server(hang_up, hang_up, serve) as server:
        async with open_caller() as caller:
            response = await caller.request("PUT", server.url, body=payload)
    assert response.content == payload
    assert server.bodies == [payload, payload, payload]


@case
async def a_stream_that_was_taken_is_not_replayed(open_caller: Open) -> None:
    upload = Upload(b"one", b"two")
    with Server(hang_up) as server:
        async with open_caller() as caller:
            with pytest.raises(httpx.RemoteProtocolError) as caught:
                await caller.request("PUT", server.url, body=upload)
    assert server.bodies == [b"onetwo"]
    assert upload.taken == 2
    assert "not repeated (the body cannot be replayed)" in words(caught.value)[-1]


@case
async def a_stream_that_was_taken_is_not_replayed_on_a_status(open_caller: Open) -> None:
    def busy(peer: Peer) -> None:
        peer.request()
        peer.answer(503, b"busy")
        serve(peer)

    with Server(busy) as server:
        async with open_caller() as caller:
            response = await caller.request("PUT", server.url, body=Upload(b"one"))
    assert (response.status_code, response.content) == (503, b"busy")
    assert server.bodies == [b"one"]


@case
async def a_stream_is_not_taken_before_there_is_a_connection(open_caller: Open) -> None:
    """Nothing can be replayed that was taken, so nothing is taken for a dial that fails."""
    with Server(serve) as server:
        address = server.address
    upload = Upload(b"one", b"two")
    async with open_caller() as caller:
        with pytest.raises(httpx.ConnectError):
            await caller.request("POST", f"http://{address}", body=upload)
    assert upload.taken == 0


@case
async def what_the_callers_own_code_raises_comes_out(open_caller: Open) -> None:
    class Mine(Exception):
        pass

    def burst() -> None:
        raise Mine

    with Server(serve) as server:
        async with open_caller() as caller:
            with pytest.raises(Mine):
                await caller.post(server.url, Upload(b"one", burst))
            assert caller.counts()["places"] == 0
            await caller.get(server.url)
    assert server.methods == ["GET"]


# -- answers before the request's end ------------------------------------------------------


def refuse_and_close(peer: Peer) -> None:
    """Refuses by the head alone; the close, with unread bytes waiting, is a reset."""
    peer.head()
    peer.send(TOO_LARGE)
    peer.close()


def refuse_and_stay(peer: Peer) -> None:
    """Refuses by the head alone, and reads no more."""
    peer.head()
    peer.send(TOO_LARGE)
    peer.wait(peer.server.gate)


@case
async def an_answer_and_a_close_in_the_middle_of_a_body(open_caller: Open) -> None:
    """Whether the reset destroys the answer on its way is the kernel's business; nothing hangs."""
    with Server(refuse_and_close, serve, receive_buffer=SMALL_BUFFER) as server:
        async with open_caller(socket_options=SEND_SMALL) as caller:
            outcome: Any
            try:
                outcome = await caller.post(server.url, b"x" * MEGABYTE)
            except (httpx.RemoteProtocolError, httpx.ReadError) as error:
                outcome = error
            if isinstance(outcome, httpx.Response):
                assert (outcome.status_code, outcome.content) == (413, b"too big")
            else:
                assert "not repeated (" in words(outcome)[-1]
            assert caller.counts()["places"] == 0
            await caller.get(server.url)
    assert server.methods == ["GET"]


@case
async def an_answer_in_the_middle_of_a_body(open_caller: Open) -> None:
    with Server(refuse_and_stay, serve, receive_buffer=SMALL_BUFFER) as server:
        async with open_caller(socket_options=SEND_SMALL) as caller:
            response = await caller.post(server.url, b"x" * MEGABYTE)
            assert (response.status_code, response.content) == (413, b"too big")
            assert caller.counts()["places"] == 0
            await caller.get(server.url)
    assert server.methods == ["GET"]


@case
async def an_answer_in_the_middle_of_a_stream(open_caller: Open) -> None:
    upload = Upload(*[b"x" * 65_536] * 64)
    with Server(refuse_and_stay, serve, receive_buffer=SMALL_BUFFER) as server:
        async with open_caller(socket_options=SEND_SMALL) as caller:
            response = await caller.post(server.url, upload)
            assert (response.status_code, response.content) == (413, b"too big")
    assert upload.taken < 64


@case
async def a_server_that_stops_reading_and_closes_was_sent_the_request(open_caller: Open) -> None:
    """An end without an answer, noticed while writing: sent, no response; so PUT is repeated."""

    def handler(peer: Peer) -> None:
        while len(peer._buffer) < 100_000:
            assert peer.more()
        peer.sock.shutdown(socket.SHUT_WR)
        peer.wait(peer.server.gate)

    payload = b"x" * MEGABYTE
    with Server(handler, serve, receive_buffer=SMALL_BUFFER) as server:
        async with open_caller(socket_options=SEND_SMALL, policy=Policy(attempts=2)) as caller:
            response = await caller.request("PUT", server.url, body=payload)
            assert response.content == payload
    assert server.connections == 2


@case
async def an_answer_before_the_request(open_caller: Open) -> None:
    """A server that answers before it was asked: taken as the answer, as httpx does; not kept."""

    def handler(peer: Peer) -> None:
        peer.answer(408, b"too slow")
        peer.until_closed()

    with Server(handler) as server:
        async with open_caller() as caller:
            response = await caller.get(server.url)
            assert (response.status_code, response.content) == (408, b"too slow")
