"""The clients under test, each opened for a cell in the way its own documentation shows.

The same for all: as many connections, pooled and in all, as requests at once; a TLS context of
Python's defaults that trusts the server's authority; no timeout shorter than a minute; nothing
from the environment. Everything else is each library's default. `ask` returns the size of the
body, wholly read. Libraries are imported when they are used: each has a process of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from benchmarks.speed.plan import H1, H2, Cell

TIMEOUT = 60.0  # seconds
SETTLED = (
    4.0  # seconds after which requests that wait are looked at no more than every now and then
)
ONLY = {H1: {"http1": True, "http2": False}, H2: {"http1": False, "http2": True}}

Ask: TypeAlias = "Callable[[], int]"
AskLater: TypeAlias = "Callable[[], Awaitable[int]]"


@dataclass(frozen=True, slots=True)
class Place:
    """Where to ask. `authority`: the path of the certificate to trust."""

    url: str
    authority: str

    def context(self) -> ssl.SSLContext:
        """TLS of Python's defaults."""
        return ssl.create_default_context(cafile=self.authority)


# -- httpx's families ------------------------------------------------------------------------


def _limits(package: Any, cell: Cell) -> Any:
    given: dict[str, float] = {
        "max_connections": cell.limit,
        "max_keepalive_connections": cell.limit,
    }
    if cell.linger is not None:
        given["keepalive_expiry"] = cell.linger
    return package.Limits(**given)


def family_client(name: str, cell: Cell, place: Place) -> Any:
    """A Client or AsyncClient of httpx or httpx2, over the transport that `name` says."""
    package = importlib.import_module("httpx2" if name.endswith("httpx2") else "httpx")
    given = {"limits": _limits(package, cell), "verify": place.context(), **ONLY[cell.protocol]}
    which = {True: "HTTPTransport", False: "AsyncHTTPTransport"}[cell.sync]
    if name.startswith("outlast"):
        library, _, parser = name.partition("+")
        which = {True: "Transport", False: "AsyncTransport"}[cell.sync]
        make = getattr(importlib.import_module(library), which)
        transport = make(trust_env=False, http1_parser=parser or "h11", **given)
    elif name == "httpx-retries":
        retries = importlib.import_module("httpx_retries")
        transport = retries.RetryTransport(getattr(package, which)(trust_env=False, **given))
    else:
        transport = getattr(package, which)(trust_env=False, **given)
    client = package.Client if cell.sync else package.AsyncClient
    return client(transport=transport, timeout=TIMEOUT, trust_env=False)


@contextlib.contextmanager
def _family_sync(name: str, cell: Cell, place: Place) -> Iterator[Ask]:
    with family_client(name, cell, place) as client:
        open_idle(client, place.url, cell.idle)
        yield lambda: len(client.get(place.url).content)


@contextlib.asynccontextmanager
async def _family_async(name: str, cell: Cell, place: Place) -> AsyncIterator[AskLater]:
    async with family_client(name, cell, place) as client:
        await open_idle_async(client, place.url, cell.idle)
        held = [asyncio.ensure_future(client.get(place.url + "hold")) for _ in range(cell.held)]
        # Another process counts them: it can only be asked again.
        while held and int((await client.get(place.url + "held")).text) < cell.held:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        await asyncio.sleep(SETTLED if held else 0)

        async def ask() -> int:
            return len((await client.get(place.url)).content)

        yield ask
        for each in held:
            each.cancel()
        await asyncio.gather(*held, return_exceptions=True)


def open_idle(client: Any, url: str, count: int) -> None:
    """Have `count` connections lie idle in the pool: none is free while its answer is unread."""
    answers = [client.send(client.build_request("GET", url), stream=True) for _ in range(count)]
    for answer in answers:
        answer.read()


async def open_idle_async(client: Any, url: str, count: int) -> None:
    """The same for an AsyncClient."""
    answers = [
        await client.send(client.build_request("GET", url), stream=True) for _ in range(count)
    ]
    for answer in answers:
        await answer.aread()


# -- the others ------------------------------------------------------------------------------


@contextlib.contextmanager
def _requests(cell: Cell, place: Place) -> Iterator[Ask]:
    library: Any = importlib.import_module("requests")
    with library.Session() as session:
        session.trust_env = False
        session.verify = place.authority
        for scheme in ("http://", "https://"):
            session.mount(scheme, library.adapters.HTTPAdapter(pool_maxsize=cell.limit))
        yield lambda: len(session.get(place.url, timeout=TIMEOUT).content)


@contextlib.contextmanager
def _urllib3(cell: Cell, place: Place) -> Iterator[Ask]:
    library: Any = importlib.import_module("urllib3")
    with library.PoolManager(
        maxsize=cell.limit, timeout=TIMEOUT, ssl_context=place.context()
    ) as pool:
        yield lambda: len(pool.request("GET", place.url).data)


@contextlib.asynccontextmanager
async def _aiohttp(cell: Cell, place: Place) -> AsyncIterator[AskLater]:
    library: Any = importlib.import_module("aiohttp")
    connector = library.TCPConnector(limit=cell.limit, ssl=place.context())
    timeout = library.ClientTimeout(total=TIMEOUT)
    async with library.ClientSession(connector=connector, timeout=timeout) as session:

        async def ask() -> int:
            async with session.get(place.url) as answer:
                return len(await answer.read())

        yield ask


def _niquests_session(cell: Cell, place: Place) -> Any:
    library: Any = importlib.import_module("niquests")
    made = library.Session if cell.sync else library.AsyncSession
    session = made(
        disable_http1=cell.protocol == H2,
        disable_http2=cell.protocol == H1,
        disable_http3=True,
        pool_maxsize=cell.limit,
        timeout=TIMEOUT,
    )
    session.trust_env = False
    session.verify = place.authority
    return session


@contextlib.contextmanager
def _niquests_sync(cell: Cell, place: Place) -> Iterator[Ask]:
    with _niquests_session(cell, place) as session:
        yield lambda: len(session.get(place.url).content)


@contextlib.asynccontextmanager
async def _niquests_async(cell: Cell, place: Place) -> AsyncIterator[AskLater]:
    async with _niquests_session(cell, place) as session:

        async def ask() -> int:
            return len((await session.get(place.url)).content)

        yield ask


# -- by name ---------------------------------------------------------------------------------

_SYNC = {"requests": _requests, "urllib3": _urllib3, "niquests": _niquests_sync}
_ASYNC = {"aiohttp": _aiohttp, "niquests": _niquests_async}


def open_sync(name: str, cell: Cell, place: Place) -> contextlib.AbstractContextManager[Ask]:
    """The client `name`, open for `cell`."""
    other = _SYNC.get(name)
    return other(cell, place) if other else _family_sync(name, cell, place)


def open_async(
    name: str, cell: Cell, place: Place
) -> contextlib.AbstractAsyncContextManager[AskLater]:
    """The client `name`, open for `cell`, in the running event loop."""
    other = _ASYNC.get(name)
    return other(cell, place) if other else _family_async(name, cell, place)
