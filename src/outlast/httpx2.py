"""httpx2's family: what `outlast` has for httpx, under the same names.

    import outlast.httpx2
    client = outlast.httpx2.client(http2=True)
    client = httpx2.Client(transport=outlast.httpx2.Transport())

Its exceptions, Response and stream types, its base classes, and its way to trust: without `verify`
the certificates of the operating system. httpx2 (2.14 or newer) is not among this library's
dependencies; without it this module is an ImportError that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

try:
    import httpx2
except ModuleNotFoundError as error:
    if error.name != "httpx2":
        raise
    raise ImportError(
        "outlast.httpx2 needs the package httpx2: pip install httpx2", name="httpx2"
    ) from error


from outlast.http.client import build_client, signature_like
from outlast.http.family import family_in
from outlast.http.shell import AsyncShell, SyncShell

if TYPE_CHECKING:
    import ssl

    from httpx2._types import (
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

HTTPX2 = family_in(httpx2)
AnyProxy: TypeAlias = "httpx2.URL | httpx2.Proxy"


class Transport(SyncShell[httpx2.Request, httpx2.Response, AnyProxy], httpx2.BaseTransport):
    """A synchronous httpx2 transport that outlives its endpoints.

    Takes the arguments of `httpx2.HTTPTransport`; and `policy`, `targets`, `network` and
    `http1_parser` as `outlast.Transport` does. Thread-safe. Requests raise httpx2's exceptions,
    with the call's time line in `.report`; requests of httpx are served too, and get httpx's types.
    """

    family = HTTPX2


class AsyncTransport(
    AsyncShell[httpx2.Request, httpx2.Response, AnyProxy],
    httpx2.AsyncBaseTransport,
):
    """An asynchronous httpx2 transport that outlives its endpoints, on asyncio and trio.

    See `Transport` and `outlast.AsyncTransport`.
    """

    family = HTTPX2


class _Arguments(TypedDict, total=False):
    """What both kinds of client take, and what it is in httpx2."""

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
    limits: httpx2.Limits | None
    max_redirects: int
    event_hooks: Mapping[str, list[Callable[..., Any]]] | None
    base_url: httpx2.URL | str
    default_encoding: str | Callable[[bytes], str | None]
    policy: Policy | None
    targets: Mapping[str, str | Target] | None
    network: Network | None
    http1_parser: Parser


class ClientArguments(_Arguments, total=False):
    """What `client` takes."""

    mounts: Mapping[str, httpx2.BaseTransport | None] | None


class AsyncClientArguments(_Arguments, total=False):
    """What `async_client` takes."""

    mounts: Mapping[str, httpx2.AsyncBaseTransport | None] | None


@signature_like(httpx2.Client)
def client(**given: Unpack[ClientArguments]) -> httpx2.Client:
    """An `httpx2.Client` that outlives its endpoints, with all its arguments honoured.

    Takes what `httpx2.Client` takes, but for `transport`; and `policy`, `targets`, `network` and
    `http1_parser`; see `outlast.client`.
    """
    return build_client(HTTPX2, httpx2.Client, Transport, given)


@signature_like(httpx2.AsyncClient)
def async_client(**given: Unpack[AsyncClientArguments]) -> httpx2.AsyncClient:
    """An `httpx2.AsyncClient` that outlives its endpoints; see `outlast.client`."""
    return build_client(HTTPX2, httpx2.AsyncClient, AsyncTransport, given)
