"""HTTP proxies that refuse, hang up, stall or make no sense, and what says nothing against them."""

from __future__ import annotations

import httpx
import pytest

from outlast.core.health import Standing
from outlast.net.address import Address
from outlast.service.table import service_of
from tests.http.callers import Caller, report_of
from tests.http.cases.proxies import ORDERS, STANDS, several
from tests.http.cases.table import Open, case
from tests.http.cases.tls import client_context, server_context
from tests.http.proxy_servers import answering_connect, http_proxy
from tests.http.servers import Peer, Server, hang_up, mute, serve


def blamed(caller: Caller) -> list[Address]:
    """The proxy's addresses that are tried last."""
    engine = caller.transport._engine
    target = engine.settings.way.target
    assert target is not None
    roster = service_of(target, engine.network)._roster
    return [each.key for each in roster if each.health.standing is not Standing.IN]


@case
async def a_refused_tunnel_is_a_proxy_error(open_caller: Open) -> None:
    for status in (b"403 Forbidden", b"407 Proxy Authentication Required", b"502 Bad Gateway"):
        refusal = b"HTTP/1.1 " + status + b"\r\nContent-Length: 4\r\n\r\nsome"
        with Server(answering_connect(refusal)) as proxy:
            async with open_caller(proxy=proxy.url, retries=3) as caller:
                with pytest.raises(httpx.ProxyError, match=status.decode()) as caught:
                    await caller.post(f"https://{ORDERS}")
                assert str(caught.value).startswith(status.decode())
                assert caller.counts()["places"] == 0
        assert f"proxy {proxy.url} to CONNECT {ORDERS}:443" in str(caught.value)
        assert "nothing was sent" in str(caught.value)
        assert proxy.methods == ["CONNECT"]
        assert report_of(caught.value).of_phase("handshake")


@case
async def a_refusal_says_nothing_against_the_proxy(open_caller: Open) -> None:
    """It is not tried last for having said that an origin cannot be reached."""
    refuse = answering_connect(b"HTTP/1.1 504 Gateway Timeout\r\n\r\n")
    with Server(refuse, http_proxy()) as proxy, Server(serve) as origin:
        network = several(proxy)
        async with open_caller(proxy="http://proxies:3128", network=network) as caller:
            with pytest.raises(httpx.ProxyError, match="504 Gateway Timeout"):
                await caller.get(f"https://{ORDERS}")
            assert blamed(caller) == []
            assert (await caller.get(origin.url)).status_code == 200


@case
async def what_is_wrong_beyond_says_nothing_against_the_proxy(open_caller: Open) -> None:
    """A bad certificate, and an origin that hangs up on TLS."""
    for origin in (
        Server(serve, context=server_context("elsewhere")),
        Server(Peer.close),
    ):
        with origin, Server(http_proxy()) as proxy:
            async with open_caller(proxy=proxy.url, verify=client_context()) as caller:
                with pytest.raises(httpx.ConnectError, match="nothing was sent"):
                    await caller.get(f"https://{origin.address}")
                assert blamed(caller) == []


@case
async def a_proxy_that_hangs_up_is_tried_last(open_caller: Open) -> None:
    with Server(hang_up) as proxy, Server(hang_up) as other:
        network = several(proxy, other)
        async with open_caller(proxy="http://proxies:3128", network=network) as caller:
            with pytest.raises(httpx.RemoteProtocolError):
                await caller.get(f"https://{ORDERS}")
            assert len(blamed(caller)) == 2


@case
async def another_address_of_the_proxy_may_get_through(open_caller: Open) -> None:
    refuse = answering_connect(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
    with Server(serve, context=server_context("127.0.0.1")) as origin:
        with Server(refuse) as bad, Server(http_proxy()) as good:
            network = several(bad, good)
            given = {"proxy": "http://proxies:3128", "network": network}
            async with open_caller(**given, verify=client_context()) as caller:
                for _ in range(2):
                    assert (await caller.get(origin.url)).status_code == 200
    assert len(bad.requests) <= 2, "once a call"


@case
async def a_wrong_password_is_tried_once(open_caller: Open) -> None:
    refuse = answering_connect(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
    with Server(refuse) as one, Server(refuse) as other:
        async with open_caller(proxy="http://p:1", network=several(one, other)) as caller:
            with pytest.raises(httpx.ProxyError, match="407 Proxy"):
                await caller.get(f"https://{ORDERS}")
    assert len(one.requests + other.requests) == 1


@case
async def a_proxy_that_hangs_up_is_tried_again(open_caller: Open) -> None:
    with Server(serve, context=server_context("127.0.0.1")) as origin:
        with Server(hang_up, Peer.reset, http_proxy()) as proxy:
            async with open_caller(proxy=proxy.url, verify=client_context()) as caller:
                assert (await caller.post(origin.url)).content == b"payload"
    assert proxy.methods[-1] == "CONNECT"
    assert origin.methods == ["POST"]


@case
async def a_proxy_that_always_hangs_up(open_caller: Open) -> None:
    """httpx's exceptions; a bounded number of connections."""

    def reset(peer: Peer) -> None:
        peer.request()
        peer.reset()

    ends = ((hang_up, httpx.RemoteProtocolError, "disconnected"), (reset, httpx.ReadError, "reset"))
    for handler, kind, text in ends:
        with Server(handler) as proxy:
            async with open_caller(proxy=proxy.url) as caller:
                with pytest.raises(kind, match=f"{text}.*nothing was sent"):
                    await caller.post(f"https://{ORDERS}")
                assert caller.counts()["places"] == 0
        assert 0 < proxy.connections <= 8


@case
async def answers_that_make_no_sense(open_caller: Open) -> None:
    head = b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000
    for answer in (b"\x16\x03\x01\r\n\r\n", b"SSH-2.0-x\r\n\r\n", STANDS + b"unasked", head):
        with Server(answering_connect(answer)) as proxy:
            async with open_caller(proxy=proxy.url) as caller:
                with pytest.raises(httpx.RemoteProtocolError, match="nothing was sent"):
                    await caller.post(f"https://{ORDERS}")
                assert caller.counts()["places"] == 0
        assert proxy.connections == 1


@case
async def a_stalled_proxy_is_raced(open_caller: Open) -> None:
    """Nothing was sent through a tunnel that does not come about: another dial may win."""
    with Server(serve, context=server_context("127.0.0.1")) as origin:
        with Server(mute, http_proxy()) as proxy:
            async with open_caller(proxy=proxy.url, verify=client_context()) as caller:
                assert (await caller.post(origin.url)).content == b"payload"
    assert proxy.connections == 2
    assert origin.methods == ["POST"]


@case
async def no_proxy_there(open_caller: Open) -> None:
    with Server(serve) as gone:
        gone.stop_listening()
    async with open_caller(proxy=gone.url) as caller:
        for url in (f"http://{ORDERS}", f"https://{ORDERS}"):
            with pytest.raises(httpx.ConnectError, match=f"{gone.address}.*Connection refused"):
                await caller.get(url)
