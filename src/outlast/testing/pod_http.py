"""What a pod answers: a small HTTP/1.1 server whose behaviour the request itself asks for.

A plain GET that arrives whole is answered by hand (a lab's latency figures rest on it); anything else
goes through h11. Requests on one connection are served one after another. A request counts as applied
when it has arrived whole.

Query keys of a request, freely combined: `delay` (seconds before the answer), `status`, `size` (bytes of
the answer's body), `retry_after` (header), `close` (close after the answer), `drop` (close without an
answer), `reset` (RST without an answer), `stall` (half of the answer, then silence). Other keys are for
the caller's own use and change nothing.

Source: RFC 9112 (framing, through h11). Refuses HTTP/2, upgrades and trailers.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import h11

    AsgiApp = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class Tally:
    """What a pod has seen and applied since its process began."""

    def __init__(self, pod: str) -> None:
        self.pod = pod
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
    size: int = -1
    retry_after: str | None = None
    close: bool = False
    drop: bool = False
    reset: bool = False
    stall: bool = False


PLAIN = Behaviour()


def behaviour_of(target: str) -> Behaviour:
    """Read a request target; a number that is none raises ValueError."""
    _, _, query = target.partition("?")
    if not query:
        return PLAIN
    keys = dict(parse_qsl(query, keep_blank_values=True))
    return Behaviour(
        delay=float(keys.get("delay", "0")),
        status=int(keys.get("status", "200")),
        size=int(keys.get("size", "-1")),
        retry_after=keys.get("retry_after"),
        **{flag: keys.get(flag, "0") != "0" for flag in ("close", "drop", "reset", "stall")},
    )


class PodProtocol(asyncio.Protocol):
    """One connection to a pod."""

    def __init__(self, tally: Tally, app: AsgiApp | None) -> None:
        self._tally = tally
        self._app = app
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        self._waiting = b""
        self._h11: H11Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._tally.connections += 1
        self._tally.open += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._tally.open -= 1
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._h11 is not None:
            self._h11.feed(data)
        elif self._task is not None or not self._answer_simple(data):
            self._waiting += data
            if self._task is None:
                self._switch()

    def eof_received(self) -> bool:
        if self._h11 is not None:
            self._h11.feed(b"")
        return self._task is not None  # finish the answer under way

    def _answer_simple(self, data: bytes) -> bool:
        """Answer a whole GET without a body; False when the bytes are anything else."""
        if self._app is not None or data[:5] != b"GET /" or data[-4:] != b"\r\n\r\n":
            return False
        if data.count(b"\r\n\r\n") != 1:
            return False
        line, _, rest = data.partition(b"\r\n")
        headers = b"\r\n" + rest.lower()
        if line[-9:] != b" HTTP/1.1" or b"\r\ncontent-length:" in headers:
            return False
        if b"\r\ntransfer-encoding:" in headers or b"\r\nexpect:" in headers:
            return False
        try:
            wanted = behaviour_of(line[4:-9].decode("ascii"))
        except ValueError:
            return False
        number = self._tally.apply("GET", _header(rest, headers, b"\r\nx-request-id:"))
        close = wanted.close or b"\r\nconnection: close" in headers
        if wanted.delay or wanted.drop or wanted.reset or wanted.stall:
            self._task = asyncio.ensure_future(self._answer_later(wanted, number, close))
        else:
            self._write(wanted, number, close)
        return True

    async def _answer_later(self, wanted: Behaviour, number: int, close: bool) -> None:
        await asyncio.sleep(wanted.delay)
        if not misbehave(self._transport, wanted):
            if wanted.stall:
                whole = _render(wanted, answer_body(self._tally, wanted, number), close)
                self._transport.write(whole[: len(whole) // 2])
                await asyncio.get_running_loop().create_future()  # until the client gives up
            self._write(wanted, number, close)
        self._task = None
        if self._waiting and not self._transport.is_closing():
            data, self._waiting = self._waiting, b""
            self.data_received(data)

    def _write(self, wanted: Behaviour, number: int, close: bool) -> None:
        self._transport.write(_render(wanted, answer_body(self._tally, wanted, number), close))
        if close:
            self._transport.close()

    def _switch(self) -> None:
        """Hand the rest of the connection to h11."""
        from outlast.testing.pod_exchange import H11Side

        self._h11 = H11Side(self._transport, self._tally, self._app)
        self._task = asyncio.ensure_future(self._h11.run())
        data, self._waiting = self._waiting, b""
        self._h11.feed(data)


def answer_body(tally: Tally, wanted: Behaviour, number: int, **more: object) -> bytes:
    """The JSON that names the pod, or `size` bytes of filling."""
    if wanted.size >= 0:
        return b"x" * wanted.size
    if not more:
        return b'{"pod": "%s", "n": %d}' % (tally.pod.encode(), number)
    return json.dumps({"pod": tally.pod, "n": number, **more}).encode()


def answer_headers(wanted: Behaviour, body: bytes) -> list[tuple[bytes, bytes]]:
    """The headers of the built-in answer, without those about the connection."""
    kind = b"application/json" if wanted.size < 0 else b"application/octet-stream"
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    if wanted.retry_after is not None:
        headers.append((b"retry-after", wanted.retry_after.encode("latin-1")))
    return headers


def misbehave(transport: asyncio.Transport, wanted: Behaviour) -> bool:
    """End the connection instead of answering, where the request asked for it."""
    if wanted.reset:
        sock = transport.get_extra_info("socket")
        # Linger on with 0 s makes the close send RST (socket(7)).
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    elif wanted.drop:
        transport.close()
    return wanted.reset or wanted.drop


def _render(wanted: Behaviour, body: bytes, close: bool) -> bytes:
    head = b"".join(b"%s: %s\r\n" % pair for pair in answer_headers(wanted, body))
    last = b"connection: close\r\n\r\n" if close else b"\r\n"
    return b"HTTP/1.1 %d \r\n" % wanted.status + head + last + body


def _header(rest: bytes, lowered: bytes, key: bytes) -> str | None:
    """The value of a header in `rest`, found by its lower-case `key` in `lowered` (2 bytes longer)."""
    at = lowered.find(key)
    if at < 0:
        return None
    start = at + len(key) - 2
    return rest[start : rest.index(b"\r\n", start)].strip().decode("latin-1")
