"""What a pod answers: a small HTTP/1.1 server whose behaviour the request itself asks for.

A plain GET that arrives whole is answered by hand (a lab's latency figures rest on it); anything
else goes through h11, see `pod_exchange`. Requests on one connection are served one after another.
A request counts as applied when it has arrived whole.

Query keys of a request, freely combined: `delay` (seconds before the answer), `status`, `size`
(bytes of the answer's body), `retry_after` (header); with the value 1 `close` (close after the
answer), `drop` (close without an answer), `reset` (RST without an answer), `stall` (half of the
answer, then silence). Other keys are for the caller's own use and change nothing.

Source: RFC 9112 (framing), RFC 9110 section 15 (bodies of statuses). Refuses HTTP/2 and upgrades.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from outlast.testing.pod_exchange import Exchange

AsgiApp = Callable[[dict[str, Any], Any, Any], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_FLAGS = ("close", "drop", "reset", "stall")


class Tally:
    """What a pod has seen and applied since its process began."""

    def __init__(self, pod: str) -> None:
        self.pod = pod
        self.name = pod.encode()
        self.requests = 0
        self.connections = 0
        self.open = 0
        self.methods: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()

    def apply(self, method: str, request_id: str | None) -> int:
        """Count one request; returns its number."""
        self.requests += 1
        self.methods[method] += 1
        if request_id is not None:
            self.ids[request_id] += 1
        return self.requests

    def as_dict(self) -> dict[str, Any]:
        """The same for the lab, as `pod_process.Counts`."""
        return {
            "requests": self.requests,
            "connections": self.connections,
            "open": self.open,
            "methods": dict(self.methods),
            "ids": dict(self.ids),
        }


@dataclass(frozen=True)
class Behaviour:
    """What one request asked the pod to do."""

    delay: float = 0.0
    status: int = 200
    size: int | None = None
    retry_after: str | None = None
    close: bool = False
    drop: bool = False
    reset: bool = False
    stall: bool = False

    @property
    def plain(self) -> bool:
        """Whether the answer can be given at once and whole."""
        return not (self.delay or self.drop or self.reset or self.stall)


_PLAIN = Behaviour()


def behaviour_of(target: str) -> Behaviour:
    """Read a request's target; a value that makes no sense raises ValueError."""
    query = target.partition("?")[2]
    if not query:
        return _PLAIN
    keys = dict(parse_qsl(query, keep_blank_values=True))
    size = int(keys["size"]) if "size" in keys else None
    flags = {flag: keys.get(flag, "0") != "0" for flag in _FLAGS}
    delay, status = float(keys.get("delay", "0")), int(keys.get("status", "200"))
    if not (0 <= delay < 1e6 and 200 <= status <= 599 and (size is None or 0 <= size <= 1 << 30)):
        raise ValueError("right: delay=0.5 (seconds), status=200..599, size=1048576 (bytes)")
    return Behaviour(delay, status, size, keys.get("retry_after"), **flags)


def answer(wanted: Behaviour, body: bytes) -> tuple[Headers, bytes]:
    """The headers (without those about the connection) and the body of the built-in answer."""
    if wanted.size is not None:
        body = b"x" * wanted.size
    kind = b"application/json" if wanted.size is None else b"application/octet-stream"
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    if wanted.status in (204, 304):  # these have no body (RFC 9110 sections 15.3.5 and 15.4.5)
        headers, body = [], b""
    if wanted.retry_after is not None:
        headers.append((b"retry-after", wanted.retry_after.encode("latin-1")))
    return headers, body


def misbehave(transport: asyncio.Transport, wanted: Behaviour) -> bool:
    """End the connection instead of answering, where the request asked for it."""
    if wanted.reset:
        # Linger on with 0 s makes the close send RST (socket(7)).
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        transport.abort()
    elif wanted.drop:
        transport.close()
    return wanted.reset or wanted.drop


class PodProtocol(asyncio.Protocol):
    """One connection to a pod."""

    def __init__(self, tally: Tally, app: AsgiApp | None) -> None:
        self._tally = tally
        self._app = app
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        self._waiting = b""
        self._exchange: Exchange | None = None
        self._stopping = False

    def stop(self) -> None:
        """Serve no further request: close now, or after the answer under way."""
        self._stopping = True
        if self._exchange is not None:
            self._exchange.stop()
        elif self._task is None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: a client has connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._tally.connections += 1
        self._tally.open += 1

    def connection_lost(self, _exc: Exception | None) -> None:
        """asyncio: the connection is gone; so is the answer under way."""
        self._tally.open -= 1
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of a request, or of several."""
        if self._exchange is not None:
            self._exchange.feed(data)
        elif self._task is not None:
            self._waiting += data
        elif self._app is not None or not self._answer_simple(data):
            self._switch(data)

    def eof_received(self) -> bool:
        """asyncio: the client sends no more. The answer under way is finished, but not over TLS,
        where asyncio closes."""
        if self._exchange is not None:
            self._exchange.feed(b"")
        return self._task is not None and self._transport.get_extra_info("ssl_object") is None

    def _answer_simple(self, data: bytes) -> bool:
        """Answer one whole GET without a body; False when the bytes are anything else."""
        found = _simple_get(data)
        if found is None:
            return False
        wanted, request_id, close = found
        number = self._tally.apply("GET", request_id)
        if wanted.plain:
            self._transport.write(self._render(wanted, number, close))
            if close:
                self._transport.close()
        else:
            self._task = asyncio.ensure_future(self._answer_later(wanted, number, close))
        return True

    async def _answer_later(self, wanted: Behaviour, number: int, close: bool) -> None:
        await asyncio.sleep(wanted.delay)
        if not misbehave(self._transport, wanted):
            whole = self._render(wanted, number, close)
            if wanted.stall:
                self._transport.write(whole[: len(whole) // 2])
                await asyncio.get_running_loop().create_future()  # until the client gives up
            self._transport.write(whole)
            if close or self._stopping:
                self._transport.close()
        self._task = None
        if self._waiting and not self._transport.is_closing():
            data, self._waiting = self._waiting, b""
            self.data_received(data)

    def _render(self, wanted: Behaviour, number: int, close: bool) -> bytes:
        headers, body = answer(wanted, b'{"pod": "%s", "n": %d}' % (self._tally.name, number))
        head = b"".join(b"%s: %s\r\n" % pair for pair in headers)
        last = b"connection: close\r\n\r\n" if close else b"\r\n"
        return b"HTTP/1.1 %d \r\n" % wanted.status + head + last + body

    def _switch(self, data: bytes) -> None:
        """Hand the connection, from `data` on, to h11."""
        from outlast.testing.pod_exchange import Exchange

        self._exchange = Exchange(self._transport, self._tally, self._app)
        self._exchange.feed(data)
        self._task = asyncio.ensure_future(self._exchange.run())


def _simple_get(data: bytes) -> tuple[Behaviour, str | None, bool] | None:
    """Behaviour, request id and close of one whole plain GET; None for anything else."""
    if data[:5] != b"GET /" or data.find(b"\r\n\r\n") != len(data) - 4:
        return None
    line, _, rest = data.partition(b"\r\n")
    headers = b"\r\n" + rest.lower()
    if line[-9:] != b" HTTP/1.1" or b"\r\ncontent-length:" in headers:
        return None
    if b"\r\ntransfer-encoding:" in headers or b"\r\nexpect:" in headers:
        return None
    try:
        wanted = behaviour_of(line[4:-9].decode("ascii"))
    except ValueError:  # h11's way has the words for it
        return None
    request_id = None
    at = headers.find(b"\r\nx-request-id:")
    if at >= 0:  # `headers` is longer than `rest` by two bytes at its start
        start = at + len(b"x-request-id:")
        request_id = rest[start : rest.index(b"\r\n", start)].strip().decode("latin-1")
    return wanted, request_id, wanted.close or b"\r\nconnection: close" in headers
