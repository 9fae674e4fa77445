"""How a transport reaches an origin: directly, over a Unix socket, or through a proxy.

A way says what is dialled instead of the origin's own endpoints, what has to be said on a new
connection before it can be used, and how requests are written. What is dialled is what is raced
and remembered: a proxy's addresses, not the origins' behind it. Sources: RFC 9112 section 3.2.2
(absolute form), RFC 9110 section 9.3.6 (CONNECT), RFC 1928 (SOCKS5).

Refuses to give the proxy's headers and credentials to anybody but the proxy.
"""

from __future__ import annotations

import dataclasses
import functools
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from outlast.http.message import Headers, Request, Route
from outlast.http.proxy import connect, hold, merged
from outlast.http.socks import socks5
from outlast.net.seam import Stream
from outlast.net.tls import handshake
from outlast.target import DEFAULT_PORTS, Origin, Target

__all__ = ["DIRECTLY", "HttpProxy", "Opening", "SocksProxy", "Way"]

Opening: TypeAlias = "Callable[[Stream], Coroutine[Any, Any, Stream]]"


@dataclass(frozen=True, slots=True)
class Way:
    """Nothing in between. `target`: what is dialled whatever the origin; None for the origin's own
    endpoints."""

    target: Target | None = None

    def request(self, request: Request) -> Request:
        """The request as it is written on this way."""
        return request

    def opening(self, route: Route) -> Opening | None:  # noqa: ARG002  other ways need it
        """What makes a new connection one to the route's origin, before the origin's own TLS."""
        return None

    def forwards(self, route: Route) -> bool:  # noqa: ARG002  other ways need it
        """Whether a proxy reads the requests themselves."""
        return False


DIRECTLY = Way()


@dataclass(frozen=True, slots=True)
class HttpProxy(Way):
    """http:// requests are forwarded by the proxy, https:// goes through a tunnel. A connection is
    for one origin in either case: proxies are about that send all of a connection's requests where
    the first one went, though each names its own origin (RFC 9112 section 3.2.2).

    `origin`: the proxy's; https means TLS to the proxy, with the context that `context` makes.
    `headers`: for the proxy alone, with its credentials.
    """

    origin: Origin = dataclasses.field(kw_only=True)
    headers: Headers = dataclasses.field(kw_only=True, repr=False)
    context: Callable[[], ssl.SSLContext] = dataclasses.field(kw_only=True)

    def request(self, request: Request) -> Request:
        """See `Way.request`: in absolute form, with the proxy's headers, if it is forwarded."""
        if not self.forwards(request.route):
            return request
        return request._replace(
            target=_absolute(request), headers=merged(self.headers, request.headers)
        )

    def opening(self, route: Route) -> Opening | None:
        """See `Way.opening`."""
        if self.forwards(route) and self.origin.scheme == "http":
            return None
        return functools.partial(self._open, route)

    def forwards(self, route: Route) -> bool:
        """See `Way.forwards`."""
        return route.origin.scheme == "http"

    async def _open(self, route: Route, stream: Stream) -> Stream:
        if self.origin.scheme == "https":
            stream = await handshake(
                stream, context=self.context(), name=self.origin.host, protocols=("http/1.1",)
            )
        if not self.forwards(route):
            proxy, origin = f"proxy {self.origin}", route.origin
            await hold(stream, connect(origin.host, origin.port, self.headers, proxy), proxy)
        return stream


@dataclass(frozen=True, slots=True)
class SocksProxy(Way):
    """A tunnel per origin, for http:// too. `auth`: user and password."""

    origin: Origin = dataclasses.field(kw_only=True)
    auth: tuple[bytes, bytes] | None = dataclasses.field(kw_only=True, repr=False)

    def opening(self, route: Route) -> Opening | None:
        """See `Way.opening`."""
        return functools.partial(self._open, route.origin)

    async def _open(self, origin: Origin, stream: Stream) -> Stream:
        proxy = f"proxy {self.origin}"
        await hold(stream, socks5(origin.host, origin.port, self.auth, proxy), proxy)
        return stream


def _absolute(request: Request) -> bytes:
    """The target with scheme and host; one that the caller gave in another form is left alone."""
    target, origin = request.target, request.route.origin
    if not target.startswith(b"/"):
        return target
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    port = "" if origin.port == DEFAULT_PORTS["http"] else f":{origin.port}"
    return f"http://{host}{port}".encode("ascii") + target
