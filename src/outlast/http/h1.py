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

__all__ = ["H1Exchange", "h11_connection", "tells"]

MAX_HEAD = 100 * 1024  # httpcore's limit for a response head
CHUNK = 65_536
JOIN = 65_536  # up to this size head and body leave in one piece
END = h11.EndOfMessage()
OVER = (None,)  # owed to h11: that an exchange is over. All that lie idle share it
FRAMING = frozenset({b"content-length", b"transfer-encoding"})  # of a body, RFC 9112 section 6
# Fields that change what h11 does next: RFC 9112 sections 6 and 9.6, RFC 9110 7.8 and 10.1.1; host
# is one that it asks for.
TELLING = FRAMING | {b"host", b"connection", b"upgrade", b"expect"}


class _Before(NamedTuple):
    """A request as the caller gave it, and as h11 has found it valid. `bare`: no field of it
    announces a body. `fields`: what h11 has written of it behind method and target. `brief`: of the
    event only those fields are left that h11 goes by, which is all that it has to hear again."""

    method: str
    headers: Headers
    event: h11.Request
    bare: bool
    fields: bytes
    brief: bool = False


# No list of header fields equals its.
_NONE = _Before("", (), h11.Request(method="GET", target="/", headers=[("host", "")]), True, b"")


def _alike(before: _Before, method: str, target: bytes) -> _Before:
    """Another request with the same fields."""
    fields: Any = before.event.headers
    if not before.brief:
        fields = [(name, value) for name, value in fields if tells(name, value)]
    event = h11.Request(method=method.encode("ascii"), target=target, headers=fields)
    return before._replace(method=method, event=event, brief=True)


def tells(name: bytes, value: bytes) -> bool:
    """Whether h11 goes by a field; by this version's default it need not be told."""
    return name in TELLING and not (name == b"connection" and value.lower() == b"keep-alive")


def h11_connection() -> h11.Connection:
    """A client's side of one connection, as h11 has it."""
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)


class H1Exchange:
    """A connection's exchange, made ready again for each request. See `Exchange`."""

    __slots__ = (
        "_before",
        "_h11",
        "_owed",
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
        self._h11 = h11_connection()
        self._stream = stream
        self._queue: tuple[bytes | memoryview, ...] = ()  # the empty one is shared by all
        self._before = H1Exchange._latest
        self._owed: tuple[h11.Event | None, ...] = ()  # what h11 is to hear of when it has left
        self._whole = True  # all that was queued has been handed over
        self.ended = False
        self.begun = False
        self.sent = False
        self.mark = 0

    def start(self, method: str, target: bytes, headers: Headers) -> None:
        """See `Exchange.start`. What h11 need not judge first it hears of when it has left: while
        the server works."""
        self.begun = False
        self.sent = False
        self.mark = self._stream.written
        self._whole = False
        before = self._before
        if not before.brief or before.headers != headers:
            latest = H1Exchange._latest
            before = latest if latest.headers == headers else before
        if before.headers == headers:
            self._start_alike(before, method, target)
        else:
            self._start_new(method, target, headers)

    def _start_new(self, method: str, target: bytes, headers: Headers) -> None:
        self._tell()
        given: Any = list(headers)
        event = h11.Request(method=method.encode("ascii"), target=target, headers=given)
        head = self._h11.send(event)
        self._queue = (head,)
        bare = not any(name in FRAMING for name, _ in event.headers)
        fields = head[len(event.method) + 1 + len(event.target) :]
        self._before = H1Exchange._latest = _Before(method, given, event, bare, fields)

    def _start_alike(self, before: _Before, method: str, target: bytes) -> None:
        """Header fields that h11 has found valid, and has written, it need not look at again."""
        event = before.event
        if not before.brief or before.method != method or event.target != target:
            before = _alike(before, method, target)
            H1Exchange._latest, event = before, before.event
        self._before = before
        self._queue = (event.method + b" " + event.target + before.fields,)
        self._owed += (event,)

    def _tell(self) -> None:
        """Have h11 hear of what has left, and of what was over before that."""
        owed, self._owed = self._owed, ()
        for event in owed:
            if event is None:
                self._h11.start_next_cycle()
            else:
                self._h11.send_with_data_passthrough(event)  # what it writes has left already

    def data(self, chunk: bytes) -> None:
        """See `Exchange.data`."""
        self._tell()
        self._queue += tuple(self._h11.send_with_data_passthrough(h11.Data(data=chunk)) or ())

    def end(self) -> None:
        """See `Exchange.end`."""
        if self._before.bare:  # nothing to write
            self._owed += (END,)
            return
        self._tell()
        end = self._h11.send(END)
        if end:
            self._queue += (end,)

    def push(self) -> bool:
        """See `Exchange.push`."""
        self._whole = False
        try:
            self._whole = self._hand_over()
        finally:
            if self._owed:
                self._tell()
        return self._whole

    def _hand_over(self) -> bool:
        stream = self._stream
        if len(self._queue) > 1 and sum(map(len, self._queue)) <= JOIN:
            self._queue = (b"".join(self._queue),)
        while self._queue:
            first = self._queue[0]
            count = stream.send(first)
            if not count:
                return False
            self.sent = True
            left = (memoryview(first)[count:],) if count < len(first) else ()
            self._queue = left + self._queue[1:]
        return stream.flush()

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
        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False  # one side is not done, or has said that it will close
        self._owed = OVER
        return True

    def hand_over(self) -> bytes:
        """See `Exchange.hand_over`."""
        self.ended = True  # for HTTP: no request follows
        return self._h11.trailing_data[0]
