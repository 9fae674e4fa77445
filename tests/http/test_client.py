"""`outlast.client` and `outlast.async_client`, of both families: every argument has its effect.

Each case runs four times: httpx and httpx2, in a thread and on asyncio. What the family's client
drops when it is given a transport is seen by what reaches a server.
"""

from __future__ import annotations

import asyncio
import inspect
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

import outlast
import outlast.httpx2
from tests.http.cases.tls import authority, client_context, server_context
from tests.http.servers import BOUND, Peer, Server, answering, serve
from tests.http.test_environment import environment

FAMILIES: dict[str, tuple[Any, Any]] = {
    "httpx": (httpx, outlast),
    "httpx2": (httpx2, outlast.httpx2),
}


class User:
    """Makes clients of one family and one kind, and sends requests by them."""

    def __init__(self, family: str, *, waits: bool) -> None:
        self.package, self.home = FAMILIES[family]
        self.waits = waits
        self.kind = self.package.AsyncClient if waits else self.package.Client
        self.base = self.package.AsyncBaseTransport if waits else self.package.BaseTransport

    def client(self, **given: Any) -> Any:
        make = self.home.async_client if self.waits else self.home.client
        return make(**{"timeout": BOUND, **given})

    def get(self, url: str, **given: Any) -> Any:
        """One request, with a client made of these arguments."""
        if self.waits:
            return asyncio.run(self._get(url, **given))
        with self.client(**given) as client:
            return client.get(url)

    async def _get(self, url: str, **given: Any) -> Any:
        async with self.client(**given) as client:
            return await client.get(url)

    def transport(self, text: str) -> Any:
        """A transport that answers everything with `text`."""
        return self.package.MockTransport(lambda _: self.package.Response(200, text=text))


@pytest.fixture(params=["threads", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "asyncio")


@pytest.fixture(params=sorted(FAMILIES))
def user(request: pytest.FixtureRequest, waits: bool) -> Iterator[User]:
    with environment():
        yield User(request.param, waits=waits)


# -- what the family drops ------------------------------------------------------------------


def test_the_client_is_the_familys_own(user: User) -> None:
    client = user.client()
    assert type(client) is user.kind
    with Server(serve) as server:
        assert isinstance(user.get(server.url).extensions["outlast"], outlast.Report)


def test_verify(user: User) -> None:
    with Server(serve, context=server_context("127.0.0.1")) as server:
        assert user.get(f"{server.url}/x", verify=client_context()).text == "/x"
        assert user.get(f"{server.url}/y", verify=False).text == "/y"
        with pytest.raises(user.package.ConnectError):
            user.get(f"{server.url}/z")


def test_cert(user: User, tmp_path: Path) -> None:
    mine = authority().issue_cert("client@example.com")
    file = tmp_path / "mine.pem"
    file.write_bytes(mine.private_key_and_cert_chain_pem.bytes())
    demanding = server_context("127.0.0.1")
    demanding.verify_mode = ssl.CERT_REQUIRED
    authority().configure_trust(demanding)
    with Server(serve, context=demanding) as server:
        with pytest.warns(DeprecationWarning, match="cert"):
            response = user.get(f"{server.url}/x", verify=client_context(), cert=str(file))
        assert response.text == "/x"
        with pytest.raises(user.package.TransportError):
            user.get(server.url, verify=client_context())


def test_trust_env_for_certificates(user: User, tmp_path: Path) -> None:
    """As the family's own client does. (httpx2 2.14 trusts it without trust_env too.)"""
    file = tmp_path / "ca.pem"
    file.write_bytes(authority().cert_pem.bytes())

    def trusted(get: Callable[[str], Any]) -> bool:
        try:
            return bool(get(server.url).status_code == 200)
        except user.package.ConnectError:
            return False

    context = server_context("127.0.0.1")
    with Server(serve, context=context) as server, environment(SSL_CERT_FILE=str(file)):
        assert user.get(f"{server.url}/x").text == "/x"
        with user.package.Client(trust_env=False) as plain:
            theirs = trusted(plain.get)
        assert trusted(lambda url: user.get(url, trust_env=False)) == theirs


def test_http1_and_http2(user: User) -> None:
    """What is offered in the TLS handshake, and spoken without TLS."""
    spoken: list[bytes] = []

    def listening(peer: Peer) -> None:
        spoken.append(peer.sock.recv(3))

    once = outlast.Policy(attempts=1)
    for given, first in [
        ({}, b"GET"),
        ({"http2": True}, b"GET"),
        ({"http1": False, "http2": True}, b"PRI"),
    ]:
        with Server(listening) as server, pytest.raises(user.package.TransportError):
            user.get(server.url, policy=once, **given)
        assert spoken.pop() == first, given
    trusting: dict[str, Any] = {"verify": client_context(), "policy": once}
    for given, first in [({}, b"GET"), ({"http2": True}, b"PRI")]:
        with Server(listening, context=server_context("127.0.0.1")) as server:
            with pytest.raises(user.package.TransportError):
                user.get(server.url, **trusting, **given)
        assert spoken.pop() == first, given
    with pytest.raises(ValueError, match="leave no protocol"):
        user.client(http1=False)


def test_limits(user: User) -> None:
    limits = user.package.Limits(max_connections=1)
    given = {"limits": limits, "timeout": user.package.Timeout(BOUND, pool=0.01)}

    async def two_at_once(url: str) -> None:
        async with user.client(**given) as client, client.stream("GET", url):
            with pytest.raises(user.package.PoolTimeout):
                await client.get(url)

    def two_in_a_thread(url: str) -> None:
        with user.client(**given) as client, client.stream("GET", url):
            with pytest.raises(user.package.PoolTimeout):
                client.get(url)

    with Server(serve) as server:
        asyncio.run(two_at_once(server.url)) if user.waits else two_in_a_thread(server.url)


def test_policy_and_targets(user: User) -> None:
    with Server(answering(503, b"no")) as server:
        targets = {"http://orders.shop.svc:8080": f"static://{server.address}"}
        policy = outlast.Policy(attempts=2)
        url = "http://orders.shop.svc:8080/"
        assert user.get(url, targets=targets, policy=policy).status_code == 503
        assert len(server.requests) == 2
        assert server.requests[0].headers["host"] == "orders.shop.svc:8080"


# -- ways ----------------------------------------------------------------------------------


def test_proxy(user: User) -> None:
    with Server(serve) as proxy:
        response = user.get("http://orders.shop.svc/x", proxy=proxy.url)
        assert response.text == proxy.requests[0].target == "http://orders.shop.svc/x"
        assert isinstance(response.extensions["outlast"], outlast.Report)
        made = user.package.Proxy(proxy.url, auth=("me", "secret"), headers={"X-Mine": "1"})
        user.get("http://orders.shop.svc/x", proxy=made)
        assert proxy.requests[1].headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"
        assert proxy.requests[1].headers["x-mine"] == "1"


def test_proxies_of_the_environment(user: User) -> None:
    with Server(serve) as proxy, Server(serve) as server:
        with environment(HTTP_PROXY=proxy.address, NO_PROXY="127.0.0.1"):
            assert user.get("http://far/x").text == "http://far/x"
            assert user.get(f"{server.url}/x").text == "/x"
            with pytest.raises(user.package.ConnectError):
                user.get("http://far.invalid/x", trust_env=False)
    assert [seen.target for seen in proxy.requests] == ["http://far/x"]


def test_a_given_proxy_goes_before_the_environment(user: User) -> None:
    """As in httpx, NO_PROXY says nothing of a proxy that was given."""
    with Server(serve) as proxy, Server(serve) as other:
        with environment(ALL_PROXY=other.url, NO_PROXY="far"):
            assert user.get("http://far/x", proxy=proxy.url).text == "http://far/x"
    assert other.connections == 0


def test_the_callers_mounts_win(user: User) -> None:
    mounts = {"http://": user.transport("mine"), "all://127.0.0.1": None}
    with Server(serve) as proxy, environment(HTTP_PROXY=proxy.url, ALL_PROXY=proxy.url):
        assert user.get("http://far/x", mounts=mounts).text == "mine"
        assert user.get(f"{proxy.url}/x", mounts=mounts).text == "/x"
        assert user.get("http://far/x", mounts=None).text == "http://far/x"


def test_a_target_goes_before_the_environment(user: User) -> None:
    """A proxy would not know of it, and the target would be passed over in silence."""
    with Server(serve) as proxy, Server(serve) as server:
        targets = {"http://orders:8080": f"static://{server.address}", "https://b": "10.0.0.1:1"}
        with environment(ALL_PROXY=proxy.url):
            assert user.get("http://orders:8080/x", targets=targets).text == "/x"
            assert user.get("http://orders:81/x", targets=targets).text == "http://orders:81/x"
        mounts = {"http://orders:8080": user.transport("mine")}
        with environment(ALL_PROXY=proxy.url):
            assert user.get("http://orders:8080/x", targets=targets, mounts=mounts).text == "mine"
        with pytest.raises(ValueError, match="proxy and targets"):
            user.client(proxy=proxy.url, targets=targets)


def test_closing_the_client_closes_all_its_connections(user: User) -> None:
    gone = threading.Event()

    def handler(peer: Peer) -> None:
        serve(peer)
        gone.set()

    with Server(handler) as server, Server(serve) as proxy:
        with environment(HTTP_PROXY=proxy.url, NO_PROXY="127.0.0.1"):
            user.get(server.url)
        assert gone.wait(BOUND)


# -- what the family does itself -----------------------------------------------------------


def test_the_rest_is_the_familys(user: User) -> None:
    heard: list[Any] = []

    def listener(request: Any) -> None:
        heard.append(request)

    async def async_listener(request: Any) -> None:
        heard.append(request)

    with Server(serve) as server:
        response = user.get(
            "/path",
            base_url=server.url,
            params={"a": "1"},
            headers={"X-Mine": "2"},
            cookies={"c": "3"},
            auth=("me", "secret"),
            timeout=user.package.Timeout(7.0),
            event_hooks={"request": [async_listener if user.waits else listener]},
            default_encoding="latin-1",
        )
        seen = server.requests[0]
    assert seen.target == response.text == "/path?a=1"
    assert response.encoding == "latin-1"
    assert (seen.headers["x-mine"], seen.headers["cookie"]) == ("2", "c=3")
    assert seen.headers["authorization"] == "Basic bWU6c2VjcmV0"
    assert heard[0].extensions["timeout"]["read"] == 7.0


def test_redirects_are_the_familys(user: User) -> None:
    with Server(answering(302, location="/again")) as server:
        assert user.get(server.url).status_code == 302
        with pytest.raises(user.package.TooManyRedirects):
            user.get(server.url, follow_redirects=True, max_redirects=2)


# -- what is refused -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["transport", "app", "proxies"])
def test_what_would_go_past_is_refused(user: User, name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}= is not for outlast's clients"):
        user.client(**{name: None})


def test_wrong_arguments(user: User) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'verfy'"):
        user.client(verfy=False)
    with pytest.raises(ValueError, match="policy"):
        user.client(policy={"attempts": 3})
    with pytest.raises(ValueError, match="targets"):
        user.client(targets={"orders": "static://10.0.0.1:1"})
    with pytest.raises(ValueError, match="proxy"):
        user.client(proxy="gopher://a")
    with pytest.raises(TypeError):
        user.home.client("http://a")


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize(("name", "like"), [("client", "Client"), ("async_client", "AsyncClient")])
def test_the_arguments_are_the_familys(family: str, name: str, like: str) -> None:
    """None is missing and none is new, but for `transport` and the transport's own arguments: in
    what is shown, and in what type checkers are told."""
    package, home = FAMILIES[family]
    made = getattr(home, name)
    theirs = set(inspect.signature(getattr(package, like)).parameters)
    wanted = (theirs - {"transport"}) | {"policy", "targets", "network", "http1_parser"}
    signature = inspect.signature(made)
    told = getattr(inspect.getmodule(made), f"{'Async' * (name != 'client')}ClientArguments")
    assert set(signature.parameters) == wanted
    assert told.__optional_keys__ == wanted
    assert {each.kind for each in signature.parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
