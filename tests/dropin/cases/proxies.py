"""Proxies: HTTP and SOCKS5, with and without credentials, good ones and broken ones.

`proxy=` where nothing else is said; from the environment in `proxies_chosen`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import httpx

from tests.dropin.authority import good, speaking, trusting
from tests.dropin.h2_talk import echo_h2
from tests.dropin.proxies import (
    ProxiedStage,
    answering_connect,
    basic,
    http_proxy,
    proxy_url,
    socks_proxy,
)
from tests.dropin.sides import Side, Upload
from tests.dropin.stage import Handler, Peer, Stage, echo
from tests.dropin.table import add


def through(scheme: str = "http", user: str = "", **more: Any) -> Callable[[Stage], dict[str, Any]]:
    """The client's arguments, the proxy among them."""
    return lambda stage: {"proxy": proxy_url(stage, scheme, user), **more}


def opened(proxy: Handler, *handlers: Handler, tls: Any = None, proxy_tls: Any = None) -> Any:
    """Opens a stage with a proxy; contexts are made when it is."""

    def open_stage() -> Stage:
        contexts = [each() if each else None for each in (tls, proxy_tls)]
        return ProxiedStage(proxy, *handlers, context=contexts[0], proxy_context=contexts[1])

    return open_stage


async def requests(side: Side) -> None:
    await side.get("/1")
    await side.post("/2")
    await side.post("/3", Upload(b"one", b"two"))
    await side.request("HEAD", "/4")
    await side.pieces("GET", "/5?a=b")
    await side.unread("GET", "/6")
    await side.get("/7", headers={"X-Own": "1", "Proxy-Authorization": "mine"})


async def get_and_post(side: Side) -> None:
    await side.get("/1")
    await side.post("/2")


async def two_posts(side: Side) -> None:
    await side.post("/1")
    await side.post("/2")


TLS = functools.partial(speaking, "http/1.1")
H2 = functools.partial(speaking, "h2")
HOW: tuple[tuple[str, Any], ...] = (("forwarded", None), ("tunnelled", TLS))
USER = ("user", "pass word")
KNOWN = basic(*USER)
IN_URL = "user:pass%20word"

add("proxies-forwarded", requests, open=opened(http_proxy(), echo), client=through())
add("proxies-tunnelled", requests, open=opened(http_proxy(), echo, tls=TLS), client=through())
add("proxies-through_socks", requests, open=opened(socks_proxy(), echo), client=through("socks5"))
add(
    "proxies-tunnelled_by_socks",
    requests,
    open=opened(socks_proxy(), echo, tls=TLS),
    client=through("socks5h"),
)
add(
    "proxies-http2_tunnelled",
    requests,
    open=opened(http_proxy(), echo_h2, tls=H2),
    client=through(http2=True),
)
add(
    "proxies-http2_through_socks",
    requests,
    open=opened(socks_proxy(), echo_h2, tls=H2),
    client=through("socks5", http2=True),
)


def secure_proxy(**more: Any) -> Callable[[Stage], dict[str, Any]]:
    """A proxy that is spoken to by TLS."""
    return lambda stage: {
        "proxy": httpx.Proxy(proxy_url(stage, "https"), ssl_context=trusting(), **more)
    }


for _name, _tls in HOW:
    _open = opened(http_proxy(), echo, tls=_tls, proxy_tls=TLS)
    add(f"proxies-{_name}_by_tls", get_and_post, open=_open, client=secure_proxy())

# -- credentials and headers -----------------------------------------------------------------


def with_proxy(**more: Any) -> Callable[[Stage], dict[str, Any]]:
    return lambda stage: {"proxy": httpx.Proxy(proxy_url(stage), **more)}


CREDENTIALS: dict[str, tuple[Callable[[Stage], dict[str, Any]], str | None]] = {
    "in_the_url": (through(user=IN_URL), KNOWN),
    "beside_the_url": (with_proxy(auth=USER), KNOWN),
    "as_a_header": (with_proxy(headers={"Proxy-Authorization": KNOWN}), KNOWN),
    "missing": (through(), KNOWN),
    "wrong": (through(user="user:other"), KNOWN),
    "not_wanted": (through(user=IN_URL), None),
    "with_headers": (with_proxy(headers={"X-Proxy": "1", "User-Agent": "mine"}), None),
}
for _name, (_client, _known) in CREDENTIALS.items():
    for _how, _tls in HOW:
        add(
            f"proxies-credentials_{_name}_{_how}",
            get_and_post,
            open=opened(http_proxy(credentials=_known), echo, tls=_tls),
            client=_client,
        )

SOCKS_CREDENTIALS: dict[str, tuple[str, tuple[str, str] | None]] = {
    "right": (IN_URL, USER),
    "missing": ("", USER),
    "wrong": ("user:other", USER),
}
for _name, (_user, _pair) in SOCKS_CREDENTIALS.items():
    add(
        f"proxies-socks_credentials_{_name}",
        two_posts,
        open=opened(socks_proxy(credentials=_pair), echo),
        client=through("socks5", _user),
        leaks=True,
    )

# -- proxies that refuse, or break -----------------------------------------------------------

REFUSALS: dict[str, Handler] = {
    "forbidden": answering_connect(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno"),
    "teapot_without_reason": answering_connect(b"HTTP/1.1 418\r\ncontent-length: 0\r\n\r\n"),
    "moved": answering_connect(
        b"HTTP/1.1 302 Found\r\nlocation: http://x.test/\r\ncontent-length: 0\r\n\r\n"
    ),
    "with_an_interim": answering_connect(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 No\r\n\r\n"),
    "garbage": answering_connect(b"\x00garbage\r\n\r\n"),
}
for _name, _handler in REFUSALS.items():
    _open = opened(_handler, echo, tls=TLS)
    add(f"proxies-connect_{_name}", two_posts, open=_open, client=through())


def hangs_up(peer: Peer) -> None:
    peer.request()


SOCKS_REFUSALS: dict[str, Handler] = {
    "not_allowed": socks_proxy(reply=2),
    "command_unknown": socks_proxy(reply=7),
    "unknown_reply": socks_proxy(reply=99),
    "no_method": socks_proxy(greeting=b"\x05\xff"),
    "another_method": socks_proxy(greeting=b"\x05\x01"),
    "password_unasked": socks_proxy(greeting=b"\x05\x02"),
    "socks4": socks_proxy(greeting=b"\x04\x5a"),
    "http": socks_proxy(greeting=b"HTTP/1.1 400 Bad Request\r\n\r\n"),
}
for _name, _handler in SOCKS_REFUSALS.items():
    _open = opened(_handler, echo)
    add(f"proxies-socks_{_name}", two_posts, open=_open, client=through("socks5"), leaks=True)

GONE: dict[str, tuple[str, Handler, Any]] = {
    "connect_hung_up": ("http", hangs_up, TLS),
    "connect_failed": ("http", answering_connect(b"HTTP/1.1 502 Bad\r\n\r\n", end=True), TLS),
    "socks_greeting_hung_up": ("socks5", socks_proxy(early_end=["greeting"]), None),
    "socks_reply_hung_up": ("socks5", socks_proxy(early_end=["reply"]), None),
    "socks_unreachable": ("socks5", socks_proxy(reply=4), None),
    "socks_refused": ("socks5", socks_proxy(reply=5), None),
}
for _name, (_scheme, _handler, _tls) in GONE.items():
    _open = opened(_handler, echo, tls=_tls)
    add(f"proxies-{_name}", two_posts, open=_open, client=through(_scheme), leaks=True)


def nowhere(scheme: str) -> dict[str, Any]:
    """A proxy that is not there: port 1 of an address that nobody else uses."""
    return {"proxy": f"{scheme}://127.0.0.9:1"}


for _scheme in ("http", "socks5"):
    add(f"proxies-nobody_there_{_scheme}", two_posts, echo, client=nowhere(_scheme))

# -- names and origins -----------------------------------------------------------------------


async def origins(side: Side) -> None:
    for path in ("/1", "/2"):
        for name in ("shop.test", "other.test"):
            await side.get(f"{side.stage.scheme}://{name}:{side.stage.port}{path}")


_ways: tuple[tuple[str, Handler, str, Any], ...] = (
    ("forwarded", http_proxy(), "http", None),
    ("tunnelled", http_proxy(), "http", good),
    ("through_socks", socks_proxy(), "socks5", None),
)
for _how, _proxy, _scheme, _tls in _ways:
    add(
        f"proxies-two_origins_{_how}",
        origins,
        open=opened(_proxy, echo, tls=_tls),
        client=through(_scheme, verify=False),
        names={},  # it is the proxy that looks names up
    )


async def unknown_names(side: Side) -> None:
    await side.get(f"http://bücher.test:{side.stage.port}/1")
    await side.get(f"http://[::1]:{side.stage.port}/2")


for _scheme, _proxy in (("http", http_proxy()), ("socks5", socks_proxy())):
    add(
        f"proxies-odd_names_{_scheme}",
        unknown_names,
        open=lambda proxy=_proxy: ProxiedStage(proxy, echo, host="::1"),
        client=through(_scheme),
        cut=True,
    )
