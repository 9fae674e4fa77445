"""One client, plain or over outlast, in threads or in an event loop, and what it was given.

Cases are coroutines over a `Side`. The synchronous side never waits in the coroutine's sense, so
`run_now` carries such a case out in a plain function. A side notes how every request ended; an
exception is an outcome like any other.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeAlias, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx

from tests.dropin.family import OURS
from tests.dropin.record import Outcome, Record, answered, raised
from tests.dropin.stage import BOUND, Act, Line, Stage
from tests.http.callers import run_now
from tests.http.parsers import PARSER

__all__ = ["AsyncSide", "Side", "SyncSide", "Upload", "run_now"]

T = TypeVar("T")
Work: TypeAlias = "Callable[[], Coroutine[Any, Any, Any]]"

# What only a transport takes; the client's other arguments for it go there too then.
TRANSPORT_ONLY = {"local_address", "retries", "socket_options", "uds"}
TRANSPORT = {"verify", "cert", "trust_env", "http1", "http2", "limits", *TRANSPORT_ONLY}


class Upload:
    """A streamed body: chunks, and functions that are called between them."""

    def __init__(self, *parts: bytes | Callable[[], object]) -> None:
        self.parts = parts

    def chunks(self) -> Iterator[bytes]:
        for part in self.parts:
            if callable(part):
                part()
            else:
                yield part

    async def async_chunks(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks():
            await anyio.lowlevel.checkpoint()
            yield chunk


class Side(ABC):
    """A client on a stage. `ours`: `outlast.client` and its like."""

    client: httpx.Client | httpx.AsyncClient

    def __init__(self, stage: Stage, ours: bool) -> None:
        self.stage = stage
        self.ours = ours
        self._outcomes: list[tuple[str, Outcome]] = []

    # -- what a case does ------------------------------------------------------------------

    @property
    def act(self) -> Act:
        """The server's side of this client's time."""
        return self.stage.act

    def vain(self, seconds: float) -> float:
        """A timeout for what only httpx waits for in vain: outlast is not to meet it."""
        return BOUND if self.ours else seconds

    def url(self, path: str) -> str:
        """The URL of a path on the stage; a whole URL stays as it is."""
        return path if "://" in path else self.stage.url + path

    async def request(
        self, method: str, path: str = "/", *, label: str = "", **more: Any
    ) -> httpx.Response | None:
        """Send and read the whole response; note how it ended."""
        try:
            response = await self.send(method, self.url(path), **more)
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001  an outcome, whatever it is
            self._note(label or path, raised(error))
            return None
        self._note(label or path, answered(response, response.content))
        return response

    async def get(self, path: str = "/", **more: Any) -> httpx.Response | None:
        return await self.request("GET", path, **more)

    async def post(self, path: str = "/", content: Any = b"payload", **more: Any) -> Any:
        return await self.request("POST", path, content=content, **more)

    async def pieces(
        self,
        method: str,
        path: str = "/",
        each: Callable[[bytes], object] | None = None,
        meanwhile: Work | None = None,
        **more: Any,
    ) -> None:
        """Send and read the raw body as it comes, calling `each` with what there is so far.
        `meanwhile`: what is done between the head and the body."""
        got = b""
        try:
            async with self.stream(method, self.url(path), **more) as response:
                if meanwhile is not None:
                    await meanwhile()
                async for piece in self.iterate(response):
                    got += piece
                    if each is not None:
                        each(got)
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001  an outcome, whatever it is
            self._note(path, raised(error, got))
        else:
            self._note(path, answered(response, got))

    async def unread(self, method: str, path: str = "/", **more: Any) -> None:
        """Send, and leave the response unread."""
        try:
            async with self.stream(method, self.url(path), **more) as response:
                self._note(path, answered(response, b"not read"))
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001  an outcome, whatever it is
            self._note(path, raised(error))

    def _note(self, label: str, outcome: Outcome) -> None:
        self._outcomes.append((label, outcome))

    def note(self, label: str, value: object, word: str = "") -> None:
        """Something else that both sides must have in common. `word`: for it in `words`."""
        self._note(label, Outcome(word or str(value), {"value": value}))

    async def until_signal(self) -> None:
        """Wait for a handler's word."""
        assert await self.aside(lambda: self.act.signal.wait(BOUND)), "no word from the server"

    # -- of its world ----------------------------------------------------------------------

    @abstractmethod
    async def send(self, method: str, url: str, **more: Any) -> httpx.Response: ...

    @abstractmethod
    async def send_built(self, request: httpx.Request) -> httpx.Response:
        """Send a request that the client has built."""

    @abstractmethod
    def stream(
        self, method: str, url: str, **more: Any
    ) -> contextlib.AbstractAsyncContextManager[httpx.Response]: ...

    @abstractmethod
    def iterate(self, response: httpx.Response) -> AsyncIterator[bytes]: ...

    @abstractmethod
    async def together(self, *works: Work) -> None:
        """Run them side by side, begun in order."""

    @abstractmethod
    async def aside(self, work: Callable[[], T]) -> T:
        """Call something that blocks."""

    @abstractmethod
    async def close(self) -> None: ...

    # -- the record ------------------------------------------------------------------------

    async def play(self, script: Callable[[Side], Coroutine[Any, Any, None]]) -> Record:
        """One act: the script, the end, the record."""
        self.stage.begin()
        try:
            await script(self)
            kept = self._kept()
        finally:
            await self.close()
            lines: list[Line] = await self.aside(self.stage.end)
            if any(outcome.word == "DecodingError" for _, outcome in self._outcomes):
                gc.collect()  # the generators that httpx leaves then: here, not in another test
        return Record(
            sorted(self._outcomes, key=lambda pair: pair[0]), lines, None if self.act.left else kept
        )

    def _kept(self) -> int:
        """Idle connections; nothing else may hold a place when all requests are over."""
        transports = [self.client._transport, *self.client._mounts.values()]
        return sum(self._idle(each) for each in transports if each is not None)

    def _idle(self, transport: Any) -> int:
        if not self.ours:
            return sum(connection.is_idle() for connection in transport._pool.connections)
        counts: dict[str, int] = transport._engine.pool.counts()
        idle = counts["idle"]
        assert counts == {"places": idle, "idle": idle, "busy": 0, "waiting": 0}
        return idle


class SyncSide(Side):
    """`httpx.Client`; side by side means threads."""

    client: httpx.Client

    def __init__(self, stage: Stage, ours: bool, **arguments: Any) -> None:
        super().__init__(stage, ours)
        own, rest = _parted(arguments)
        if own:
            made = OURS.Transport(**PARSER, **own) if ours else httpx.HTTPTransport(**own)
            self.client = httpx.Client(transport=made, **rest)
        else:
            self.client = OURS.client(**PARSER, **rest) if ours else httpx.Client(**rest)

    async def send(self, method: str, url: str, **more: Any) -> httpx.Response:
        return self.client.request(method, url, **_taken(more, Upload.chunks))

    async def send_built(self, request: httpx.Request) -> httpx.Response:
        return self.client.send(request)

    @contextlib.asynccontextmanager
    async def stream(self, method: str, url: str, **more: Any) -> AsyncIterator[httpx.Response]:
        more = _taken(more, Upload.chunks)
        with self.client.stream(method, url, **more) as response:
            yield response

    async def iterate(self, response: httpx.Response) -> AsyncIterator[bytes]:
        for piece in response.iter_raw():
            yield piece

    async def together(self, *works: Work) -> None:
        failures: list[Exception] = []
        before = len(self._outcomes)

        def run(work: Work) -> None:
            try:
                run_now(work())
            except Exception as error:  # noqa: BLE001  raised below
                failures.append(error)

        threads = [threading.Thread(target=run, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND)
            assert not thread.is_alive(), "a request does not end"
        if failures:
            raise failures[0]
        over_http2 = [each for _, each in self._outcomes[before:] if each.over_http2]
        # h2's state has no lock in httpx: a case that passes today fails in a week
        assert self.ours or len(over_http2) < 2, "BETTER must call this `shared`: httpx has luck"

    async def aside(self, work: Callable[[], T]) -> T:
        return work()

    async def close(self) -> None:
        self.client.close()


class AsyncSide(Side):
    """`httpx.AsyncClient`; side by side means tasks."""

    client: httpx.AsyncClient

    def __init__(self, stage: Stage, ours: bool, **arguments: Any) -> None:
        super().__init__(stage, ours)
        own, rest = _parted(arguments)
        if own:
            made = OURS.AsyncTransport(**PARSER, **own) if ours else httpx.AsyncHTTPTransport(**own)
            self.client = httpx.AsyncClient(transport=made, **rest)
        else:
            self.client = OURS.async_client(**PARSER, **rest) if ours else httpx.AsyncClient(**rest)

    async def send(self, method: str, url: str, **more: Any) -> httpx.Response:
        return await self.client.request(method, url, **_taken(more, Upload.async_chunks))

    async def send_built(self, request: httpx.Request) -> httpx.Response:
        return await self.client.send(request)

    @contextlib.asynccontextmanager
    async def stream(self, method: str, url: str, **more: Any) -> AsyncIterator[httpx.Response]:
        more = _taken(more, Upload.async_chunks)
        async with self.client.stream(method, url, **more) as response:
            yield response

    async def iterate(self, response: httpx.Response) -> AsyncIterator[bytes]:
        async for piece in response.aiter_raw():
            yield piece

    async def together(self, *works: Work) -> None:
        with anyio.fail_after(BOUND):
            async with anyio.create_task_group() as group:
                for work in works:
                    group.start_soon(work)

    async def aside(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work)

    async def close(self) -> None:
        await self.client.aclose()


def _taken(more: dict[str, Any], how: Callable[[Upload], object]) -> dict[str, Any]:
    """A request's arguments, an upload among them as an iterator of the client's world."""
    content = more.get("content")
    return {**more, "content": how(content)} if isinstance(content, Upload) else more


def _parted(arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A transport's arguments, if it takes one to have them, and the client's."""
    own = TRANSPORT if TRANSPORT_ONLY & set(arguments) else set()
    transport = {name: value for name, value in arguments.items() if name in own}
    rest = {name: value for name, value in arguments.items() if name not in own}
    return transport, {"timeout": BOUND, **rest}
