"""Through an HTTP proxy: forwarded requests and tunnels."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

import httpx
import pytest

from outlast.net.address import Address
from outlast.net.kernel import KernelNetwork
from tests.http.callers import Upload, report_of, words
from tests.http.cases.table import Open, case
from tests.http.cases.tls import alpn, client_context, server_context
from tests.http.h2_server import serve_h2
from tests.http.proxy_servers import basic, http_proxy, socks_proxy
from tests.http.servers import Peer, Server, serve

ORDERS = "orders.shop.svc"
STANDS = b"HTTP/1.1 200 Connection established\r\n\r\n"


def several(*servers: Server) -> KernelNetwork:
    """A network on which every name has the addresses of these servers."""
    found = [Address(socket.AF_INET, ("127.0.0.1", server.port)) for server in servers]

    def resolve(host: str, port: int) -> Sequence[Address]:
        return found

    return KernelNetwork(resolve)


def secure_proxy() -> ssl.SSLContext:
    context = server_context("127.0.0.1")
    context.set_alpn_protocols(["http/1.1"])
    return context


# -- forwarded -----------------------------------------------------------------------------


@case
async def a_plain_request_is_forwarded_in_absolute_form(open_caller: Open) -> None:
    with Server(serve) as origin, Server(http_proxy({f"{ORDERS}:80": origin.address})) as proxy:
        async with open_caller(proxy=proxy.url) as caller:
            response = await caller.get(f"http://{ORDERS}/x?a=b")
            assert response.content == b"/x?a=b"
            assert (await caller.post(f"{origin.url}/y")).content == b"payload"
    assert [seen.target for seen in proxy.requests] == [
        f"http://{ORDERS}/x?a=b",
        f"http://{origin.address}/y",
    ]
    assert origin.requests[0].headers["host"] == ORDERS
    assert proxy.requests[1].headers["host"] == origin.address
    assert words(response, "connect")[0].startswith("connected in")
    assert report_of(response).events[0].address == proxy.address


@case
async def forwarded_requests_of_an_origin_share_connections(open_caller: Open) -> None:
    """Those of others do not: a proxy may send them where the connection's first one went."""
    with Server(serve) as origin:
        streets = {f"{name}:80": origin.address for name in ("a", "b", "c")}
        with Server(http_proxy(streets)) as proxy:
            async with open_caller(proxy=proxy.url) as caller:
                for name in (*streets, *streets):
                    assert (await caller.get(f"http://{name}")).status_code == 200
                assert caller.counts()["idle"] == 3
    assert proxy.connections == 3


@case
async def a_streamed_body_is_forwarded(open_caller: Open) -> None:
    with Server(serve) as origin, Server(http_proxy()) as proxy:
        async with open_caller(proxy=proxy.url) as caller:
            response = await caller.post(origin.url, Upload(b"one", b"two"))
    assert response.content == b"onetwo"


@case
async def what_is_for_the_proxy_goes_to_the_proxy(open_caller: Open) -> None:
    """Its headers and credentials; a request's own header of the same name wins."""
    wanted = basic("user", "pass:word")
    with Server(serve) as origin, Server(http_proxy(credentials=wanted)) as proxy:
        given = httpx.Proxy(
            proxy.url, auth=("user", "pass:word"), headers={"X-Via": "us", "X-B": "1"}
        )
        async with open_caller(proxy=given) as caller:
            response = await caller.get(origin.url, headers={"x-b": "2"})
    assert response.status_code == 200
    seen = proxy.requests[0].headers
    assert (seen["x-via"], seen["x-b"], seen["proxy-authorization"]) == ("us", "2", wanted)
    assert "proxy-authorization" not in origin.requests[0].headers


@case
async def credentials_in_the_proxys_url(open_caller: Open) -> None:
    with Server(serve) as origin, Server(http_proxy(credentials=basic("us er", "p@ss"))) as proxy:
        url = proxy.url.replace("http://", "http://us%20er:p%40ss@")
        for given in (url, httpx.URL(url), httpx.Proxy(url)):
            async with open_caller(proxy=given) as caller:
                assert (await caller.get(origin.url)).status_code == 200


@case
async def a_refused_forward_is_an_answer(open_caller: Open) -> None:
    """As in httpx: a 407 to a request is the request's answer."""
    with Server(http_proxy(credentials="Basic other")) as proxy:
        async with open_caller(proxy=proxy.url) as caller:
            assert (await caller.get(f"http://{ORDERS}")).status_code == 407


@case
async def a_target_of_the_callers_own_is_left_as_it_is(open_caller: Open) -> None:
    def handler(peer: Peer) -> None:
        while peer.request() is not None:
            peer.answer(200)

    with Server(handler) as proxy:
        async with open_caller(proxy=proxy.url) as caller:
            await caller.request("OPTIONS", f"http://{ORDERS}", extensions={"target": b"*"})
            await caller.get("http://[::1]:81/x")
    assert [seen.target for seen in proxy.requests] == ["*", "http://[::1]:81/x"]


@case
async def http_2_is_not_spoken_to_a_proxy(open_caller: Open) -> None:
    """As in httpx: what `http1` and `http2` say is about origins."""
    with Server(serve) as origin, Server(http_proxy()) as proxy:
        async with open_caller(proxy=proxy.url, http1=False, http2=True) as caller:
            assert (await caller.get(origin.url)).http_version == "HTTP/1.1"


# -- tunnels -------------------------------------------------------------------------------


@case
async def https_goes_through_a_tunnel(open_caller: Open) -> None:
    streets: dict[str, str] = {}
    wanted = basic("user", "word")
    with Server(serve, context=server_context(ORDERS)) as origin:
        streets[f"{ORDERS}:443"] = origin.address
        with Server(http_proxy(streets, credentials=wanted)) as proxy:
            given = httpx.Proxy(proxy.url, auth=("user", "word"), headers={"X-Via": "us"})
            async with open_caller(proxy=given, verify=client_context()) as caller:
                assert (await caller.get(f"https://{ORDERS}/x")).content == b"/x"
                assert (await caller.post(f"https://{ORDERS}")).content == b"payload"
    (asked,) = proxy.requests
    assert (asked.method, asked.target) == ("CONNECT", f"{ORDERS}:443")
    assert asked.headers == {
        "host": f"{ORDERS}:443",
        "accept": "*/*",
        "proxy-authorization": wanted,
        "x-via": "us",
    }
    assert not {"proxy-authorization", "x-via"} & origin.requests[0].headers.keys()
    assert origin.connections == 1


@case
async def every_origin_has_tunnels_of_its_own(open_caller: Open) -> None:
    context = server_context(ORDERS, "stock")
    with Server(serve, context=context) as one, Server(serve, context=context) as other:
        streets = {f"{ORDERS}:443": one.address, "stock:443": other.address}
        with Server(http_proxy(streets)) as proxy:
            async with open_caller(proxy=proxy.url, verify=client_context()) as caller:
                for name in (ORDERS, "stock", ORDERS, "stock"):
                    await caller.get(f"https://{name}/{name}")
                assert caller.counts()["idle"] == 2
    assert {seen.target for seen in one.requests} == {f"/{ORDERS}"}
    assert {seen.target for seen in other.requests} == {"/stock"}
    assert proxy.connections == 2


@case
async def the_tunnels_far_end_agrees_on_the_protocol(open_caller: Open) -> None:
    agreed: list[str | None] = []

    def handler(peer: Peer) -> None:
        agreed.append(alpn(peer))
        serve(peer)

    with Server(handler, context=server_context("127.0.0.1")) as origin:
        with Server(http_proxy()) as proxy:
            async with open_caller(proxy=proxy.url, verify=client_context()) as caller:
                assert (await caller.get(origin.url)).status_code == 200
    assert agreed == ["http/1.1"]


@case
async def http_2_inside_a_tunnel(open_caller: Open) -> None:
    """One tunnel for many requests; through SOCKS5 without TLS too, if it is all there is."""
    with Server(serve_h2, context=server_context(ORDERS)) as origin:
        streets = {f"{ORDERS}:443": origin.address}
        with Server(http_proxy(streets)) as proxy, Server(socks_proxy(streets)) as socks:
            for url in (proxy.url, f"socks5://{socks.address}"):
                async with open_caller(proxy=url, http2=True, verify=client_context()) as caller:
                    for path in ("/x", "/y"):
                        response = await caller.get(f"https://{ORDERS}{path}")
                        assert (response.http_version, response.text) == ("HTTP/2", path)
                    answered = await caller.post(f"https://{ORDERS}")
                    assert answered.content == b"payload"
    assert origin.connections == 2
    assert origin.requests[0].headers["host"] == ORDERS
    with Server(serve_h2) as plain, Server(socks_proxy()) as socks:
        given = f"socks5://{socks.address}"
        async with open_caller(proxy=given, http1=False, http2=True) as caller:
            response = await caller.get(f"{plain.url}/z")
            assert (response.http_version, response.text) == ("HTTP/2", "/z")


@case
async def the_origin_is_verified_not_the_proxy(open_caller: Open) -> None:
    with (
        Server(serve, context=server_context("elsewhere")) as origin,
        Server(http_proxy()) as proxy,
    ):
        async with open_caller(proxy=proxy.url, verify=client_context()) as caller:
            with pytest.raises(httpx.ConnectError, match="nothing was sent") as caught:
                await caller.post(origin.url)
            assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
            other = {"sni_hostname": "elsewhere"}
            assert (await caller.get(origin.url, extensions=other)).status_code == 200
    assert len(proxy.requests) == 2  # one for each: a wrong certificate is not asked for again
    assert origin.methods == ["GET"]


@case
async def a_tunnel_that_was_closed_while_idle_is_not_used(open_caller: Open) -> None:
    def once(peer: Peer) -> None:
        peer.request()
        peer.answer(200)
        peer.wait(peer.server.gate)

    with Server(once, serve, context=server_context("127.0.0.1")) as origin:
        with Server(http_proxy()) as proxy:
            async with open_caller(proxy=proxy.url, verify=client_context()) as caller:
                await caller.get(origin.url)
                origin.gate.set()
                caller.hear_idle()
                await caller.post(origin.url)
    assert origin.methods == ["GET", "POST"]
    assert proxy.connections == 2


@case
async def interim_answers_to_connect_are_passed_over(open_caller: Open) -> None:
    def handler(peer: Peer) -> None:
        seen = peer.request()
        assert seen is not None
        peer.send(b"HTTP/1.1 102 Processing\r\n\r\n")
        peer.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 20")
        peer.sock.sendall(b"0 Fine\r\nContent-Length: 5\r\n\r\n")
        peer.until_closed()

    with Server(handler) as proxy:
        async with open_caller(proxy=proxy.url) as caller:
            with pytest.raises(httpx.ConnectTimeout) as caught:
                await caller.get(f"https://{ORDERS}", timeout=httpx.Timeout(5, connect=0.3))
    assert "handshake did not end" in str(caught.value)  # of TLS: the tunnel stood


# -- TLS to the proxy ----------------------------------------------------------------------


@case
async def tls_to_the_proxy(open_caller: Open) -> None:
    """Forwarded inside it, and TLS in TLS; big bodies both ways, one connection each."""
    payload = bytes(range(256)) * 4096
    with Server(serve) as plain, Server(serve, context=server_context("127.0.0.1")) as secure:
        with Server(http_proxy(), context=secure_proxy()) as proxy:
            given = httpx.Proxy(proxy.url, ssl_context=client_context())
            async with open_caller(proxy=given, verify=client_context()) as caller:
                for url in (plain.url, secure.url, plain.url, secure.url):
                    assert (await caller.post(url, payload)).content == payload
    assert [seen.method for seen in proxy.requests] == ["POST", "CONNECT", "POST"]
    assert proxy.connections == 2
    assert secure.connections == 1


@case
async def the_proxys_own_certificate_is_verified(open_caller: Open) -> None:
    """By the proxy's context, or by the authorities that everybody trusts; never by `verify`."""
    with Server(serve) as origin, Server(http_proxy(), context=secure_proxy()) as proxy:
        for verify in (False, client_context()):
            async with open_caller(proxy=proxy.url, verify=verify) as caller:
                with pytest.raises(httpx.ConnectError) as caught:
                    await caller.get(origin.url)
            assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
    assert proxy.requests == []


@case
async def a_certificate_for_another_proxy_is_refused(open_caller: Open) -> None:
    with Server(serve) as origin:
        with Server(http_proxy(), context=server_context("other.corp")) as proxy:
            given = httpx.Proxy(proxy.url, ssl_context=client_context())
            async with open_caller(proxy=given) as caller:
                with pytest.raises(httpx.ConnectError, match="nothing was sent") as caught:
                    await caller.get(origin.url)
    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
    assert proxy.requests == []


@case
async def http_1_is_what_is_offered_to_the_proxy(open_caller: Open) -> None:
    """Also where the same context serves an origin that HTTP/2 is spoken with."""
    agreed: list[str | None] = []

    def handler(peer: Peer) -> None:
        agreed.append(alpn(peer))
        http_proxy()(peer)

    context = client_context()
    with Server(serve_h2, context=server_context("127.0.0.1")) as origin:
        with Server(handler, context=server_context("127.0.0.1")) as proxy:
            given = httpx.Proxy(proxy.url, ssl_context=context)
            async with open_caller(proxy=given, verify=context, http2=True) as caller:
                context.set_alpn_protocols(["h2"])
                assert (await caller.get(origin.url)).http_version == "HTTP/2"
    assert agreed == ["http/1.1"]
