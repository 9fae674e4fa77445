"""TLS: the name that the user wrote is verified, whatever address was dialled."""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl

import httpx
import pytest
import trustme

from tests.http.callers import Upload, report_of
from tests.http.cases.table import Open, case, incident
from tests.http.servers import BOUND, Peer, Server, serve


@functools.cache
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(*names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(*names).configure_cert(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def client_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority().configure_trust(context)
    return context


def alpn(peer: Peer) -> str | None:
    assert isinstance(peer.sock, ssl.SSLSocket)
    return peer.sock.selected_alpn_protocol()


@incident("FR-67")
@case
async def fr67_the_right_name_at_a_chosen_address(open_caller: Open) -> None:
    with Server(serve, context=server_context("orders.shop.svc")) as server:
        targets = {"https://orders.shop.svc": f"static://{server.address}"}
        async with open_caller(verify=client_context(), targets=targets) as caller:
            assert (await caller.get("https://orders.shop.svc/x")).content == b"/x"
            assert (await caller.post("https://orders.shop.svc")).content == b"payload"
    assert server.connections == 1
    assert server.requests[0].headers["host"] == "orders.shop.svc"


@incident("FR-67")
@case
async def fr67_a_certificate_for_the_address_only_is_refused(open_caller: Open) -> None:
    with Server(serve, context=server_context("127.0.0.1")) as server:
        targets = {"https://orders.shop.svc": f"static://{server.address}"}
        async with open_caller(verify=client_context(), targets=targets) as caller:
            with pytest.raises(httpx.ConnectError, match="nothing was sent") as caught:
                await caller.post("https://orders.shop.svc")
            assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
            assert "orders.shop.svc" in str(caught.value.__cause__)
            assert (await caller.get(server.url)).status_code == 200
    assert server.methods == ["GET"]


@case
async def an_authority_that_nobody_knows_is_refused(open_caller: Open) -> None:
    with Server(serve, context=server_context("127.0.0.1")) as server:
        async with open_caller() as caller:
            with pytest.raises(httpx.ConnectError):
                await caller.get(server.url)
    assert server.requests == []


@case
async def verification_can_be_switched_off(open_caller: Open) -> None:
    with Server(serve, context=server_context("elsewhere")) as server:
        async with open_caller(verify=False) as caller:
            assert (await caller.get(server.url)).status_code == 200


@case
async def the_callers_other_name(open_caller: Open) -> None:
    """`sni_hostname`: what is sent and verified instead of the URL's host."""
    with Server(serve, context=server_context("orders.shop.svc")) as server:
        other = {"sni_hostname": "orders.shop.svc"}
        async with open_caller(verify=client_context()) as caller:
            assert (await caller.get(server.url, extensions=other)).status_code == 200


@case
async def a_connection_verified_for_another_name_is_not_shared(open_caller: Open) -> None:
    """The URL's own host was not verified there: a call for it needs a connection of its own."""
    with Server(serve, context=server_context("orders.shop.svc")) as server:
        other = {"sni_hostname": "orders.shop.svc"}
        async with open_caller(verify=client_context()) as caller:
            assert (await caller.get(server.url, extensions=other)).status_code == 200
            with pytest.raises(httpx.ConnectError):
                await caller.get(server.url)
            assert (await caller.get(server.url, extensions=other)).status_code == 200
    assert len(server.requests) == 2


@case
async def http_1_is_what_is_offered(open_caller: Open) -> None:
    """Also by a context that another client, which speaks HTTP/2, has in use."""
    agreed: list[str | None] = []

    def handler(peer: Peer) -> None:
        agreed.append(alpn(peer))
        serve(peer)

    context = client_context()
    with Server(handler, context=server_context("127.0.0.1")) as server:
        async with open_caller(verify=context) as caller:
            context.set_alpn_protocols(["h2", "http/1.1"])
            await caller.get(server.url)
    assert agreed == ["http/1.1"]


@case
async def records_that_arrive_together(open_caller: Open) -> None:
    """One read from the socket may hold several records: none may be waited for again."""

    def handler(peer: Peer) -> None:
        while peer.request() is not None:
            peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            peer.send(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"content-length:")
            peer.send(b" 4\r\n", b"\r\n", b"on", b"e", b"!")
            peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    with Server(handler, context=server_context("127.0.0.1")) as server:
        async with open_caller(verify=client_context()) as caller:
            for _ in range(3):
                assert (await caller.get(server.url, timeout=5.0)).content == b"one!"
    assert server.connections == 1


@case
async def a_record_after_the_response_spoils_the_connection(open_caller: Open) -> None:
    """It was read from the socket with the response, and waits inside the TLS session."""
    stale = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstale"

    def handler(peer: Peer) -> None:
        peer.request()
        peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", stale)
        peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
        peer.until_closed()

    with Server(handler, serve, context=server_context("127.0.0.1")) as server:
        async with open_caller(verify=client_context()) as caller:
            assert (await caller.get(server.url)).content == b"ok"
            assert (await caller.get(f"{server.url}/mine")).content == b"/mine"
    assert server.connections == 2


@case
async def big_bodies_both_ways(open_caller: Open) -> None:
    payload = bytes(range(256)) * 8192
    with Server(serve, context=server_context("127.0.0.1")) as server:
        async with open_caller(verify=client_context()) as caller:
            assert (await caller.post(server.url, payload)).content == payload
            assert (await caller.post(server.url, Upload(payload, payload))).content == payload * 2
    assert server.connections == 1


def say_goodbye(peer: Peer) -> None:
    """Send close_notify, and wait for nothing."""
    assert isinstance(peer.sock, ssl.SSLSocket)
    peer.sock.settimeout(0)
    with contextlib.suppress(ssl.SSLWantReadError):
        peer.sock.unwrap()
    peer.sock.settimeout(BOUND)


@case
async def an_idle_session_that_was_ended_is_not_used(open_caller: Open) -> None:
    """The TCP connection stands, the TLS session says that it is over."""

    def once(peer: Peer) -> None:
        peer.request()
        peer.answer(200, b"once")
        peer.wait(peer.server.gate)
        say_goodbye(peer)
        peer.until_closed()

    with Server(once, serve, context=server_context("127.0.0.1")) as server:
        async with open_caller(verify=client_context()) as caller:
            await caller.get(server.url)
            server.gate.set()
            caller.hear_idle()
            await caller.post(server.url)
    assert server.methods == ["GET", "POST"]


@incident("FR-36")
@case
async def a_session_that_ends_with_its_response_is_not_used(open_caller: Open) -> None:
    """The end comes with the last bytes of the response: there is nothing left to hear of it."""

    def once(peer: Peer) -> None:
        peer.request()
        peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        peer.answer(200, b"once")
        say_goodbye(peer)
        peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
        peer.until_closed()

    with Server(once, serve, context=server_context("127.0.0.1")) as server:
        async with open_caller(verify=client_context()) as caller:
            await caller.get(server.url)
            await caller.post(server.url)
    assert server.methods == ["GET", "POST"]


@case
async def the_handshakes_failure_is_told(open_caller: Open) -> None:
    def no_tls(peer: Peer) -> None:
        peer.more()
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        peer.close()

    with Server(no_tls) as server:
        async with open_caller() as caller:
            with pytest.raises(httpx.ConnectError, match="nothing was sent") as caught:
                await caller.get(server.url.replace("http:", "https:"))
    assert report_of(caught.value).of_phase("handshake")
    assert isinstance(caught.value.__cause__, ssl.SSLError)
