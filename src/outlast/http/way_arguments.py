"""The arguments `proxy`, `uds` and `retries`, checked: they say how connections come about.

They are `httpx.HTTPTransport`'s. httpx passes over what it does not use of them: `uds` and
`local_address` beside a proxy, a proxy's headers with SOCKS. Here each works, or is a ValueError
that says why not. No password ever stands in an error.
"""

from __future__ import annotations

import base64
import functools
import re
import ssl
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import h11

from outlast.http.message import Headers
from outlast.http.ways import DIRECTLY, HttpProxy, SocksProxy, Way
from outlast.net.address import unix_address
from outlast.target import Origin, Target, target_at, target_of

__all__ = ["read_retries", "read_way"]

PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
PROXY = "write it like 'http://proxy.corp:3128' or 'socks5://user:password@proxy.corp:1080'"


def read_way(
    proxy: Any,
    uds: Any,
    *,
    targets: Mapping[Origin, Target],
    source: tuple[str, int] | None,
    package: ModuleType,
) -> Way:
    """How connections reach an origin. `package`: httpx or httpx2, which reads a proxy's URL."""
    if proxy is None and uds is None:
        return DIRECTLY
    if proxy is not None and uds is not None:
        raise ValueError("proxy and uds: a request cannot go both ways; leave one of them out")
    name = "proxy" if uds is None else "uds"
    if targets:
        raise ValueError(f"{name} and targets: with {name} nothing else is dialled; leave one out")
    if uds is None:
        return _through(_parsed(proxy, package))
    if source is not None:
        raise ValueError("uds and local_address: a Unix socket is not connected from an address")
    return Way(_socket(uds))


def read_retries(retries: Any) -> int:
    """How often a connect that failed is tried again."""
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ValueError(f"retries: {retries!r} is not a whole number from 0, such as 3")
    return retries


def _socket(uds: Any) -> Target:
    if not isinstance(uds, str) or not uds or "\0" in uds[1:]:
        raise ValueError(f"uds: {uds!r} is no path of a Unix socket, such as '/run/orders.sock'")
    try:
        address = unix_address(uds)
    except ValueError as error:
        raise ValueError(f"uds: {error}") from error
    return target_at(address, str(address))


# -- the proxy -----------------------------------------------------------------------------


def _parsed(proxy: Any, package: ModuleType) -> Any:
    """The family's Proxy. Proxies and URLs of another family are as good."""
    if hasattr(proxy, "raw_auth") and hasattr(proxy, "ssl_context"):
        return proxy
    text = str(proxy) if isinstance(proxy, str) or hasattr(proxy, "raw_scheme") else None
    if text is None:
        raise ValueError(f"proxy: {proxy!r} is no URL; {PROXY}")
    try:
        return package.Proxy(text)
    except (ValueError, package.InvalidURL) as error:
        raise ValueError(f"proxy: {_masked(text)!r} is no proxy's URL; {PROXY}") from error


def _masked(text: str) -> str:
    return re.sub(r"[^/]*@", "***@", text)


def _through(proxy: Any) -> Way:
    scheme, host = proxy.url.scheme, proxy.url.raw_host.decode("ascii")
    if not host or scheme not in PORTS:
        raise ValueError(f"proxy: {_masked(str(proxy.url))!r} is no proxy's URL; {PROXY}")
    origin = Origin(scheme, host, proxy.url.port or PORTS[scheme])
    target = target_of(origin.host, origin.port)
    headers = list(proxy.headers.raw)
    if scheme != "https" and proxy.ssl_context is not None:
        raise ValueError(f"proxy: an ssl_context is for https:// proxies, not for {origin}")
    if scheme in ("http", "https"):
        fields = _checked(_with_credentials(headers, proxy.raw_auth))
        context = _context(proxy.ssl_context)
        return HttpProxy(target, origin=origin, headers=fields, context=context)
    if headers:
        raise ValueError(f"proxy: headers mean nothing to SOCKS; leave them out for {origin}")
    return SocksProxy(target, origin=origin, auth=_fitting(proxy.raw_auth, origin))


def _with_credentials(headers: Headers, auth: tuple[bytes, bytes] | None) -> Headers:
    if auth is None:
        return headers
    basic = b"Basic " + base64.b64encode(b":".join(auth))  # RFC 7617
    return [(b"Proxy-Authorization", basic), *headers]


def _checked(headers: Headers) -> Headers:
    """What no request can carry is refused now, not with every request."""
    try:
        h11.Request(method="CONNECT", target="a:1", headers=[(b"Host", b"a:1"), *headers])
    except h11.LocalProtocolError as error:
        raise ValueError(f"proxy: its headers are no HTTP headers: {error}") from error
    return headers


def _fitting(auth: tuple[bytes, bytes] | None, origin: Origin) -> tuple[bytes, bytes] | None:
    if auth is not None and max(map(len, auth)) > 255:  # RFC 1929: a byte says how long
        raise ValueError(f"proxy: user and password for {origin} have 255 bytes at most")
    return auth


def _context(given: ssl.SSLContext | None) -> Callable[[], ssl.SSLContext]:
    """For TLS to the proxy. Without a context of its own, as in httpcore: the authorities of the
    system and certifi's; `verify` is about origins. Made when it is first needed."""

    @functools.cache
    def make() -> ssl.SSLContext:
        if given is not None:
            return given
        import certifi

        context = ssl.create_default_context()
        context.load_verify_locations(certifi.where())
        return context

    return make
