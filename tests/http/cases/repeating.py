"""Failures without an answer: which requests are repeated, where, and what the report says."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from outlast import Backoff, Policy, Progress
from tests.http.callers import Upload, report_of, words
from tests.http.cases.table import Open, case, incident
from tests.http.servers import Peer, Server, hang_up, in_turn, raw, serve

IDEMPOTENT = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]
OTHERS = ["POST", "PATCH", "PURGE"]
AT_ONCE = Policy(backoff=Backoff(0.0, 0.0))


def serve_once(peer: Peer) -> None:
    """One good answer, then the connection is closed, without saying so before."""
    peer.request()
    peer.answer(200, b"once")
    peer.close()


def reset(peer: Peer) -> None:
    """Takes one request and resets the connection."""
    peer.request()
    peer.reset()


# -- idle connections ----------------------------------------------------------------------


@incident("FR-34")
@case
async def an_idle_connection_that_was_closed_is_not_used(open_caller: Open) -> None:
    """Seen before anything is sent, so any method goes out, once, on a new connection."""
    for method in [*IDEMPOTENT, *OTHERS]:
        with Server(serve_once, serve) as server:
            async with open_caller() as caller:
                await caller.get(server.url)
                caller.hear_idle()
                response = await caller.request(method, server.url)
                assert caller.counts()["places"] == 1
        assert response.status_code == 200
        assert server.methods == ["GET", method]
        assert words(response, "pool") == ["closed by the peer while idle", "new"]


@case
async def many_idle_connections_that_were_closed(open_caller: Open) -> None:
    """All are found out, whatever the limit on connections; no place is lost."""
    limits = httpx.Limits(max_connections=4)
    with Server(serve_once, serve_once, serve_once, serve_once, serve) as server:
        async with open_caller(limits=limits) as caller:

            async def get() -> None:
                await caller.get(server.url)

            await caller.together(get, get, get, get)
            caller.hear_idle()
            opened = server.connections
            for _ in range(6):
                await caller.post(server.url)
            assert caller.counts()["places"] <= 4
    assert server.connections == opened + 1 or opened < 4


@case
async def an_idle_connection_that_was_reset_is_not_used(open_caller: Open) -> None:
    def one_and_reset(peer: Peer) -> None:
        peer.request()
        peer.answer(200, b"once")
        peer.reset()

    with Server(one_and_reset, serve) as server:
        async with open_caller() as caller:
            await caller.get(server.url)
            caller.hear_idle()
            await caller.post(server.url)
    assert server.methods == ["GET", "POST"]


# -- no answer -----------------------------------------------------------------------------


@case
async def what_is_idempotent_is_repeated(open_caller: Open) -> None:
    for method in IDEMPOTENT:
        with Server(hang_up, serve) as server:
            async with open_caller() as caller:
                response = await caller.request(method, server.url)
        assert response.status_code == 200
        assert server.methods == [method, method]
        (event,) = report_of(response).of_phase("request")[:1]
        assert "repeated (idempotent and unanswered)" in event.what
        assert (event.attempt, event.address, event.progress) == (0, server.address, Progress.SENT)


@incident("FR-52", "FR-54")
@case
async def what_is_not_idempotent_is_not(open_caller: Open) -> None:
    for method in OTHERS:
        with Server(hang_up, serve) as server:
            async with open_caller() as caller:
                with pytest.raises(httpx.RemoteProtocolError, match=server.address) as caught:
                    await caller.request(method, server.url, body=b"pay")
                assert caller.counts()["places"] == 0
        assert server.methods == [method]
        assert "not repeated (not idempotent and maybe sent)" in words(caught.value)[-1]
        assert report_of(caught.value).progress is Progress.SENT


@case
async def a_reset_counts_as_no_answer(open_caller: Open) -> None:
    with Server(reset, serve) as server:
        async with open_caller() as caller:
            assert (await caller.get(server.url)).status_code == 200
    assert server.methods == ["GET", "GET"]
    with Server(reset, serve) as server:
        async with open_caller() as caller:
            with pytest.raises(httpx.ReadError, match=server.address) as caught:
                await caller.post(server.url)
    assert server.methods == ["POST"]
    (event,) = report_of(caught.value).of_phase("request")
    assert event.errno is not None


@case
async def a_reset_while_writing_is_no_answer_either(open_caller: Open) -> None:
    def cut(peer: Peer) -> None:
        while len(peer._buffer) < 100_000:
            assert peer.more()
        peer.reset()

    payload = b"x" * 8_000_000
    with Server(cut, serve) as server:
        async with open_caller() as caller:
            assert (await caller.request("PUT", server.url, body=payload)).content == payload
    assert server.connections == 2
    with Server(cut, serve) as server:
        async with open_caller() as caller:
            with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)) as caught:
                await caller.post(server.url, payload)
    assert server.connections == 1
    assert "not repeated (not idempotent and maybe sent)" in words(caught.value)[-1]


@case
async def a_key_makes_a_post_repeatable(open_caller: Open) -> None:
    with Server(hang_up, serve) as server:
        async with open_caller() as caller:
            headers = {"Idempotency-Key": '"8e03978e"'}
            assert (await caller.post(server.url, headers=headers)).content == b"payload"
    assert server.methods == ["POST", "POST"]
    assert {seen.headers["idempotency-key"] for seen in server.requests} == {'"8e03978e"'}


@case
async def the_callers_word_makes_a_post_repeatable(open_caller: Open) -> None:
    with Server(hang_up, serve) as server:
        async with open_caller() as caller:
            mine = {"outlast": {"idempotent": True}}
            assert (await caller.post(server.url, extensions=mine)).content == b"payload"
    assert server.methods == ["POST", "POST"]


@case
async def the_callers_word_makes_a_get_single(open_caller: Open) -> None:
    with Server(hang_up, serve) as server:
        async with open_caller(policy=Policy(idempotent=False)) as caller:
            with pytest.raises(httpx.RemoteProtocolError):
                await caller.get(server.url, headers={"Idempotency-Key": "1"})
    assert server.methods == ["GET"]


# -- how often -----------------------------------------------------------------------------


@case
async def the_last_failure_is_raised(open_caller: Open) -> None:
    with Server(hang_up, hang_up, reset) as server:
        async with open_caller(policy=AT_ONCE) as caller:
            with pytest.raises(httpx.ReadError) as caught:
                await caller.get(server.url)
    assert server.methods == ["GET"] * 3
    assert "all 3 attempts are used" in words(caught.value)[-1]
    assert [event.attempt for event in report_of(caught.value).of_phase("request")] == [0, 1, 2]


@incident("FR-53")
@case
async def one_attempt_is_one_request(open_caller: Open) -> None:
    """Whatever the fault, whatever the method."""
    half = raw(b"HTTP/1.1 200 OK\r\ncontent-le")
    busy = raw(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n")
    single: dict[str, Any] = {"extensions": {"outlast": {"attempts": 1}}}
    for fault in (hang_up, reset, half, busy):
        for method in ("GET", "PUT", "DELETE", "POST", "PATCH"):
            with Server(fault) as server:
                async with open_caller() as caller:
                    try:
                        response = await caller.request(method, server.url, **single)
                        assert response.status_code == 503
                    except (httpx.ReadError, httpx.RemoteProtocolError):
                        assert fault is not busy
            assert server.methods == [method]


@incident("FR-56")
@case
async def a_budget_bounds_what_calls_repeat_together(open_caller: Open) -> None:
    """20 % of requests, and 3 a second over 10 s: 30 repeats for the first call."""
    with Server(hang_up) as server:
        async with open_caller(policy=Policy(attempts=100, backoff=Backoff(0.0, 0.0))) as caller:
            with pytest.raises(httpx.RemoteProtocolError) as caught:
                await caller.get(server.url)
            assert "the retry budget is spent" in words(caught.value)[-1]
            assert 31 <= len(server.requests) <= 35
            used = len(server.requests)
            for _ in range(4):  # whoever calls now gets one request each, or what has come back
                with pytest.raises(httpx.RemoteProtocolError):
                    await caller.get(server.url)
            assert used + 4 <= len(server.requests) <= used + 10


# -- where ---------------------------------------------------------------------------------


@case
async def another_endpoint_comes_first(open_caller: Open) -> None:
    with Server(hang_up) as bad, Server(serve) as good:
        targets = {"http://orders": in_turn(bad, good)}
        async with open_caller(targets=targets, policy=Policy(attempts=2)) as caller:
            for _ in range(12):
                assert (await caller.get("http://orders/x")).content == b"/x"
    assert len(good.requests) == 12
    assert 1 <= len(bad.requests) <= 5, "five broken connections in a row put it out"
    assert good.requests[0].headers["host"] == "orders"


@case
async def endpoints_share_and_keep_their_connections(open_caller: Open) -> None:
    with Server(serve) as one, Server(serve) as two:
        async with open_caller(targets={"http://orders": in_turn(one, two)}) as caller:
            for _ in range(40):
                await caller.get("http://orders")
    assert (len(one.requests), len(two.requests)) == (20, 20)
    assert (one.connections, two.connections) == (1, 1)


@case
async def an_endpoint_without_a_listener_does_not_matter(open_caller: Open) -> None:
    with Server(serve) as gone:
        refused = gone.address
    with Server(serve) as good:
        targets = {"http://orders": f"static://{refused},{good.address}"}
        async with open_caller(targets=targets) as caller:
            for method in ("POST", "GET", "POST", "PATCH"):
                await caller.request(method, "http://orders")
    assert good.methods == ["POST", "GET", "POST", "PATCH"]


@case
async def no_endpoint_at_all_is_a_connect_error(open_caller: Open) -> None:
    with Server(serve) as gone:
        refused = gone.address
    async with open_caller() as caller:
        with pytest.raises(httpx.ConnectError, match=f"{refused}.*nothing was sent") as caught:
            await caller.post(f"http://{refused}", Upload(b"one"))
        assert caller.counts()["places"] == 0
    report = report_of(caught.value)
    assert report.progress is Progress.NOT_SENT
    assert {event.address for event in report.of_phase("connect")} == {refused}
    assert isinstance(caught.value.__cause__, OSError)


# -- a response that breaks ----------------------------------------------------------------


@case
async def a_broken_head_is_never_repeated(open_caller: Open) -> None:
    with Server(raw(b"HTTP/1.1 200 OK\r\ncontent-le"), serve) as server:
        async with open_caller() as caller:
            with pytest.raises(httpx.RemoteProtocolError) as caught:
                await caller.get(server.url)
    assert server.methods == ["GET"]
    assert "not repeated (the response had begun)" in words(caught.value)[-1]


@incident("FR-55")
@case
async def a_broken_body_is_never_repeated(open_caller: Open) -> None:
    half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"
    chunk = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"
    for broken in (half, chunk):
        with Server(raw(broken), serve) as server:
            async with open_caller() as caller:
                with pytest.raises(httpx.RemoteProtocolError) as caught:
                    await caller.get(server.url)
                assert caller.counts()["places"] == 0
        assert server.methods == ["GET"]
        assert report_of(caught.value).progress is Progress.BODY
        assert "never repeated" in str(caught.value)


@incident("FR-55")
@case
async def a_body_that_is_reset_is_never_repeated(open_caller: Open) -> None:
    def cut(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
        peer.wait(peer.server.gate)
        peer.reset()

    with Server(cut, serve) as server:
        async with open_caller() as caller:
            got: list[bytes] = []
            with pytest.raises(httpx.ReadError, match=server.address) as caught:
                await caller.stream_into(got, server.url, server.gate.set)
    assert got == [b"half"]
    assert server.methods == ["GET"]
    assert report_of(caught.value).progress is Progress.BODY
