"""How each client of the table asks once: with its pool kept, or a new connection each time.

Every client is as its documentation starts it, but for the settings that its name tells. A new
connection each time means: no idle connection is kept. The library stays loaded and the client
object alive, so that nobody pays for its construction. An answer other than 2xx is an error.

Refuses nothing; imports a library only when a client of it is asked for.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import httpx

import outlast

__all__ = ["AsyncClient", "SyncClient"]

AsyncCall: TypeAlias = Callable[[], Awaitable[Any]]
AsyncClient: TypeAlias = Callable[[str, "tuple[str, ...]", bool], Any]
"""From URL, the pods' addresses and `pooled` to an async context manager of an `AsyncCall`."""
SyncCall: TypeAlias = Callable[[], Any]
SyncClient: TypeAlias = Callable[[str, "tuple[str, ...]", bool], Any]
"""The same, as a context manager of a `SyncCall`, which 8 threads call."""

# httpx's own default but for the idle ones.
_NONE_IDLE = httpx.Limits(max_connections=100, max_keepalive_connections=0)


def _limits(pooled: bool) -> dict[str, Any]:
    return {} if pooled else {"limits": _NONE_IDLE}


@contextlib.asynccontextmanager
async def _asking(client: httpx.AsyncClient, url: str) -> AsyncIterator[AsyncCall]:
    async def call() -> httpx.Response:
        return (await client.get(url)).raise_for_status()

    async with client:
        yield call


@contextlib.contextmanager
def _asking_in_threads(client: httpx.Client, url: str) -> Iterator[SyncCall]:
    with client:
        yield lambda: client.get(url).raise_for_status()


def plain(url: str, _pods: tuple[str, ...], pooled: bool) -> Any:
    """httpx without a setting."""
    return _asking(httpx.AsyncClient(**_limits(pooled)), url)


def patient(url: str, _pods: tuple[str, ...], pooled: bool) -> Any:
    """The client of every proxy: httpx that leaves all timeouts to the proxy."""
    return _asking(httpx.AsyncClient(timeout=60.0, **_limits(pooled)), url)


def connect_retries(url: str, _pods: tuple[str, ...], pooled: bool) -> Any:
    """httpx with what it has against this: a short connect timeout, repeated."""
    transport = httpx.AsyncHTTPTransport(retries=3, **_limits(pooled))
    timeout = httpx.Timeout(5.0, connect=1.0)
    return _asking(httpx.AsyncClient(transport=transport, timeout=timeout), url)


def httpx_retries(url: str, _pods: tuple[str, ...], pooled: bool) -> Any:
    """httpx with the package httpx-retries: five tries, each with the same short timeout."""
    library: Any = importlib.import_module("httpx_retries")

    inner = httpx.AsyncHTTPTransport(**_limits(pooled))
    transport = library.RetryTransport(
        transport=inner, retry=library.Retry(total=4, backoff_factor=0.1)
    )
    timeout = httpx.Timeout(5.0, connect=1.0)
    return _asking(httpx.AsyncClient(transport=transport, timeout=timeout), url)


def aiohttp(url: str, _pods: tuple[str, ...], pooled: bool) -> Any:
    """aiohttp without a setting."""
    return _aiohttp(importlib.import_module("aiohttp"), url, pooled)


@contextlib.asynccontextmanager
async def _aiohttp(library: Any, url: str, pooled: bool) -> AsyncIterator[AsyncCall]:
    connector = library.TCPConnector(force_close=not pooled)
    async with library.ClientSession(connector=connector) as session:

        async def call() -> None:
            async with session.get(url) as response:
                response.raise_for_status()
                await response.read()

        yield call


def requests(url: str, _pods: tuple[str, ...], pooled: bool) -> Any:
    """requests without a setting: one session, or `requests.get`, which keeps nothing."""
    return _requests(importlib.import_module("requests"), url, pooled)


@contextlib.contextmanager
def _requests(library: Any, url: str, pooled: bool) -> Iterator[SyncCall]:
    with library.Session() as session:
        get = session.get if pooled else library.get
        yield lambda: get(url).raise_for_status()


def outlast_vip(url: str, _pods: tuple[str, ...], pooled: bool) -> Any:
    """outlast without a setting."""
    return _asking(httpx.AsyncClient(transport=outlast.AsyncTransport(**_limits(pooled))), url)


def outlast_static(url: str, pods: tuple[str, ...], pooled: bool) -> Any:
    """outlast that knows the pods' addresses, as the proxies do."""
    targets = {url: f"static://{','.join(pods)}"}
    transport = outlast.AsyncTransport(targets=targets, **_limits(pooled))
    return _asking(httpx.AsyncClient(transport=transport), url)


def outlast_vip_sync(url: str, _pods: tuple[str, ...], pooled: bool) -> Any:
    """outlast without a setting, in threads."""
    return _asking_in_threads(httpx.Client(transport=outlast.Transport(**_limits(pooled))), url)


def outlast_static_sync(url: str, pods: tuple[str, ...], pooled: bool) -> Any:
    """outlast that knows the pods' addresses, in threads."""
    targets = {url: f"static://{','.join(pods)}"}
    transport = outlast.Transport(targets=targets, **_limits(pooled))
    return _asking_in_threads(httpx.Client(transport=transport), url)
