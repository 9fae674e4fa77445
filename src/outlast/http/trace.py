"""`extensions["trace"]`: tells a listener how its request is getting on, in httpcore's words.

Engine code only notes what happens; the listener is called by whoever drives it, before it waits
the next time and at the end. So it is called in the caller's own thread or task, never inside a
race, and may await. What it raises ends the request, and it hears no more. Refuses a plain
function where the client is asynchronous, and the other way round, as httpcore does.

A call without a listener has nothing of this: no check on its way but one.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from outlast.errors import TransportFailure
from outlast.net.seam import Network, Ready, Wait

if TYPE_CHECKING:
    from outlast.http.family import Family, FamilyRequest
    from outlast.http.message import Head

__all__ = ["AsyncTracedPieces", "SyncTracedPieces", "Telling", "Trace"]

Listener: TypeAlias = "Callable[[str, Mapping[str, Any]], Any]"


class Trace:
    """One request's listener, and what it has not been told yet. One owner; not thread-safe.

    Things that take time are told twice: `started`, then `complete` or `failed`. A `key` has one
    such thing under way at most. `stream`: of HTTP/2, the number of the attempt's stream, to be
    told with what happens on it; empty until it has one.
    """

    __slots__ = ("_events", "_family", "_listener", "_open", "_silent", "request", "stream")

    def __init__(self, listener: Listener, request: FamilyRequest, family: Family) -> None:
        self.request = request
        self._listener = listener
        self._family = family
        self._events: deque[tuple[str, Mapping[str, Any]]] = deque()
        self._open: dict[object, str] = {}
        self._silent = False
        self.stream: dict[str, int] = {}

    # -- what happens ----------------------------------------------------------------------

    def under_way(self, key: object) -> str | None:
        """What has started and not ended under `key`."""
        return self._open.get(key)

    def started(self, key: object, name: str, **info: Any) -> dict[str, Any]:
        """Something has begun; `info` as in httpcore, returned so that it may be completed."""
        self._open[key] = name
        self._events.append((f"{name}.started", info))
        return info

    def complete(self, key: object, value: object = None) -> None:
        """It has come to a good end, with this result."""
        name = self._open.pop(key)
        self._events.append((f"{name}.complete", {"return_value": value}))

    def failed(self, key: object, error: BaseException) -> None:
        """It has not. The error is told as the caller would get it."""
        name = self._open.pop(key)
        if isinstance(error, TransportFailure):
            error = self._family.error(error, self.request)
        self._events.append((f"{name}.failed", {"exception": error}))

    def attempt_failed(self, key: object, error: BaseException) -> None:
        """An exchange has ended in `error`, wherever it was."""
        name = self._open.get(key)
        if name is None:
            return
        self.failed(key, error)
        prefix = name.partition(".")[0]
        if prefix != "connection":
            self.started(key, f"{prefix}.response_closed", **self.stream)
            self.complete(key)

    def end(self, error: BaseException) -> None:
        """The request has ended in `error`: whatever was under way has failed."""
        for key in list(self._open):
            self.attempt_failed(key, error)

    # -- telling it ------------------------------------------------------------------------

    def tell(self) -> None:
        """Call the listener for all that it has not heard. Raises what it raises."""
        while (event := self._next()) is not None:
            self._silent = True
            heard = self._listener(*event)
            if inspect.iscoroutine(heard):
                heard.close()
                raise TypeError('extensions["trace"]: a synchronous client needs a plain function')
            self._silent = False

    async def tell_async(self) -> None:
        """See `tell`; the listener is awaited."""
        while (event := self._next()) is not None:
            self._silent = True
            heard = self._listener(*event)
            if not inspect.iscoroutine(heard):
                raise TypeError('extensions["trace"]: an async client needs an async function')
            await heard
            self._silent = False

    def tell_at_once(self) -> None:
        """The same under a cancellation: an async listener hears as much as it can without
        waiting."""
        while (event := self._next()) is not None:
            heard = self._listener(*event)
            if inspect.iscoroutine(heard):
                try:
                    heard.send(None)
                except StopIteration:
                    continue
                heard.close()
                return

    def _next(self) -> tuple[str, Mapping[str, Any]] | None:
        return self._events.popleft() if self._events and not self._silent else None


class Telling:
    """A network for `run_sync` and `run_async` that has the listener called before it waits."""

    __slots__ = ("_network", "_trace")

    def __init__(self, network: Network, trace: Trace) -> None:
        self._network = network
        self._trace = trace

    def wait(self, wait: Wait) -> Ready:
        """See `Network.wait`."""
        self._trace.tell()
        return self._network.wait(wait)

    async def wait_async(self, wait: Wait) -> Ready:
        """See `Network.wait_async`."""
        await self._trace.tell_async()
        return await self._network.wait_async(wait)


# -- bodies --------------------------------------------------------------------------------

BODY, CLOSED = "body", "closed"  # keys
RECEIVED = "receive_response_body"


def prefix_of(head: Head) -> str:
    """What httpcore puts before the names of a protocol's events."""
    return "http2" if head.http_version == b"HTTP/2" else "http11"


class SyncTracedPieces:
    """A response's body, and what becomes of it told."""

    def __init__(self, pieces: Any, trace: Trace, head: Head) -> None:
        self._pieces = pieces
        self._trace = trace
        self._prefix = prefix_of(head)
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        trace = self._trace
        trace.started(BODY, f"{self._prefix}.{RECEIVED}", request=trace.request, **trace.stream)
        try:
            trace.tell()
            yield from self._pieces
        except BaseException as error:
            trace.failed(BODY, error)
            self.close()
            raise
        trace.complete(BODY)
        trace.tell()

    def close(self) -> None:
        """The response is over, read or not."""
        if self._closed:
            return
        self._closed = True
        trace = self._trace
        trace.started(CLOSED, f"{self._prefix}.response_closed", **trace.stream)
        self._pieces.close()
        trace.complete(CLOSED)
        trace.tell()


class AsyncTracedPieces:
    """The same for asynchronous callers."""

    def __init__(self, pieces: Any, trace: Trace, head: Head) -> None:
        self._pieces = pieces
        self._trace = trace
        self._prefix = prefix_of(head)
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        trace = self._trace
        trace.started(BODY, f"{self._prefix}.{RECEIVED}", request=trace.request, **trace.stream)
        try:
            await trace.tell_async()
            async for piece in self._pieces:
                yield piece
        except BaseException as error:
            trace.failed(BODY, error)
            await self._close(waits=isinstance(error, Exception))
            raise
        trace.complete(BODY)
        await trace.tell_async()

    async def aclose(self) -> None:
        """The response is over, read or not."""
        await self._close(waits=True)

    async def _close(self, *, waits: bool) -> None:
        if self._closed:
            return
        self._closed = True
        trace = self._trace
        trace.started(CLOSED, f"{self._prefix}.response_closed", **trace.stream)
        await self._pieces.aclose()
        trace.complete(CLOSED)
        if waits:
            await trace.tell_async()
        else:
            trace.tell_at_once()
