"""httpx's family: its base classes over the engine, its clients over them, and nothing else.

`Transport` and `AsyncTransport` are drop-ins for `httpx.HTTPTransport` and
`httpx.AsyncHTTPTransport`, with `policy` and `targets` besides. Errors are httpx's own, each with
`.report`; every response carries the same report in `extensions["outlast"]`. httpx2's family:
`outlast.httpx2`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import httpx

from outlast.http.client import build_client, signature_like
from outlast.http.family import family_in
from outlast.http.shell import AsyncShell, SyncShell

if TYPE_CHECKING:
    import ssl

    from httpx._types import (
        AuthTypes,
        CertTypes,
        CookieTypes,
        HeaderTypes,
        ProxyTypes,
        QueryParamTypes,
        TimeoutTypes,
    )
    from typing_extensions import Unpack

    from outlast.http.arguments import Parser
    from outlast.net.seam import Network
    from outlast.policy import Policy
    from outlast.target import Target

__all__ = ["AsyncTransport", "Transport", "async_client", "client"]

HTTPX = family_in(httpx)
AnyProxy: TypeAlias = "httpx.URL | httpx.Proxy"


class Transport(SyncShell[httpx.Request, httpx.Response, AnyProxy], httpx.BaseTransport):
    """A synchronous httpx transport that outlives its endpoints.

    Takes the arguments of `httpx.HTTPTransport`, and:

    policy: a `Policy`; the defaults need no thought. Of its `idle_expiry` and the limits'
        `keepalive_expiry`, the shorter holds.
    targets: origin to target, such as {"http://orders.shop.svc:8080": "static://10.0.0.1:80"};
        a `Target` also says how its endpoints are used.
    network: where connections go: an `outlast.testing.SimNet`, in tests; the kernel's network if
        not given.
    http1_parser: "h11", or "httptools" (with the extra of that name): what reads responses of
        HTTP/1.1. It takes less CPU, and refuses more.

    Raises ValueError for arguments that are wrong, or that this version cannot serve yet.
    Thread-safe. Requests raise httpx's exceptions, with the call's time line in `.report`;
    requests of another family (httpx2) are served too, and get that family's types.
    """

    family = HTTPX


class AsyncTransport(AsyncShell[httpx.Request, httpx.Response, AnyProxy], httpx.AsyncBaseTransport):
    """An asynchronous httpx transport that outlives its endpoints, on asyncio and trio.

    Arguments, errors and report are those of `Transport`. Safe for many tasks and cancellation;
    its connections belong to no event loop, so it may be used from one loop after another.
    """

    family = HTTPX


class _Arguments(TypedDict, total=False):
    """What both kinds of client take, and what it is in httpx."""

    auth: AuthTypes | None
    params: QueryParamTypes | None
    headers: HeaderTypes | None
    cookies: CookieTypes | None
    verify: ssl.SSLContext | str | bool
    cert: CertTypes | None
    trust_env: bool
    http1: bool
    http2: bool
    proxy: ProxyTypes | None
    timeout: TimeoutTypes
    follow_redirects: bool
    limits: httpx.Limits | None
    max_redirects: int
    event_hooks: Mapping[str, list[Callable[..., Any]]] | None
    base_url: httpx.URL | str
    default_encoding: str | Callable[[bytes], str]
    policy: Policy | None
    targets: Mapping[str, str | Target] | None
    network: Network | None
    http1_parser: Parser


class ClientArguments(_Arguments, total=False):
    """What `client` takes."""

    mounts: Mapping[str, httpx.BaseTransport | None] | None


class AsyncClientArguments(_Arguments, total=False):
    """What `async_client` takes."""

    mounts: Mapping[str, httpx.AsyncBaseTransport | None] | None


@signature_like(httpx.Client)
def client(**given: Unpack[ClientArguments]) -> httpx.Client:
    """An `httpx.Client` that outlives its endpoints, with all its arguments honoured.

    Takes what `httpx.Client` takes, but for `transport`; and `policy`, `targets`, `network` and
    `http1_parser` as `Transport` does. httpx itself drops verify, cert, http1, http2, limits and
    the environment's proxies when it is given a transport; here they make it. Raises what the
    client and `Transport` raise for wrong arguments; TypeError for `transport`.
    """
    return build_client(HTTPX, httpx.Client, Transport, given)


@signature_like(httpx.AsyncClient)
def async_client(**given: Unpack[AsyncClientArguments]) -> httpx.AsyncClient:
    """An `httpx.AsyncClient` that outlives its endpoints; see `client`."""
    return build_client(HTTPX, httpx.AsyncClient, AsyncTransport, given)
