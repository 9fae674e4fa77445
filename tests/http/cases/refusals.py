"""Arguments that are wrong, or that this version cannot serve: refused by name, at once."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import httpx
import pytest

from tests.http.cases.table import Open, case

ORIGIN = "http://orders.shop.svc:8080"


async def refused(open_caller: Open, text: str, kind: type[Exception], **arguments: Any) -> None:
    with pytest.raises(kind, match=text):
        async with open_caller(**arguments):
            pass


@case
async def what_comes_later_is_refused_by_name(open_caller: Open) -> None:
    for scheme in ("srv", "k8s", "nodeport"):
        targets = {ORIGIN: f"{scheme}://shop/orders:http"}
        await refused(open_caller, f"{scheme}:// is not available yet", ValueError, targets=targets)


@case
async def proxies_are_checked(open_caller: Open) -> None:
    wrong: list[tuple[Any, str]] = [
        ("proxy.corp:3128", "proxy: 'proxy.corp:3128' is no proxy's URL; write it like 'http://"),
        ("", "proxy: '' is no proxy's URL"),
        ("ftp://proxy.corp", "is no proxy's URL"),
        ("socks4://proxy.corp", "is no proxy's URL"),
        ("http://", "is no proxy's URL"),
        ("http://proxy.corp:port", "is no proxy's URL"),
        (b"http://proxy.corp", "proxy: b'http://proxy.corp' is no URL"),
        (7, "proxy: 7 is no URL"),
        (httpx.Proxy("http://p:1", ssl_context=ssl.create_default_context()), "for https:// pro"),
        (httpx.Proxy("socks5://p:1", ssl_context=ssl.create_default_context()), "for https://"),
        (httpx.Proxy("socks5://p:1", headers={"x": "y"}), "headers mean nothing to SOCKS"),
        (httpx.Proxy("http://p:1", headers={"x": "y\r\nz"}), "its headers are no HTTP headers"),
        (httpx.Proxy("socks5://p:1", auth=("u" * 256, "")), "255 bytes at most"),
    ]
    for proxy, text in wrong:
        await refused(open_caller, text, ValueError, proxy=proxy)
    for text in ("proxy and targets", "leave one out"):
        targets = {ORIGIN: "static://10.0.0.1:80"}
        await refused(open_caller, text, ValueError, proxy="http://p:1", targets=targets)


@case
async def no_error_shows_a_password(open_caller: Open) -> None:
    for proxy in ("ftp://user:secret@p:1", "http://user:secret@p:port", "user:secret@p:1"):
        with pytest.raises(ValueError, match="proxy: ") as caught:
            async with open_caller(proxy=proxy):
                pass
        assert "secret" not in str(caught.value)
    for scheme in ("http", "socks5"):
        async with open_caller(proxy=f"{scheme}://user:secret@p:1") as caller:
            shown = f"{caller.transport!r} {caller.transport._engine.settings!r}"
            assert "secret" not in shown
            assert "Basic" not in shown


@case
async def retries_are_checked(open_caller: Open) -> None:
    for retries in (-1, 1.5, True, "3", None):
        text = "retries: .* is not a whole number from 0, such as 3"
        await refused(open_caller, text, ValueError, retries=retries)


@case
async def the_defaults_written_out_are_accepted(open_caller: Open) -> None:
    plain: dict[str, Any] = {"http1": True, "http2": False, "proxy": None, "uds": None}
    async with open_caller(retries=0, limits=None, verify=True, cert=None, **plain):
        pass


@case
async def targets_are_checked(open_caller: Open) -> None:
    wrong: list[tuple[Any, str]] = [
        ({ORIGIN: "orders.shop.svc"}, "target 'orders.shop.svc': .* has no port"),
        ({ORIGIN: "static://orders:80"}, "'orders' is no IP address.*dns://orders:80"),
        ({ORIGIN: "http://10.0.0.1:80"}, "unknown scheme 'http'"),
        ({ORIGIN: ""}, "names nothing"),
        ({ORIGIN: None}, "target: None is no text"),
        ({ORIGIN: b"static://10.0.0.1:80"}, "is no text"),
        ({"orders.shop.svc:8080": "10.0.0.1:80"}, "key 'orders.shop.svc:8080' is no http:// or"),
        ({7: "10.0.0.1:80"}, "key 7 is no http:// or"),
        ({f"{ORIGIN}/path": "10.0.0.1:80"}, "has more than scheme, host and port"),
        ({ORIGIN: "10.0.0.1:80", f"{ORIGIN}/": "10.0.0.2:80"}, "names an origin a second time"),
        ([(ORIGIN, "10.0.0.1:80")], "targets: .* maps no origins to targets"),
    ]
    for targets, text in wrong:
        await refused(open_caller, text, ValueError, targets=targets)


@case
async def the_policy_is_checked(open_caller: Open) -> None:
    await refused(
        open_caller, "policy: .* is no outlast.Policy", ValueError, policy={"attempts": 1}
    )


@case
async def limits_are_checked(open_caller: Open) -> None:
    for arguments in ({"limits": 100}, {"limits": {"max_connections": 1}}):
        await refused(open_caller, r"limits: .* is no httpx.Limits", ValueError, **arguments)
    limits = httpx.Limits(max_connections=0)
    await refused(open_caller, "max_connections=0 leaves no place", ValueError, limits=limits)


@case
async def socket_options_are_checked(open_caller: Open) -> None:
    wrong: list[Any] = [
        [(socket.SOL_SOCKET, socket.SO_KEEPALIVE)],
        [("SOL_SOCKET", "SO_KEEPALIVE", 1)],
        [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, "1")],
        [7],
        7,
    ]
    for options in wrong:
        await refused(open_caller, "socket_options: .*level", ValueError, socket_options=options)


@case
async def a_local_address_is_an_address(open_caller: Open) -> None:
    for address in ("eth0", "300.0.0.1", "", 7):
        await refused(
            open_caller, "local_address: .* is no IP address", ValueError, local_address=address
        )


@case
async def certificates_are_loaded_at_once(open_caller: Open) -> None:
    """A wrong path is an error of the constructor, as in httpx; not of the first request."""
    with pytest.warns(DeprecationWarning, match="verify"):
        await refused(open_caller, "No such file", OSError, verify="/nowhere/ca.pem")
