"""One request and one response, free of any client family.

A body is bytes, which may be sent again, or a stream, which is sent once: it counts as partly
consumed from the moment it is first asked for a chunk, and is never replayed after that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from outlast.policy import Policy
from outlast.target import Origin

if TYPE_CHECKING:
    from outlast.http.family import Family, FamilyRequest
    from outlast.http.trace import Trace

__all__ = ["BytesBody", "Head", "Headers", "Request", "Route", "StreamBody", "Timeouts"]

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]


class BytesBody:
    """A body that stands in memory: it can be sent again, byte for byte."""

    __slots__ = ("data",)
    replayable = True

    def __init__(self, data: bytes) -> None:
        self.data = data


class StreamBody:
    """A body from the caller's iterator. `pull` gives the next chunk, None at the end; `end` lets
    the iterator go, wherever it is."""

    __slots__ = ("_pull", "end", "replayable")

    def __init__(
        self, pull: Callable[[], Awaitable[bytes | None]], end: Callable[[], Awaitable[None]]
    ) -> None:
        self._pull = pull
        self.end = end
        self.replayable = True  # as long as nothing has been taken from it

    async def pull(self) -> bytes | None:
        """The next chunk. What the caller's own code raises passes through."""
        self.replayable = False
        return await self._pull()


class Timeouts(NamedTuple):
    """httpx's four, in seconds; None for no limit."""

    connect: float | None
    read: float | None
    write: float | None
    pool: float | None


class Route(NamedTuple):
    """What a connection may be shared for: an origin, and the name that TLS has verified."""

    origin: Origin
    server_name: str


class Request(NamedTuple):
    """What the engine needs of a request."""

    route: Route
    method: str
    target: bytes
    headers: Headers
    body: BytesBody | StreamBody
    timeouts: Timeouts
    policy: Policy
    safe: bool  # idempotent, or with an Idempotency-Key, or by the policy's word
    trace: Trace | None = None  # who listens, if anybody does
    given: FamilyRequest | None = None  # as the caller made it
    family: Family | None = None  # whose it is


class Head(NamedTuple):
    """The beginning of a response. HTTP/2 has no `reason`."""

    status: int
    headers: Headers
    http_version: bytes
    reason: bytes | None

    def header(self, name: bytes) -> str | None:
        """The first value of header `name` (lower case), or None."""
        for key, value in self.headers:
            if key.lower() == name:
                return value.decode("latin-1")
        return None
