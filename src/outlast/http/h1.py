"""HTTP/1.1 over h11: one exchange after another on a stream.

h11 frames; this module moves bytes and says where a request stands. Source: RFC 9112. It
refuses to guess: what h11 calls a protocol error is one, and bytes after a response end the
connection's use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import h11

from outlast.http.exchange import NEED_DATA, NeedData, PeerClosed
from outlast.http.message import Head, Headers
from outlast.net.seam import READ, WRITE, Interest, Stream

__all__ = ["H1Exchange"]

MAX_HEAD = 100 * 1024  # httpcore's limit for a response head
CHUNK = 65_536
JOIN = 65_536  # up to this size head and body leave in one piece
END = h11.EndOfMessage()
FRAMING = frozenset({b"content-length", b"transfer-encoding"})  # of a body, RFC 9112 section 6


class _Before(NamedTuple):
    """A request as the caller gave it, and as h11 has found it valid. `bare`: no field of it
    announces a body."""

    method: str
    headers: Headers
    event: h11.Request
    bare: bool


# No list of header fields equals its.
_NONE = _Before("", (), h11.Request(method="GET", target="/", headers=[("host", "")]), bare=True)


class H1Exchange:
    """A connection's exchange, made ready again for each request. See `Exchange`."""

    __slots__ = (
        "_before",
        "_ending",
        "_h11",
        "_queue",
        "_stream",
        "_whole",
        "begun",
        "ended",
        "mark",
        "sent",
    )

    number: int | None = None  # see `Exchange.number`
    # `_before`: the last request of this connection; `_latest`: of all. What a client sends is
    # often the same, and connections that lie idle share it.
    _latest: ClassVar[_Before] = _NONE

    def __init__(self, stream: Stream) -> None:
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._stream = stream
        self._queue: list[bytes | memoryview] = []
        self._before = H1Exchange._latest
        self._ending = False  # the end of a request without a body is h11's to hear of yet
        self._whole = True  # all that was queued has been handed over
        self.ended = False
        self.begun = False
        self.sent = False
        self.mark = 0

    def start(self, method: str, target: bytes, headers: Headers) -> None:
        """See `Exchange.start`."""
        self.begun = False
        self.sent = False
        self.mark = self._stream.written
        self._ending = False
        self._queue = [self._h11.send(self._event(method, target, headers)) or b""]
        self._whole = False

    def _event(self, method: str, target: bytes, headers: Headers) -> h11.Request:
        """The request for h11. What it has found valid before it need not look at again."""
        before = self._before if self._before.headers == headers else H1Exchange._latest
        known = before.headers == headers
        if known and before.method == method and before.event.target == target:
            self._before = before
            return before.event
        fields: Any = before.event.headers if known else list(headers)
        event = h11.Request(method=method.encode("ascii"), target=target, headers=fields)
        given = before.headers if known else list(headers)
        bare = before.bare if known else not any(name in FRAMING for name, _ in event.headers)
        self._before = H1Exchange._latest = _Before(method, given, event, bare)
        return event

    def data(self, chunk: bytes) -> None:
        """See `Exchange.data`."""
        self._queue.extend(self._h11.send_with_data_passthrough(h11.Data(data=chunk)) or ())

    def end(self) -> None:
        """See `Exchange.end`."""
        if self._before.bare:  # nothing to write: h11 may hear of it while the server works
            self._ending = True
            return
        end = self._h11.send(END)
        if end:
            self._queue.append(end)

    def push(self) -> bool:
        """See `Exchange.push`."""
        queue, stream = self._queue, self._stream
        self._whole = False
        if len(queue) > 1 and sum(map(len, queue)) <= JOIN:
            queue[:] = [b"".join(queue)]
        while queue:
            count = stream.send(queue[0])
            if not count:
                return False
            self.sent = True
            if count == len(queue[0]):
                del queue[0]
            else:
                queue[0] = memoryview(queue[0])[count:]
        self._whole = stream.flush()
        if self._ending:
            self._ending = False
            self._h11.send(END)
        return self._whole

    def pull(self) -> bool:
        """See `Exchange.pull`."""
        data = self._stream.recv(CHUNK)
        if data is None:
            return False
        if data:
            self.begun = True
        else:
            self.ended = True
        self._h11.receive_data(data)
        return True

    @property
    def patience(self) -> float:
        """See `Exchange.patience`."""
        return math.inf

    def interests(self, *, writing: bool) -> Sequence[Interest]:
        """See `Exchange.interests`."""
        return ((self._stream, READ | WRITE if writing else READ),)

    def head(self) -> Head | NeedData:
        """See `Exchange.head`. Interim responses (1xx) are passed over, but for 101."""
        if not self.begun:  # nothing has come that h11 does not know of
            if self.ended:
                raise PeerClosed
            return NEED_DATA
        while True:
            event: Any = self._h11.next_event()
            if event is h11.NEED_DATA:
                return NEED_DATA
            kind = type(event)  # isinstance() of h11's classes, which are abstract, is slow
            if kind is h11.InformationalResponse and event.status_code != 101:
                continue
            if kind is not h11.Response and kind is not h11.InformationalResponse:
                raise h11.RemoteProtocolError(f"expected a response, got {kind.__name__}")
            fields, version = event.headers.raw_items(), b"HTTP/" + event.http_version
            return Head(event.status_code, fields, version, event.reason)

    def body(self) -> bytes | NeedData:
        """See `Exchange.body`."""
        while True:
            event: Any = self._h11.next_event()
            if event is h11.NEED_DATA:
                return NEED_DATA
            if type(event) is not h11.Data:
                return b""
            if event.data:
                return bytes(event.data)

    def leave(self) -> bool:
        """See `Exchange.leave`."""
        if not self._whole:  # answered before all was sent: the rest would begin the next request
            return False
        if self.ended or self._h11.trailing_data[0]:  # bytes after the response: whose are they?
            return False
        try:
            self._h11.start_next_cycle()
        except h11.LocalProtocolError:  # one side is not done, or has said that it will close
            return False
        return True

    def hand_over(self) -> bytes:
        """See `Exchange.hand_over`."""
        self.ended = True  # for HTTP: no request follows
        return self._h11.trailing_data[0]
