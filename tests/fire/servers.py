"""What pods run in the replayed reports: servers that close idle connections, or count requests.

`keeping(...)` speaks just enough HTTP/1.1 for requests with a Content-Length or without a body, and
answers with the request's id. `leaving(...)` speaks HTTP/2 and leaves in the middle.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import h2.config
import h2.connection
import h2.events
from hyperframe.frame import GoAwayFrame

__all__ = ["keeping", "leaving"]

Raw = Callable[[Any, Any], Awaitable[None]]


def keeping(
    seen: Counter[str],
    *,
    idle: float | None = None,
    most: int | None = None,
    dies: Callable[[str], str] = lambda _: "",
) -> Raw:
    """A server that closes a connection after `idle` seconds without a request, or after `most`
    requests. `dies(id)` says of a request: "before" or "after" it was carried out the connection
    is closed without an answer; "" for neither. `seen` counts those that were carried out.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = 0
        while number != most:
            number += 1
            name = await _request(reader, idle)
            death = dies(name) if name else "before"
            if death == "before":
                return
            seen[name] += 1
            if death == "after":
                return
            body = name.encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    return serve


async def _request(reader: asyncio.StreamReader, idle: float | None) -> str:
    """Read a request; its id, or "" if none has come."""
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), idle)
    except (asyncio.TimeoutError, asyncio.IncompleteReadError):
        return ""
    fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:-2])
    await reader.readexactly(int(fields.get(b"content-length", b"0")))
    return fields[b"x-request-id"].decode()


def leaving(seen: Counter[str], served: Callable[[int], int | None], *, together: int) -> Raw:
    """An HTTP/2 server. `served(n)` says of its n-th connection (from 1): None, and every request
    is answered; or k, and when `together` requests are there it says that it has acted on the
    first k (GOAWAY), and closes without an answer. `seen` counts what it has acted on.
    """
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        session = _Leaving(writer, seen, served(connections), together)
        while not session.gone and (data := await reader.read(65_536)):
            session.take(data)

    return serve


class _Leaving:
    def __init__(
        self, writer: asyncio.StreamWriter, seen: Counter[str], served: int | None, together: int
    ) -> None:
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self._h2 = h2.connection.H2Connection(config)
        self._h2.initiate_connection()
        self._writer = writer
        self._seen = seen
        self._served = served
        self._together = together
        self._heads: dict[int, str] = {}
        self.gone = False
        self._flush()

    def take(self, data: bytes) -> None:
        for event in self._h2.receive_data(data):
            if isinstance(event, h2.events.RequestReceived) and event.stream_id:
                head = {str(name): str(value) for name, value in event.headers or []}
                self._heads[event.stream_id] = head["x-request-id"]
                self._begun()
            elif isinstance(event, h2.events.StreamEnded) and event.stream_id and not self.gone:
                self._ended(event.stream_id)
        self._flush()

    def _begun(self) -> None:
        if self._served is None or len(self._heads) < self._together or self.gone:
            return
        self.gone = True
        acted_on = sorted(self._heads)[: self._served]
        self._seen.update(self._heads[stream] for stream in acted_on)
        self._flush()
        last = acted_on[-1] if acted_on else 0
        self._writer.write(GoAwayFrame(last_stream_id=last).serialize())

    def _ended(self, stream: int) -> None:
        if self._served is None:
            name = self._heads[stream]
            self._seen[name] += 1
            self._h2.send_headers(stream, [(":status", "200")])
            self._h2.send_data(stream, name.encode(), end_stream=True)

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data:
            self._writer.write(data)
