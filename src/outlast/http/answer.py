"""The answer of a call: its head, and its body as it comes in.

The body is read in the caller's own pace, each wait bounded by the read timeout and the call's
deadline. When it has ended its connection goes back to the pool; when it is left unfinished, or
breaks, the connection is closed. A body that is under way is never asked for again elsewhere.
"""

from __future__ import annotations

from outlast.core.classify import Progress
from outlast.core.report import Report
from outlast.errors import TransportFailure
from outlast.http.call_context import CallContext
from outlast.http.connection import Connection
from outlast.http.h1 import NeedData, ProtocolError
from outlast.http.message import Head
from outlast.net.seam import READ, Wait

__all__ = ["Answer"]

CHUNK = 65_536


class Answer:
    """A response under way. One owner; `close` may be called more than once."""

    __slots__ = ("_call", "_connection", "_kept", "head")

    def __init__(self, call: CallContext, head: Head, connection: Connection) -> None:
        self._call = call
        self._connection: Connection | None = connection
        self._kept: list[bytes] = []  # what `hold` has read ahead
        self.head = head

    @property
    def report(self) -> Report:
        """The call's time line."""
        return self._call.report

    async def read(self) -> bytes:
        """The next piece of the body; b"" at its end. Raises TransportFailure."""
        if self._kept:
            return self._kept.pop(0)
        connection = self._connection
        if connection is None:
            return b""
        try:
            return await self._next(connection)
        except TransportFailure as failure:
            failure.report = self.report
            self.close()
            raise
        except BaseException:
            self.close()
            raise

    async def hold(self, most: int) -> bool:
        """Read the whole body ahead, if it has no more than `most` bytes; False if it has more.

        Then the connection is free, and the answer can still be given to the caller.
        """
        size = 0
        kept: list[bytes] = []
        while size <= most:
            piece = await self.read()
            if not piece:
                self._kept = kept
                return True
            kept.append(piece)
            size += len(piece)
        self._kept = kept
        return False

    def close(self) -> None:
        """End the exchange: back to the pool if it is complete, else closed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._call.engine.release(connection)

    async def _next(self, connection: Connection) -> bytes:
        exchange = connection.exchange
        while True:
            try:
                piece = exchange.body()
            except ProtocolError as error:
                raise self._failure("RemoteProtocolError", str(error), error) from error
            if not isinstance(piece, NeedData):
                if not piece:
                    self.close()
                return piece
            exchange.feed(await self._receive(connection))

    async def _receive(self, connection: Connection) -> bytes:
        stream = connection.stream
        call = self._call
        until, limit = call.until(call.request.timeouts.read)
        while True:
            try:
                data = stream.recv(CHUNK)
            except OSError as error:
                message = f"read from {connection.address}: {error}"
                raise self._failure("ReadError", message, error) from error
            if data is not None:
                return data
            if call.now() >= until:
                message = f"no more of the body from {connection.address} within {limit}"
                raise self._failure("ReadTimeout", message, None)
            await Wait(((stream, READ),), until)

    def _failure(self, kind: str, message: str, cause: BaseException | None) -> TransportFailure:
        connection = self._connection
        if connection is not None:
            self.report.add(
                self._call.now(),
                "response",
                message,
                address=str(connection.address),
                local_port=connection.stream.local_port,
                errno=getattr(cause, "errno", None),
                progress=Progress.BODY,
            )
        return TransportFailure(kind, f"{message}; {Progress.BODY}: never repeated", cause)
