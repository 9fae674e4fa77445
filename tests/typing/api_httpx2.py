"""Uses and mistakes with httpx2's own types, where it is installed.

At run time any transport serves requests of both families; a type checker is told of its own
only, so that a mix is seen where it is not meant. Never run; see `test_checkers`.
"""

from __future__ import annotations

import httpx
import httpx2
from typing_extensions import assert_type

import outlast
import outlast.httpx2


def uses() -> None:
    httpx2.Client(transport=outlast.httpx2.Transport())
    httpx2.AsyncClient(transport=outlast.httpx2.AsyncTransport())
    outlast.httpx2.Transport(limits=httpx2.Limits(), proxy=httpx2.Proxy("http://a"))
    assert_type(outlast.httpx2.async_client(), httpx2.AsyncClient)
    with outlast.httpx2.client(limits=httpx2.Limits(), timeout=httpx2.Timeout(5.0)) as client:
        assert_type(client, httpx2.Client)
        assert_type(client.get("http://a"), httpx2.Response)
    with outlast.httpx2.Transport() as transport:
        assert_type(transport, outlast.httpx2.Transport)
        assert_type(transport.handle_request(httpx2.Request("GET", "http://a")), httpx2.Response)


async def async_uses() -> None:
    async with outlast.httpx2.AsyncTransport() as transport:
        request = httpx2.Request("GET", "http://a")
        assert_type(await transport.handle_async_request(request), httpx2.Response)


def mixes(request: httpx2.Request) -> None:
    httpx.Client(transport=outlast.httpx2.Transport())  # type: ignore[arg-type]  # httpx's base
    httpx2.Client(transport=outlast.Transport())  # type: ignore[arg-type]  # httpx2's base
    outlast.Transport().handle_request(request)  # type: ignore[arg-type]  # served, not told
    outlast.client(limits=httpx2.Limits())  # type: ignore[arg-type]  # httpx's
    outlast.client(proxy=httpx2.Proxy("http://a"))  # type: ignore[arg-type]  # httpx's
    outlast.httpx2.client(limits=httpx.Limits())  # type: ignore[arg-type]  # httpx2's
    outlast.Transport(proxy=httpx2.Proxy("http://a"))  # type: ignore[arg-type]  # httpx's
