"""Stalls on the way to a usable connection: one connect timeout bounds TCP, proxy and TLS."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator

import httpx
import pytest

from outlast import Progress
from tests.http.callers import report_of
from tests.http.cases.proxies import ORDERS, STANDS, secure_proxy
from tests.http.cases.table import Open, case, incident
from tests.http.cases.timeouts import deaf, silent_address
from tests.http.cases.tls import client_context, server_context
from tests.http.proxy_servers import answering_connect, http_proxy, socks_proxy
from tests.http.servers import BOUND, Handler, Peer, Server, mute

CONNECT = 0.2  # seconds
LIMITS = httpx.Timeout(BOUND, connect=CONNECT)


def hello_only(version: ssl.TLSVersion) -> Handler:
    """A TLS server that stops after its ServerHello."""
    context = server_context(ORDERS)
    context.maximum_version = version

    def handler(peer: Peer) -> None:
        came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(came, goes, server_side=True)
        while not goes.pending:
            data = peer.sock.recv(65_536)
            if not data:
                return
            came.write(data)
            with contextlib.suppress(ssl.SSLWantReadError):
                session.do_handshake()
        flight = goes.read()
        assert flight[0] == 22
        assert flight[5] == 2  # a handshake record, a ServerHello
        peer.send(flight[: 5 + int.from_bytes(flight[3:5], "big")])
        peer.until_closed()

    return handler


@contextlib.contextmanager
def too_late(url: str) -> Iterator[None]:
    """What is raised inside is the connect timeout, at its time, with nothing sent."""
    with pytest.raises(httpx.ConnectTimeout, match="nothing was sent") as caught:
        yield
    report = report_of(caught.value)
    assert report.progress is Progress.NOT_SENT
    assert CONNECT <= report.events[-1].at < CONNECT + BOUND / 4, url


async def gives_up(open_caller: Open, url: str, **arguments: object) -> None:
    async with open_caller(verify=client_context(), **arguments) as caller:
        with too_late(url):
            await caller.post(url, timeout=LIMITS)
        assert caller.counts()["places"] == 0


# -- FR-65: a proxy ------------------------------------------------------------------------


@incident("FR-65")
@case
async def fr65_a_proxy_that_does_not_accept(open_caller: Open) -> None:
    for scheme in ("http", "https", "socks5"):
        with silent_address() as address:
            await gives_up(open_caller, f"https://{ORDERS}", proxy=f"{scheme}://{address}")


@incident("FR-65")
@case
async def fr65_a_proxy_that_never_answers_connect(open_caller: Open) -> None:
    for handler in (mute, deaf, answering_connect(b"HTTP/1.1 200 Connection estab")):
        with Server(handler) as proxy:
            await gives_up(open_caller, f"https://{ORDERS}", proxy=proxy.url)


@incident("FR-65")
@case
async def fr65_tls_that_stalls_inside_the_tunnel(open_caller: Open) -> None:
    stalls: list[Handler] = [deaf, hello_only(ssl.TLSVersion.TLSv1_2)]
    for handler in (*stalls, hello_only(ssl.TLSVersion.TLSv1_3)):
        with Server(handler) as origin:
            streets = {f"{ORDERS}:443": origin.address}
            with Server(http_proxy(streets)) as proxy, Server(socks_proxy(streets)) as socks:
                await gives_up(open_caller, f"https://{ORDERS}", proxy=proxy.url)
                address = f"socks5://{socks.address}"
                await gives_up(open_caller, f"https://{ORDERS}", proxy=address)


@incident("FR-65")
@case
async def fr65_tls_that_stalls_before_the_proxy(open_caller: Open) -> None:
    with Server(deaf) as proxy:
        url = proxy.url.replace("http:", "https:")
        for origin in (f"http://{ORDERS}", f"https://{ORDERS}"):
            await gives_up(open_caller, origin, proxy=url)
    with Server(mute, context=secure_proxy()) as proxy:
        given = httpx.Proxy(proxy.url, ssl_context=client_context())
        await gives_up(open_caller, f"https://{ORDERS}", proxy=given)


@incident("FR-65")
@case
async def fr65_socks_that_stalls_at_each_step(open_caller: Open) -> None:
    steps = (b"\x05\x02", b"\x01\x00", b"\x05\x00")
    for count in range(len(steps) + 1):

        def handler(peer: Peer, count: int = count) -> None:
            for answer in steps[:count]:
                peer.more()
                peer.send(answer)
            peer.until_closed()

        with Server(handler) as proxy:
            url = f"socks5://user:word@{proxy.address}"
            await gives_up(open_caller, f"http://{ORDERS}", proxy=url)


@case
async def a_proxy_that_never_comes_to_the_point(open_caller: Open) -> None:
    """Interim answers without end are no answer, however fast they come."""

    def handler(peer: Peer) -> None:
        peer.request()
        while True:
            peer.send(b"HTTP/1.1 102 Processing\r\n\r\n" * 100)

    with Server(handler) as proxy:
        async with open_caller(proxy=proxy.url) as caller:
            with pytest.raises(httpx.RemoteProtocolError, match="nothing was sent"):
                await caller.get(f"https://{ORDERS}")


@case
async def the_deadline_bounds_the_way_through_a_proxy_too(open_caller: Open) -> None:
    for handler in (mute, answering_connect(STANDS)):
        with Server(handler) as proxy:
            async with open_caller(proxy=proxy.url) as caller:
                late = {"outlast": {"deadline": CONNECT}}
                with too_late(proxy.url):
                    await caller.get(f"https://{ORDERS}", extensions=late)


# -- FR-66: the TLS server itself ----------------------------------------------------------


@incident("FR-66")
@case
async def fr66_a_server_that_stops_after_accepting(open_caller: Open) -> None:
    with Server(deaf) as server:
        await gives_up(open_caller, server.url.replace("http:", "https:"))


@incident("FR-66")
@case
async def fr66_a_server_that_stops_after_its_hello(open_caller: Open) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with Server(hello_only(version)) as server:
            await gives_up(open_caller, server.url.replace("http:", "https:"))
