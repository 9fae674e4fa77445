"""One try of a request: a connection from the pool or a dial, the request out, the head in.

`go` can be called again after it said SUSPECT: it goes on where it was. What an attempt holds (a
place in the pool, a connection) goes back at once when it ends, however it ends; a connection
that did not finish its exchange is never used again.

The decision whether to try again is `core.call`'s. Here stands only how far the request got.
"""

from __future__ import annotations

from enum import Enum

from outlast.core.classify import Progress
from outlast.core.watch import ResponseWatch, holds_user_timeout
from outlast.errors import TransportFailure
from outlast.http.call_context import CallContext
from outlast.http.checkout import check_out
from outlast.http.connection import Connection
from outlast.http.h1 import NeedData, ProtocolError
from outlast.http.message import BytesBody, Head, StreamBody
from outlast.net.seam import READ, WRITE, Wait

__all__ = ["Attempt", "Outcome"]

CHUNK = 65_536


class Outcome(Enum):
    """How a `go` ended."""

    ANSWERED = "answered"
    SUSPECT = "suspect"
    FAILED = "failed"


class _Suspect(Exception):
    """The watch has found that the peer's kernel never acknowledged the request."""


class Attempt:
    """One try. One owner; not thread-safe."""

    __slots__ = (
        "broken",
        "call",
        "connection",
        "failure",
        "head",
        "lifted",
        "mark",
        "number",
        "place",
        "progress",
        "read_until",
        "rest",
        "sent",
        "used",
        "watch",
        "watched",
    )

    def __init__(self, call: CallContext, number: int, *, place: bool = False) -> None:
        self.call = call
        self.number = number
        self.place = place  # a place in the pool, taken over from a suspect connection
        self.connection: Connection | None = None
        self.used: Connection | None = None  # the same, kept for the report
        self.head: Head | None = None
        self.progress = Progress.NOT_SENT
        self.failure: TransportFailure | None = None
        self.rest: memoryview | None = None  # what is still to be written; None: not begun
        self.sent = False
        self.broken: OSError | None = None  # the write side has failed; an answer may still come
        self.mark = 0
        self.read_until: float | None = None
        self.watch: ResponseWatch | None = None
        self.watched = call.watched
        self.lifted = False  # the user timeout is off, because the peer lives but does not read

    async def go(self) -> Outcome:
        """Run to the response's head, or until the attempt is suspect or has failed."""
        try:
            if self.connection is None:
                self.connection = self.used = await self._check_out()
            if not self.sent:
                await self._send(self.connection)
            self.head = await self._receive(self.connection)
        except _Suspect:
            return Outcome.SUSPECT
        except TransportFailure as failure:
            self.failure = failure
            self.drop()
            return Outcome.FAILED
        except BaseException:
            self.drop()
            raise
        self._drop_limit(self.connection)
        return Outcome.ANSWERED

    async def _check_out(self) -> Connection:
        place, self.place = self.place, False
        return await check_out(self.call, self.number, place=place)

    def drop(self) -> None:
        """End what is under way, at once. Idempotent."""
        if self.place:
            self.place = False
            self.call.engine.pool.free_place()
        connection, self.connection = self.connection, None
        if connection is not None:
            self.call.engine.discard(connection)

    # -- out -------------------------------------------------------------------------------

    async def _send(self, connection: Connection) -> None:
        body = self.call.request.body
        if self.rest is None:
            self.mark = connection.stream.written
            self.rest = memoryview(self._first_bytes(connection))
        early = await self._write(connection)
        if isinstance(body, StreamBody) and not early:
            await self._stream(connection, body)
        self.sent = True
        self.watch = None  # from here on it is the response that is waited for

    def _first_bytes(self, connection: Connection) -> bytes:
        """The request's head, and its body too if that stands in memory."""
        request, exchange = self.call.request, connection.exchange
        try:
            parts = [exchange.request(request.method, request.target, request.headers)]
            if isinstance(request.body, BytesBody):
                if request.body.data:
                    parts.extend(exchange.data(request.body.data))
                parts.append(exchange.end())
        except ProtocolError as error:
            raise TransportFailure("LocalProtocolError", str(error), error, final=True) from error
        return b"".join(parts)

    async def _stream(self, connection: Connection, body: StreamBody) -> None:
        """Send the caller's own chunks. While the caller's code runs nobody watches the socket,
        so no user timeout may stand on it (DESIGN section 7)."""
        self._limit(connection, 0.0)
        try:
            while (chunk := await body.pull()) is not None:
                if chunk and await self._write_parts(connection, chunk):
                    return
            await self._write_parts(connection, None)
        finally:
            self._limit(connection, self.call.policy.user_timeout)

    async def _write_parts(self, connection: Connection, chunk: bytes | None) -> bool:
        exchange = connection.exchange
        try:
            framed = [exchange.end()] if chunk is None else exchange.data(chunk)
        except ProtocolError as error:
            raise TransportFailure("LocalProtocolError", str(error), error, final=True) from error
        for part in framed:
            self.rest = memoryview(part)
            if await self._write(connection):
                return True
        return False

    async def _write(self, connection: Connection) -> bool:
        """Hand over what is left. True: stop, the answer is coming before the request's end."""
        stream = connection.stream
        try:
            while self.rest or not stream.flush():
                count = stream.send(self.rest) if self.rest else 0
                if count and self.rest:
                    self.rest = self.rest[count:]
                elif await self._blocked(connection):
                    return True
        except OSError as error:
            return self._write_failed(connection, error)
        finally:
            self._note_sent(connection)
        return False

    def _note_sent(self, connection: Connection) -> None:
        if self.progress is Progress.NOT_SENT and connection.stream.written > self.mark:
            self.progress = Progress.SENT
            self.call.machine.written()

    def _write_failed(self, connection: Connection, error: OSError) -> bool:
        """A server may answer and close before it has read everything: look for that answer."""
        self._note_sent(connection)
        if self.progress is Progress.NOT_SENT:
            raise TransportFailure("WriteError", f"write to {connection.address}: {error}", error)
        self.broken = error
        return True

    async def _blocked(self, connection: Connection) -> bool:
        """The peer does not take more now. True if it has something to say."""
        self._note_sent(connection)
        stream = connection.stream
        until, limit = self.call.until(self.call.request.timeouts.write)
        while True:
            now = self.call.now()
            if now >= until:
                message = f"write to {connection.address} timed out after {limit}"
                raise TransportFailure("WriteTimeout", message, final=True)
            watch = self._watch(connection, now)
            if await Wait(((stream, READ | WRITE),), min(until, watch.next_look)):
                break
            self._look(connection, watch)
        data = stream.recv(CHUNK)
        if data is not None:
            connection.exchange.feed(data)
        return data is not None

    # -- in --------------------------------------------------------------------------------

    async def _receive(self, connection: Connection) -> Head:
        exchange = connection.exchange
        while True:
            try:
                head = exchange.head()
            except ProtocolError as error:
                raise self._bad_response(connection, error) from error
            if not isinstance(head, NeedData):
                self.progress = Progress.RESPONSE_BEGUN
                return head
            data = await self._read(connection)
            if not data:
                raise self._closed(connection)
            exchange.feed(data)
            self.read_until = None

    async def _read(self, connection: Connection) -> bytes:
        """The next bytes of the response, watching the peer's kernel meanwhile."""
        stream = connection.stream
        until, limit = self.call.until(self.call.request.timeouts.read)
        until = self.read_until = self.read_until or until
        while True:
            watch = self._watch(connection, self.call.now())
            ready = await Wait(((stream, READ),), min(until, watch.next_look))
            try:
                data = stream.recv(CHUNK) if ready else None
            except OSError as error:
                raise self._read_failed(connection, error) from error
            if data is not None:
                return data
            if self.call.now() >= until:
                message = (
                    f"no response from {connection.address} within {limit}; the request was sent"
                )
                told = f"{message}{self._acknowledged(connection)}"
                raise TransportFailure("ReadTimeout", told, final=True)
            if not ready:
                self._look(connection, watch)

    def _acknowledged(self, connection: Connection) -> str:
        """What the peer's kernel has said of the request, in words."""
        state = connection.stream.send_state()
        if state is None:
            return ""
        if state.acked <= self.mark:
            return " and never acknowledged by the peer's kernel"
        return " and acknowledged by the peer's kernel" if not state.unacked else ""

    def _closed(self, connection: Connection) -> TransportFailure:
        if self.broken is not None:
            return self._read_failed(connection, self.broken)
        if connection.exchange.begun:
            self.progress = Progress.RESPONSE_BEGUN
        text = "Server disconnected without sending a response."
        return TransportFailure("RemoteProtocolError", f"{text} ({connection.address})")

    def _bad_response(self, connection: Connection, error: Exception) -> TransportFailure:
        self.progress = Progress.RESPONSE_BEGUN
        return TransportFailure("RemoteProtocolError", f"{error} ({connection.address})", error)

    def _read_failed(self, connection: Connection, error: OSError) -> TransportFailure:
        if connection.exchange.begun:
            self.progress = Progress.RESPONSE_BEGUN
        kind, verb = (
            ("ReadError", "read from") if self.broken is None else ("WriteError", "write to")
        )
        cause = self.broken or error
        return TransportFailure(
            kind, f"{verb} {connection.address}: {cause}; {self.progress}", cause
        )

    # -- the watch -------------------------------------------------------------------------

    def _watch(self, connection: Connection, now: float) -> ResponseWatch:
        if self.watch is None:
            self.watch = ResponseWatch(now, connection.rtt, self.mark)
        return self.watch

    def _look(self, connection: Connection, watch: ResponseWatch) -> None:
        """Read the kernel's state once; raise if the request is suspect."""
        now = self.call.now()
        if now < watch.next_look:
            return
        state = connection.stream.send_state()
        suspect = watch.look(state, now)
        wanted = self.call.policy.user_timeout
        if state is not None and wanted:
            self.lifted = not holds_user_timeout(state, wanted)
            self._limit(connection, 0.0 if self.lifted else wanted)
        if suspect and self.watched:
            self.watched = False  # once: a second attempt is all that this evidence is good for
            raise _Suspect

    def _limit(self, connection: Connection, seconds: float) -> None:
        if self.call.policy.user_timeout:
            connection.stream.set_user_timeout(seconds)

    def _drop_limit(self, connection: Connection) -> None:
        """Put the user timeout back if the watch has lifted it."""
        if self.lifted:
            self.lifted = False
            self._limit(connection, self.call.policy.user_timeout)
