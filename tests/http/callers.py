"""One httpx client over one outlast transport: in threads, on asyncio or on trio.

The cases are written once, as coroutines over a `Caller`. The synchronous caller's methods never
wait in the coroutine's sense, so `run_now` carries such a case out in a plain function.
"""

from __future__ import annotations

import contextlib
import select
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeAlias, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx

import outlast
from outlast.core.report import Report
from tests.http.parsers import PARSER
from tests.http.servers import BOUND

T = TypeVar("T")
Part: TypeAlias = "bytes | Callable[[], object]"  # a chunk, or what is done between two


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    work.close()
    raise AssertionError("a synchronous case has awaited something")


class Upload:
    """A streamed body: chunks, and functions that are called between them.

    `taken`: how many chunks were asked for.
    """

    def __init__(self, *parts: Part) -> None:
        self.parts = parts
        self.taken = 0

    def chunks(self) -> Iterator[bytes]:
        for part in self.parts:
            if isinstance(part, bytes):
                self.taken += 1
                yield part
            else:
                part()

    async def async_chunks(self) -> AsyncGenerator[bytes, None]:
        for chunk in self.chunks():
            await anyio.lowlevel.checkpoint()
            yield chunk


class Caller(ABC):
    """A client and its transport."""

    transport: outlast.Transport | outlast.AsyncTransport

    @abstractmethod
    async def request(
        self, method: str, url: str, *, body: bytes | Upload | None = None, **more: Any
    ) -> httpx.Response:
        """Send and read the whole response."""

    @abstractmethod
    def stream(
        self, method: str, url: str, **more: Any
    ) -> contextlib.AbstractAsyncContextManager[httpx.Response]:
        """Send, and give the response unread."""

    @abstractmethod
    def pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """The body as it comes in."""

    @abstractmethod
    async def together(self, *works: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Run them side by side, begun in order."""

    @abstractmethod
    async def handle(self, request: httpx.Request) -> httpx.Response:
        """Hand a request to the transport, past the client."""

    @abstractmethod
    async def until_set(self, event: threading.Event) -> None:
        """Wait for a thread's event; tasks beside go on."""

    @abstractmethod
    async def close(self) -> None:
        """Close the client."""

    @abstractmethod
    async def close_transport(self) -> None:
        """Close the transport alone."""

    # -- in words --------------------------------------------------------------------------

    async def get(self, url: str, **more: Any) -> httpx.Response:
        return await self.request("GET", url, **more)

    async def post(self, url: str, body: bytes | Upload = b"payload", **more: Any) -> Any:
        return await self.request("POST", url, body=body, **more)

    async def stream_into(
        self, got: list[bytes], url: str, each: Callable[[], Any] | None = None, **more: Any
    ) -> httpx.Response:
        """GET, and put the pieces into `got` as they come; `each` is called after every one."""
        async with self.stream("GET", url, **more) as response:
            async for piece in self.pieces(response):
                got.append(piece)
                if each is not None and (work := each()) is not None:
                    await work
        return response

    def counts(self) -> dict[str, int]:
        return self.transport._engine.pool.counts()

    def idle_sockets(self) -> list[int]:
        """Descriptors of the idle connections."""
        return [c.stream.fileno() for c in self.transport._engine.pool._idle]

    def hear_idle(self) -> None:
        """Wait until something has arrived on every idle connection."""
        for number in self.idle_sockets():
            assert select.select([number], [], [], BOUND)[0], "nothing has arrived"


class SyncCaller(Caller):
    """httpx.Client over outlast.Transport; side by side means threads."""

    transport: outlast.Transport

    def __init__(self, **arguments: Any) -> None:
        self.transport = outlast.Transport(**{**PARSER, **arguments})
        self.client = httpx.Client(transport=self.transport, timeout=BOUND)

    async def request(
        self, method: str, url: str, *, body: bytes | Upload | None = None, **more: Any
    ) -> httpx.Response:
        content = body.chunks() if isinstance(body, Upload) else body
        return self.client.request(method, url, content=content, **more)

    @contextlib.asynccontextmanager
    async def stream(self, method: str, url: str, **more: Any) -> AsyncIterator[httpx.Response]:
        with self.client.stream(method, url, **more) as response:
            yield response

    async def pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        for piece in response.iter_raw():
            yield piece

    async def together(self, *works: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        failures: list[Exception] = []

        def run(work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
            try:
                run_now(work())
            except Exception as error:  # noqa: BLE001  raised below
                failures.append(error)

        threads = [threading.Thread(target=run, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND)
            assert not thread.is_alive()
        if failures:
            raise failures[0]

    async def handle(self, request: httpx.Request) -> httpx.Response:
        return self.transport.handle_request(request)

    async def until_set(self, event: threading.Event) -> None:
        assert event.wait(BOUND)

    async def close(self) -> None:
        self.client.close()

    async def close_transport(self) -> None:
        self.transport.close()


class AsyncCaller(Caller):
    """httpx.AsyncClient over outlast.AsyncTransport; side by side means tasks."""

    transport: outlast.AsyncTransport

    def __init__(self, **arguments: Any) -> None:
        self.transport = outlast.AsyncTransport(**{**PARSER, **arguments})
        self.client = httpx.AsyncClient(transport=self.transport, timeout=BOUND)

    async def request(
        self, method: str, url: str, *, body: bytes | Upload | None = None, **more: Any
    ) -> httpx.Response:
        if not isinstance(body, Upload):
            return await self.client.request(method, url, content=body, **more)
        async with contextlib.aclosing(body.async_chunks()) as chunks:  # httpx leaves it as it is
            return await self.client.request(method, url, content=chunks, **more)

    @contextlib.asynccontextmanager
    async def stream(self, method: str, url: str, **more: Any) -> AsyncIterator[httpx.Response]:
        async with self.client.stream(method, url, **more) as response:
            yield response

    async def pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        async for piece in response.aiter_raw():
            yield piece

    async def together(self, *works: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        async with anyio.create_task_group() as group:
            for work in works:
                group.start_soon(work)

    async def handle(self, request: httpx.Request) -> httpx.Response:
        return await self.transport.handle_async_request(request)

    async def until_set(self, event: threading.Event) -> None:
        assert await anyio.to_thread.run_sync(event.wait, BOUND)

    async def close(self) -> None:
        await self.client.aclose()

    async def close_transport(self) -> None:
        await self.transport.aclose()


def report_of(source: httpx.Response | BaseException) -> Report:
    """The time line that rides on a response or an exception."""
    if isinstance(source, httpx.Response):
        report = source.extensions["outlast"]
    else:
        report = vars(source)["report"]
    assert isinstance(report, Report)
    return report


def words(source: httpx.Response | BaseException, *phases: str) -> list[str]:
    """What a report says, of all phases or some."""
    return [e.what for e in report_of(source) if not phases or e.phase in phases]
