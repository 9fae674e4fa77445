"""Through a SOCKS5 proxy: names, addresses, passwords, refusals."""

from __future__ import annotations

import ssl

import httpx
import pytest

from tests.http.callers import Upload
from tests.http.cases.proxies import ORDERS, several
from tests.http.cases.table import Open, case
from tests.http.cases.tls import client_context, server_context
from tests.http.proxy_servers import socks_proxy
from tests.http.servers import Handler, Peer, Server, mute, serve


def saying(*answers: bytes) -> Handler:
    """One answer after the other, each to whatever has come; then the connection is closed."""

    def handler(peer: Peer) -> None:
        for answer in answers:
            peer.more()
            peer.send(answer)
        peer.close()

    return handler


def socks(server: Server, credentials: str = "", scheme: str = "socks5") -> str:
    """The URL of a proxy."""
    return f"{scheme}://{credentials}{server.address}"


# -- through -------------------------------------------------------------------------------


@case
async def plain_requests_go_through_a_tunnel_per_origin(open_caller: Open) -> None:
    """They are not forwarded: the origin sees them as without a proxy."""
    with Server(serve) as one, Server(serve) as other:
        streets = {f"{ORDERS}:80": one.address, "stock:81": other.address}
        with Server(socks_proxy(streets)) as proxy:
            async with open_caller(proxy=socks(proxy)) as caller:
                for url in (f"http://{ORDERS}/x", "http://stock:81/y") * 2:
                    assert (await caller.get(url)).status_code == 200
                assert (await caller.post("http://stock:81", Upload(b"a", b"b"))).content == b"ab"
    assert [seen.target for seen in proxy.requests] == [f"{ORDERS}:80", "stock:81"]
    assert [seen.target for seen in one.requests] == ["/x", "/x"]
    assert one.requests[0].headers["host"] == ORDERS


@case
async def https_through_socks(open_caller: Open) -> None:
    with Server(serve, context=server_context(ORDERS)) as origin:
        with Server(socks_proxy({f"{ORDERS}:443": origin.address})) as proxy:
            async with open_caller(proxy=socks(proxy), verify=client_context()) as caller:
                assert (await caller.get(f"https://{ORDERS}/x")).content == b"/x"
                assert (await caller.post(f"https://{ORDERS}")).content == b"payload"
    assert origin.connections == 1


@case
async def names_are_looked_up_by_the_proxy(open_caller: Open) -> None:
    """For socks5:// as for socks5h://, as in httpx; addresses go as addresses."""
    wanted = ["no.such.name.test:80", "127.0.0.1:80", "[::1]:80"]
    with Server(serve) as origin:
        streets = dict.fromkeys(wanted, origin.address)
        with Server(socks_proxy(streets)) as proxy:
            for scheme in ("socks5", "socks5h"):
                async with open_caller(proxy=socks(proxy, scheme=scheme)) as caller:
                    for target in wanted:
                        await caller.get(f"http://{target}/")
    assert [seen.target for seen in proxy.requests] == wanted * 2


@case
async def user_and_password(open_caller: Open) -> None:
    with Server(serve) as origin, Server(socks_proxy(credentials=("us er", "p@ss"))) as proxy:
        for given in (
            socks(proxy, "us%20er:p%40ss@"),
            httpx.Proxy(socks(proxy), auth=("us er", "p@ss")),
        ):
            async with open_caller(proxy=given) as caller:
                assert (await caller.get(origin.url)).status_code == 200
    assert proxy.requests[0].headers == {"user": "us er", "password": "p@ss"}


@case
async def answers_of_all_shapes(open_caller: Open) -> None:
    """The address that the proxy connects from may be of any type, and come in crumbs."""
    port = b"\x1f\x90"
    shapes = (
        b"\x01\x7f\x00\x00\x01" + port,
        b"\x04" + bytes(16) + port,
        b"\x03\x05proxy" + port,
        b"\x03\x00" + port,
    )
    with Server(serve) as origin:
        for bound in shapes:
            for piece in (1, 3, 100):
                with Server(socks_proxy(bound=bound, piece=piece)) as proxy:
                    async with open_caller(proxy=socks(proxy)) as caller:
                        assert (await caller.get(origin.url)).status_code == 200


# -- refusals ------------------------------------------------------------------------------


@case
async def what_the_proxy_could_not_reach(open_caller: Open) -> None:
    told = {
        1: "General SOCKS server failure",
        2: "Connection not allowed by ruleset",
        3: "Network unreachable",
        4: "Host unreachable",
        5: "Connection refused",
        6: "TTL expired",
        7: "Command not supported",
        8: "Address type not supported",
        91: "reply 91",
    }
    for reply, text in told.items():
        with Server(socks_proxy(reply=reply)) as proxy:
            async with open_caller(proxy=socks(proxy), retries=2) as caller:
                with pytest.raises(httpx.ProxyError, match=f"{text}.*nothing was sent") as caught:
                    await caller.post(f"https://{ORDERS}")
                assert caller.counts()["places"] == 0
        assert f"proxy {socks(proxy)} to connect to {ORDERS}:443" in str(caught.value)
        assert proxy.connections == 1


@case
async def another_address_of_the_proxy_may_reach_it(open_caller: Open) -> None:
    with Server(serve) as origin, Server(socks_proxy()) as good:
        with Server(socks_proxy(reply=4)) as bad:
            network = several(bad, good)
            async with open_caller(proxy="socks5://proxies", network=network) as caller:
                assert (await caller.get(origin.url)).status_code == 200


@case
async def a_wrong_password_is_tried_once(open_caller: Open) -> None:
    handler = socks_proxy(credentials=("user", "right"))
    with Server(handler) as one, Server(handler) as other:
        network = several(one, other)
        async with open_caller(proxy="socks5://user:wrong@proxies", network=network) as caller:
            with pytest.raises(httpx.ProxyError, match="Invalid username/password"):
                await caller.get(f"http://{ORDERS}")
            assert "wrong" not in str(caller.transport)
    assert one.connections + other.connections == 1


@case
async def the_method_must_be_the_one_that_was_asked_for(open_caller: Open) -> None:
    """A password is not sent to a proxy that has not asked for it, and not left out."""
    with Server(socks_proxy()) as proxy:
        async with open_caller(proxy=socks(proxy, "user:word@")) as caller:
            with pytest.raises(httpx.ProxyError, match="username and password, which it does not"):
                await caller.get(f"http://{ORDERS}")
    with Server(socks_proxy(credentials=("user", "word"))) as proxy:
        async with open_caller(proxy=socks(proxy)) as caller:
            with pytest.raises(httpx.ProxyError, match=r"no authentication.*socks5://user:"):
                await caller.get(f"http://{ORDERS}")
    with Server(saying(b"\x05\x01")) as proxy:
        async with open_caller(proxy=socks(proxy)) as caller:
            with pytest.raises(httpx.ProxyError, match="but chose GSSAPI"):
                await caller.get(f"http://{ORDERS}")


@case
async def answers_that_make_no_sense(open_caller: Open) -> None:
    """No other protocol's proxy is taken for one; nothing is tried twice."""
    done = b"\x05\x00"
    cases = (
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "speaks no SOCKS5.*b'HT'"),
        ((b"\x04\x00",), "speaks no SOCKS5"),
        ((done, b"\x04\x00\x00\x01"), "could not connect"),
        ((done, b"\x05\x00\x00\x07"), "address of type b'.x07'"),
    )
    for answers, text in cases:
        with Server(saying(*answers)) as proxy:
            async with open_caller(proxy=socks(proxy)) as caller:
                with pytest.raises(httpx.ProxyError, match=text):
                    await caller.get(f"http://{ORDERS}")
                assert caller.counts()["places"] == 0
        assert proxy.connections == 1


@case
async def a_proxy_that_leaves_in_the_middle(open_caller: Open) -> None:
    for answers in ((), (b"\x05",), (b"\x05\x00",), (b"\x05\x00", b"\x05\x00\x00\x01\x7f")):
        with Server(saying(*answers)) as proxy:
            async with open_caller(proxy=socks(proxy)) as caller:
                with pytest.raises((httpx.ProxyError, httpx.ReadError), match="nothing was sent"):
                    await caller.get(f"http://{ORDERS}")
                assert caller.counts()["places"] == 0
        assert 0 < proxy.connections <= 8


@case
async def a_proxy_that_leaves_once_is_asked_again(open_caller: Open) -> None:
    with Server(serve) as origin, Server(saying(b"\x05\x00"), socks_proxy()) as proxy:
        async with open_caller(proxy=socks(proxy)) as caller:
            assert (await caller.post(origin.url)).content == b"payload"
    assert origin.methods == ["POST"]


@case
async def a_stalled_proxy_is_bounded_by_the_connect_timeout(open_caller: Open) -> None:
    """httpx has no limit here at all."""
    with Server(mute) as proxy:
        async with open_caller(proxy=socks(proxy)) as caller:
            with pytest.raises(httpx.ConnectTimeout, match="handshake did not end"):
                await caller.get(f"http://{ORDERS}", timeout=httpx.Timeout(None, connect=0.2))
            assert caller.counts()["places"] == 0


@case
async def a_wrong_certificate_behind_the_proxy(open_caller: Open) -> None:
    with Server(serve, context=server_context("elsewhere")) as origin:
        with Server(socks_proxy()) as proxy:
            async with open_caller(proxy=socks(proxy), verify=client_context()) as caller:
                with pytest.raises(httpx.ConnectError) as caught:
                    await caller.get(origin.url)
    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
    assert len(proxy.requests) == 1


@case
async def names_too_long_for_socks(open_caller: Open) -> None:
    name = ".".join(["a" * 60] * 5)
    with Server(socks_proxy()) as proxy:
        async with open_caller(proxy=socks(proxy)) as caller:
            with pytest.raises(httpx.ProxyError, match="255 bytes at most"):
                await caller.get(f"http://{name}")
