"""The least HTTP/2 server that can answer a GET: frames, windows, and a canned response.

Source: RFC 9113 (frames, flow control), RFC 7541 (the response's header block). It never decodes
a request's headers, so it costs the same whoever asks. Refuses everything but the answer that
its port stands for; a client's error is its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import cast

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STREAMS = 100  # at once on a connection; the least that RFC 9113 section 6.5.2 recommends
WINDOW = 65_535  # RFC 9113 section 6.9.2
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
ACK = END_STREAM = 1
END_HEADERS = 4
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 3, 4, 5


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame."""
    return b"".join(
        (len(payload).to_bytes(3, "big"), bytes((kind, flags)), stream.to_bytes(4, "big"), payload)
    )


def head(size: int) -> bytes:
    """The header block of a 200: an indexed :status, and two literals with indexed names."""
    length, kind = str(size).encode(), b"text/plain"
    return (
        b"\x88\x0f\x0d" + bytes((len(length),)) + length + b"\x0f\x10" + bytes((len(kind),)) + kind
    )


class Http2(asyncio.Protocol):
    """One connection; every request is answered with `size` bytes."""

    transport: asyncio.Transport

    def __init__(self, size: int) -> None:
        self.body = memoryview(bytes(size))
        self.head = head(size)
        self.arrived = b""
        self.greeted = False
        self.window = WINDOW
        self.first_window = WINDOW
        self.largest = 16_384
        self.windows: dict[int, int] = {}  # of streams that are being answered
        self.left: dict[int, int] = {}  # bytes of the body that are to be sent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say what this side allows."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by type
        setting = MAX_CONCURRENT_STREAMS.to_bytes(2, "big") + STREAMS.to_bytes(4, "big")
        self.transport.write(frame(SETTINGS, 0, 0, setting))

    def data_received(self, data: bytes) -> None:
        """Take in all frames that are whole, then send what the windows allow."""
        self.arrived += data
        if not self.greeted:
            if len(self.arrived) < len(PREFACE):
                return
            if not self.arrived.startswith(PREFACE):
                self.transport.abort()
                return
            self.arrived = self.arrived[len(PREFACE) :]
            self.greeted = True
        out: list[bytes] = []
        for kind, flags, stream, payload in self.frames():
            self.take(kind, flags, stream, payload, out)
        self.send(out)
        if out:
            self.transport.write(b"".join(out))

    def frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        """The whole frames of what has arrived."""
        arrived, at = self.arrived, 0
        while len(arrived) - at >= 9:
            end = at + 9 + int.from_bytes(arrived[at : at + 3], "big")
            if len(arrived) < end:
                break
            stream = int.from_bytes(arrived[at + 5 : at + 9], "big") & 0x7FFFFFFF
            yield arrived[at + 3], arrived[at + 4], stream, arrived[at + 9 : end]
            at = end
        self.arrived = arrived[at:]

    def take(self, kind: int, flags: int, stream: int, payload: bytes, out: list[bytes]) -> None:
        """What a frame asks for. One that may be ignored is."""
        if kind == HEADERS and flags & END_STREAM:
            out.append(frame(HEADERS, END_HEADERS, stream, self.head))
            self.windows[stream] = self.first_window
            self.left[stream] = len(self.body)
        elif kind == WINDOW_UPDATE:
            more = int.from_bytes(payload, "big")
            if not stream:
                self.window += more
            elif stream in self.windows:
                self.windows[stream] += more
        elif kind == RST_STREAM:
            self.forget(stream)
        elif kind == SETTINGS and not flags & ACK:
            self.settle(payload)
            out.append(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            out.append(frame(PING, ACK, 0, payload))

    def settle(self, payload: bytes) -> None:
        """The client's settings."""
        for at in range(0, len(payload), 6):
            name = int.from_bytes(payload[at : at + 2], "big")
            value = int.from_bytes(payload[at + 2 : at + 6], "big")
            if name == INITIAL_WINDOW_SIZE:
                for stream in self.windows:
                    self.windows[stream] += value - self.first_window
                self.first_window = value
            elif name == MAX_FRAME_SIZE:
                self.largest = value

    def send(self, out: list[bytes]) -> None:
        """Stream by stream, the oldest first, what its window and the connection's allow."""
        for stream in list(self.left):
            while self.window > 0 and (left := self.left.get(stream, 0)):
                size = min(left, self.largest, self.window, self.windows[stream])
                if size <= 0:
                    break
                self.window -= size
                self.windows[stream] -= size
                self.left[stream] = left - size
                last = END_STREAM if size == left else 0
                out.append(frame(DATA, last, stream, bytes(self.body[:size])))
                if last:
                    self.forget(stream)

    def forget(self, stream: int) -> None:
        """A stream is over."""
        self.windows.pop(stream, None)
        self.left.pop(stream, None)
