"""Bodies between a family and the engine: a request's on its way in, a response's on its way out.

What stands in memory goes in as bytes, which may be sent again; an iterator is taken from once.
A response's body is read in the caller's pace. The classes here become a family's own by a
second base, its byte stream (`family`).
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any

from outlast.errors import TransportFailure
from outlast.http.answer import Answer
from outlast.http.message import BytesBody, StreamBody
from outlast.net.run import run_async, run_sync
from outlast.net.seam import Network

if TYPE_CHECKING:
    from outlast.http.family import Family, FamilyRequest

__all__ = ["AsyncPieces", "SyncPieces", "async_body", "sync_body"]

NO_BODY = BytesBody(b"")  # most requests share it


def sync_body(request: FamilyRequest, family: Family) -> BytesBody | StreamBody:
    """The body of a request for a synchronous transport."""
    stream = request.stream
    if not isinstance(stream, family.sync_stream):
        raise RuntimeError("an async request body needs an AsyncClient and outlast.AsyncTransport")
    try:
        content = request.content
    except family.unread:
        chunks: Iterator[bytes] = iter(stream)
    else:
        return BytesBody(content) if content else NO_BODY

    async def pull() -> bytes | None:
        return next(chunks, None)

    async def end() -> None:
        if isinstance(chunks, Generator):
            chunks.close()

    return StreamBody(pull, end)


def async_body(request: FamilyRequest, family: Family) -> BytesBody | StreamBody:
    """The body of a request for an asynchronous transport."""
    stream = request.stream
    if not isinstance(stream, family.async_stream):
        raise RuntimeError("a sync request body needs a Client and outlast.Transport")
    try:
        content = request.content
    except family.unread:
        chunks: AsyncIterator[bytes] = stream.__aiter__()
    else:
        return BytesBody(content) if content else NO_BODY

    async def pull() -> bytes | None:
        try:
            return await chunks.__anext__()
        except StopAsyncIteration:
            return None

    async def end() -> None:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()

    return StreamBody(pull, end)


class _Pieces:
    """A response's body in pieces. Raises the family's exceptions. `response`: the family's."""

    response: weakref.ref[Any]

    def __init__(
        self, network: Network, answer: Answer, request: FamilyRequest, family: Family
    ) -> None:
        self._network = network
        self._answer = answer
        self._request = request
        self._family = family

    def _close(self) -> None:
        """The response is over, read or not.

        httpx's client has the response and a stream around this one refer to each other: only
        the garbage collector would free them, and every request would pay for that. A response
        that is closed needs that stream no more."""
        self._answer.close()
        response: Any = self.response()
        bound: Any = getattr(getattr(response, "stream", None), "_response", None)
        if bound is not None and bound is response:
            bound.stream = self


class SyncPieces(_Pieces):
    """For synchronous callers."""

    def __iter__(self) -> Iterator[bytes]:
        try:
            while True:
                chunk = self._answer.at_hand()
                if chunk is None:
                    chunk = run_sync(self._network, self._answer.read())
                if not chunk:
                    return
                yield chunk
        except TransportFailure as failure:
            raise self._family.error(failure, self._request) from failure.cause

    close = _Pieces._close


class AsyncPieces(_Pieces):
    """For asynchronous callers."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while True:
                chunk = self._answer.at_hand()
                if chunk is None:
                    chunk = await run_async(self._network, self._answer.read())
                if not chunk:
                    return
                yield chunk
        except TransportFailure as failure:
            raise self._family.error(failure, self._request) from failure.cause

    async def aclose(self) -> None:
        """The response is over, read or not."""
        self._close()
