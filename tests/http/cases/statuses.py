"""Answers that may be repeated: statuses, `Retry-After`, and what is returned in the end."""

from __future__ import annotations

from email.utils import formatdate

import httpx
import pytest

from outlast import Backoff, Policy
from tests.http.callers import words
from tests.http.cases.table import Open, case
from tests.http.servers import Handler, Peer, Server, answering, serve

BUSY = [429, 502, 503, 504]


def busy_once(status: int, body: bytes = b"busy", **headers: str) -> Handler:
    """The first request gets `status`, all others a good answer, on one connection."""

    def handler(peer: Peer) -> None:
        if peer.request() is not None:
            peer.answer(status, body, **headers)
            serve(peer)

    return handler


@case
async def a_retryable_status_is_repeated(open_caller: Open) -> None:
    for status in BUSY:
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            with Server(busy_once(status, b""), serve) as server:
                async with open_caller() as caller:
                    response = await caller.request(method, server.url)
            assert response.status_code == 200
            assert server.methods == [method, method]
            assert f"answered {status}: repeated (status {status})" in words(response)


@case
async def but_not_for_a_method_that_is_not_idempotent(open_caller: Open) -> None:
    for method in ("POST", "PATCH"):
        with Server(busy_once(503), serve) as server:
            async with open_caller() as caller:
                response = await caller.request(method, server.url)
        assert (response.status_code, response.content) == (503, b"busy")
        assert server.methods == [method]


@case
async def unless_it_carries_a_key(open_caller: Open) -> None:
    with Server(busy_once(503), serve) as server:
        async with open_caller() as caller:
            response = await caller.post(server.url, headers={"idempotency-key": "7"})
    assert response.status_code == 200
    assert server.bodies == [b"payload", b"payload"]


@case
async def or_the_policy_names_method_and_status(open_caller: Open) -> None:
    policy = Policy(unsafe_status={"post": {503}})
    for method, status, requests in [("POST", 503, 2), ("POST", 502, 1), ("PATCH", 503, 1)]:
        with Server(busy_once(status), serve) as server:
            async with open_caller(policy=policy) as caller:
                response = await caller.request(method, server.url, body=b"payload")
        assert response.status_code == (200 if requests == 2 else status)
        assert server.methods == [method] * requests


@case
async def other_statuses_are_answers(open_caller: Open) -> None:
    for status in (200, 301, 404, 409, 500, 501, 505):
        with Server(answering(status, b"x")) as server:
            async with open_caller() as caller:
                assert (await caller.get(server.url)).status_code == status
        assert len(server.requests) == 1


@case
async def the_policy_says_which(open_caller: Open) -> None:
    with Server(busy_once(500), serve) as server:
        async with open_caller(policy=Policy(retry_status=frozenset({500}))) as caller:
            assert (await caller.get(server.url)).status_code == 200
    with Server(busy_once(503), serve) as server:
        async with open_caller(policy=Policy(retry_status=frozenset())) as caller:
            assert (await caller.get(server.url)).status_code == 503
    assert len(server.requests) == 1


@case
async def the_last_answer_is_returned_whole(open_caller: Open) -> None:
    with Server(answering(503, b"still busy", x_pod="a")) as server:
        async with open_caller(policy=Policy(backoff=Backoff(0.0, 0.0))) as caller:
            response = await caller.get(server.url)
            assert caller.counts()["busy"] == 0
    assert (response.status_code, response.content) == (503, b"still busy")
    assert response.headers["x-pod"] == "a"
    assert len(server.requests) == 3
    assert "all 3 attempts are used" in words(response)[-1]


@case
async def the_answer_is_returned_if_nobody_answers_again(open_caller: Open) -> None:
    """503, and then no connection: the caller gets the 503, not the connect error."""

    def last(peer: Peer) -> None:
        peer.request()
        peer.server.stop_listening()
        peer.answer(503, b"last words")
        peer.until_closed()

    with Server(last) as server:
        async with open_caller() as caller:
            response = await caller.get(server.url)
    assert (response.status_code, response.content) == (503, b"last words")
    assert len(server.requests) == 1
    assert "the last answer there was" in words(response)[-1]


@case
async def the_answer_is_returned_if_the_next_attempt_breaks(open_caller: Open) -> None:
    def busy(peer: Peer) -> None:
        peer.request()
        peer.answer(503, b"first")
        peer.close()

    def garbage(peer: Peer) -> None:
        peer.request()
        peer.send(b"what?\r\n\r\n")

    with Server(busy, garbage) as server:
        async with open_caller() as caller:
            response = await caller.get(server.url)
    assert (response.status_code, response.content) == (503, b"first")


@case
async def an_answer_that_breaks_while_it_is_kept_does_not_matter(open_caller: Open) -> None:
    def busy(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 503 Busy\r\ncontent-length: 100\r\n\r\nhalf")

    with Server(busy, serve) as server:
        async with open_caller() as caller:
            assert (await caller.get(server.url)).status_code == 200
    with Server(busy) as server:
        async with open_caller(policy=Policy(attempts=2)) as caller:
            with pytest.raises(httpx.RemoteProtocolError):
                await caller.get(server.url)
    assert len(server.requests) == 2


@case
async def an_answer_that_broke_is_not_fallen_back_on(open_caller: Open) -> None:
    """Half of a 503 is no answer: where nothing better comes, the caller hears that it broke."""

    def last(peer: Peer) -> None:
        peer.request()
        peer.server.stop_listening()
        peer.send(b"HTTP/1.1 503 Busy\r\ncontent-length: 100\r\n\r\nhalf")
        peer.close()

    with Server(last) as server:
        async with open_caller() as caller:
            with pytest.raises(httpx.RemoteProtocolError) as caught:
                await caller.get(server.url)
    assert "the last answer there was" in words(caught.value)[-1]


@case
async def an_answer_too_big_to_keep_is_returned(open_caller: Open) -> None:
    body = b"x" * 500_000
    with Server(answering(503, body)) as server:
        async with open_caller() as caller:
            response = await caller.get(server.url)
    assert (response.status_code, response.content) == (503, body)
    assert len(server.requests) == 1
    assert "too big to be kept" in words(response)[-1]


# -- Retry-After ---------------------------------------------------------------------------


@case
async def retry_after_may_say_at_once(open_caller: Open) -> None:
    for value in ("0", formatdate(0, usegmt=True)):
        with Server(busy_once(503, retry_after=value), serve) as server:
            async with open_caller(policy=Policy(retry_after_limit=0.0)) as caller:
                assert (await caller.get(server.url)).status_code == 200
        assert len(server.requests) == 2


@case
async def a_retry_after_beyond_the_limit_is_an_answer(open_caller: Open) -> None:
    for value in ("11", formatdate(4_000_000_000, usegmt=True)):
        with Server(busy_once(503, retry_after=value), serve) as server:
            async with open_caller() as caller:
                response = await caller.get(server.url)
        assert (response.status_code, response.content) == (503, b"busy")
        assert len(server.requests) == 1
        assert "Retry-After asks for" in words(response)[-1]


@case
async def a_retry_after_beyond_the_deadline_is_an_answer(open_caller: Open) -> None:
    with Server(busy_once(429, retry_after="5"), serve) as server:
        async with open_caller(policy=Policy(deadline=4.0)) as caller:
            response = await caller.get(server.url)
    assert response.status_code == 429
    assert "the deadline comes first" in words(response)[-1]


@case
async def a_retry_after_that_says_nothing_is_passed_over(open_caller: Open) -> None:
    for value in ("soon", "-1", "1.5e3", ""):
        with Server(busy_once(503, retry_after=value), serve) as server:
            async with open_caller() as caller:
                assert (await caller.get(server.url)).status_code == 200
        assert len(server.requests) == 2
