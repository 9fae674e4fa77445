"""What a pod runs that speaks HTTP/2 (without TLS, by prior knowledge), as a raw handler.

It counts a request when it has arrived whole, answers with its id and the length of its body, and
does what its query asks for, as `outlast.testing.pod_http` does; `drop` and `reset` end the stream.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from hyperframe.frame import GoAwayFrame

from outlast.testing.pod_http import Behaviour, answer, behaviour_of

__all__ = ["Books", "serve_h2"]

Raw = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Books:
    """What all pods have seen: how often each request, by its id, and breaches of the protocol."""

    applied: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)


def serve_h2(books: Books, goaway: int, streams: int) -> Raw:
    """A handler that leaves (GOAWAY) after `goaway` requests, 0 for never, and takes `streams` at
    once."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = _Session(writer, books, goaway, streams)
        try:
            await session.run(reader)
        except h2.exceptions.ProtocolError as error:
            books.complaints.append(repr(error))
        finally:
            for task in session.answers:
                task.cancel()

    return serve


class _Session:
    """One connection."""

    def __init__(
        self, writer: asyncio.StreamWriter, books: Books, goaway: int, streams: int
    ) -> None:
        self._writer = writer
        self._applied = books.applied
        self._left = goaway or 1 << 30
        self._last = 0  # the last stream that is served, once it leaves
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self._h2 = h2.connection.H2Connection(config)
        most = h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS
        self._h2.local_settings = h2.settings.Settings(False, {most: streams})
        self._h2.initiate_connection()
        self._requests: dict[int, tuple[dict[str, str], int]] = {}
        self.answers: set[asyncio.Task[None]] = set()

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Serve to the connection's end."""
        self._flush()
        while data := await reader.read(65_536):
            for event in self._h2.receive_data(data):
                self._hear(event)
            self._flush()
            if self._done():
                return

    def _hear(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived) and event.stream_id:
            head = {str(name): str(value) for name, value in event.headers or []}
            self._requests[event.stream_id] = head, 0
        elif isinstance(event, h2.events.DataReceived) and event.stream_id:
            self._h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
            head, length = self._requests[event.stream_id]
            self._requests[event.stream_id] = head, length + len(event.data or b"")
        elif isinstance(event, h2.events.StreamReset) and event.stream_id:
            self._requests.pop(event.stream_id, None)
        elif isinstance(event, h2.events.StreamEnded) and event.stream_id:
            self._take(event.stream_id)

    def _take(self, stream: int) -> None:
        """A request has arrived whole."""
        head, length = self._requests.pop(stream)
        if self._last and stream > self._last:
            return  # it is leaving: whoever sent this has been told
        self._applied[head["x-request-id"]] += 1
        self._left -= 1
        if not self._left:
            self._last = stream
            self._flush()
            self._writer.write(GoAwayFrame(last_stream_id=stream).serialize())
        task = asyncio.ensure_future(self._answer(stream, head, length))
        self.answers.add(task)
        task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self.answers.discard(task)
        if self._done():
            self._writer.close()

    def _done(self) -> bool:
        """Whether it is leaving, and everybody before its last stream is served."""
        return (
            bool(self._last)
            and not self.answers
            and not any(stream <= self._last for stream in self._requests)
        )

    async def _answer(self, stream: int, head: dict[str, str], length: int) -> None:
        wanted = behaviour_of(head[":path"])
        await asyncio.sleep(wanted.delay)
        try:
            self._send(stream, wanted, head, length)
        except h2.exceptions.ProtocolError:  # the client wants it no more
            return
        self._flush()

    def _send(self, stream: int, wanted: Behaviour, head: dict[str, str], length: int) -> None:
        if wanted.drop or wanted.reset:
            self._h2.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
            return
        told = json.dumps({"id": head["x-request-id"], "length": length}).encode()
        fields, body = answer(wanted, told)
        named: Any = [(":status", str(wanted.status)), *fields]
        self._h2.send_headers(stream, named)
        body = b"" if head[":method"] == "HEAD" else body
        size = self._h2.max_outbound_frame_size
        for at in range(0, len(body) // 2 if wanted.stall else len(body), size):
            self._h2.send_data(stream, body[at : at + size])
        if not wanted.stall:
            self._h2.end_stream(stream)

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and not self._writer.is_closing():
            self._writer.write(data)
