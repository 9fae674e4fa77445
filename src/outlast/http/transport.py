"""The transports of httpx's family: its base classes over the engine, and nothing else.

Drop-in for `httpx.HTTPTransport` and `httpx.AsyncHTTPTransport`, with `policy` and `targets`
besides. Errors are httpx's own, each with `.report`; every response carries the same report in
`extensions["outlast"]`. The same for httpx2: `outlast.httpx2`.
"""

from __future__ import annotations

import httpx

from outlast.http.family import family_in
from outlast.http.shell import AsyncShell, SyncShell

__all__ = ["AsyncTransport", "Transport"]

HTTPX = family_in(httpx)


class Transport(
    SyncShell[httpx.Request, httpx.Response, "httpx.URL | httpx.Proxy"], httpx.BaseTransport
):
    """A synchronous httpx transport that outlives its endpoints.

    Takes the arguments of `httpx.HTTPTransport`, and:

    policy: a `Policy`; the defaults need no thought. Of its `idle_expiry` and the limits'
        `keepalive_expiry`, the shorter holds.
    targets: origin to target, such as {"http://orders.shop.svc:8080": "static://10.0.0.1:80"}.
    network: where connections go; the kernel's network if not given.

    Raises ValueError for arguments that are wrong, or that this version cannot serve yet.
    Thread-safe. Requests raise httpx's exceptions, with the call's time line in `.report`;
    requests of another family (httpx2) are served too, and get that family's types.
    """

    family = HTTPX


class AsyncTransport(
    AsyncShell[httpx.Request, httpx.Response, "httpx.URL | httpx.Proxy"], httpx.AsyncBaseTransport
):
    """An asynchronous httpx transport that outlives its endpoints, on asyncio and trio.

    Arguments, errors and report are those of `Transport`. Safe for many tasks and cancellation;
    its connections belong to no event loop, so it may be used from one loop after another.
    """

    family = HTTPX
