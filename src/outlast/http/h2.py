"""HTTP/2 as an exchange: one request and its response as a stream of a shared connection.

It can be ended alone: RST_STREAM goes out, its siblings go on. A stream that the server refused,
or that came after the last one of a GOAWAY, was not processed: it may be repeated, whatever the
method. Source: RFC 9113 sections 5.4.2, 6.8 and 8.7.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import h2.errors
import h2.events
import h11

from outlast.http.exchange import NEED_DATA, NeedData, PeerClosed, Refused, Unprocessed
from outlast.http.h2_session import H2Session
from outlast.http.message import Head, Headers
from outlast.net.raising import anew
from outlast.net.seam import READ, WAKE, WRITE, Interest, Waiter

__all__ = ["H2Exchange"]

# RFC 9113 section 8.2.2: connection-specific fields have no place in HTTP/2.
NOT_IN_H2 = frozenset(
    {b"host", b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
CREDIT = 1 << 18  # stream credit is returned in pieces of this size
LOOK = 0.5  # seconds after which one who waits looks itself: whoever reads for it may be held up


class _Before(NamedTuple):
    """Header fields as the caller gave them, and as they are sent."""

    headers: Headers
    authority: tuple[bytes, bytes]
    fields: Headers


def _before(headers: Headers) -> _Before:
    fields = [(name.lower(), value) for name, value in headers]
    host = next((value for name, value in fields if name == b"host"), b"")
    kept = [field for field in fields if field[0] not in NOT_IN_H2]
    return _Before(list(headers), (b":authority", host), kept)


class H2Exchange:
    """One stream. See `Exchange`; `hear`, `wake` and `parked` are the session's."""

    __slots__ = (
        "_answered",
        "_body",
        "_debt",
        "_done",
        "_events",
        "_finished",
        "_head",
        "_heard",
        "_number",
        "_scheme",
        "_session",
        "_since",
        "_waiter",
        "begun",
        "blocked",
        "mark",
    )

    _latest: ClassVar[_Before] = _before(())  # what a client sends is often the same

    def __init__(self, session: H2Session, scheme: str) -> None:
        self._scheme = scheme.encode("ascii")
        self._session = session
        self._number = 0  # 0: no stream yet
        self._head: Headers | None = None
        self._body: deque[bytes | memoryview] = deque()
        self._finished = False  # the request's end has been queued
        self._done = False  # and sent
        self._events: deque[h2.events.Event | Exception] = deque()
        self._waiter: Waiter | None = None
        self._answered = False  # the response's head has been taken
        self._debt = 0
        self._since = 0.0  # its own last word, and how often the session had heard something then
        self._heard = 0
        self.blocked = False  # the owner waits to send
        self.begun = False
        self.mark = 0

    # -- what the session tells ------------------------------------------------------------

    @property
    def parked(self) -> bool:
        """Whether the owner waits."""
        return self._waiter is not None

    def hear(self, event: h2.events.Event | Exception) -> None:
        """Something has come for this stream."""
        self._events.append(event)
        self._note()
        if isinstance(event, h2.events.ResponseReceived):
            self.begun = True

    def _note(self) -> None:
        self._since, self._heard = self._session.network.now(), self._session.silence.heard

    def wake(self) -> None:
        """Let the owner look."""
        waiter = self._waiter
        if waiter is not None:
            waiter.wake()

    # -- out -------------------------------------------------------------------------------

    @property
    def number(self) -> int | None:
        """See `Exchange.number`."""
        return self._number or None

    @property
    def ended(self) -> bool:
        """See `Exchange.ended`."""
        return self._session.failure is not None

    @property
    def sent(self) -> bool:
        """See `Exchange.sent`."""
        return self._number != 0 and self._session.stream.written > self.mark

    def start(self, method: str, target: bytes, headers: Headers) -> None:
        """See `Exchange.start`."""
        self.mark = self._session.stream.written
        before = H2Exchange._latest
        if before.headers != headers:
            before = H2Exchange._latest = _before(headers)
        self._head = [
            (b":method", method.encode("ascii")),
            before.authority,
            (b":scheme", self._scheme),
            (b":path", target),
            *before.fields,
        ]

    def data(self, chunk: bytes) -> None:
        """See `Exchange.data`."""
        self._body.append(chunk)

    def end(self) -> None:
        """See `Exchange.end`."""
        self._finished = True

    def push(self) -> bool:
        """See `Exchange.push`."""
        if self._head is not None:
            done, self.mark = self._finished and not self._body, self._session.stream.written
            self._number = self._session.open(self, self._head, end=done)
            if not self._number:
                return False
            self._head, self._done = None, done
            self._note()
        while self._body:
            part = self._body[0]
            last = self._finished and len(self._body) == 1
            count = self._session.send(self._number, part, end=last)
            if not count:
                break
            if count < len(part):
                self._body[0] = memoryview(part)[count:]
                continue
            self._body.popleft()
            self._done = last
        if self._finished and not self._done and not self._body:
            self._session.send(self._number, b"", end=True)
            self._done = True
        session = self._session
        session.move()
        if isinstance(session.failure, OSError):
            raise anew(session.failure)
        return not self._body and not session.wants_room

    def _may_push(self) -> bool:
        """Whether what `push` has waited for is there now."""
        session = self._session
        if self._head is not None:
            return session.may_begin()
        if self._body and not session.room(self._number):
            return False
        return not session.wants_room

    # -- in --------------------------------------------------------------------------------

    @property
    def patience(self) -> float:
        """See `Exchange.patience`."""
        return LOOK

    def interests(self, *, writing: bool) -> Sequence[Interest]:
        """See `Exchange.interests`."""
        session = self._session
        if self._waiter is not None:  # a wait has ended without anything
            session.move(read=True)
        self.blocked = writing
        waiter = self._waiter = session.network.waiter()
        # Asked once somebody can wake it: what has come just before would have woken nobody.
        heard = self._events and not (writing and self._answered)  # that is read after sending
        if heard or session.failure is not None or (writing and self._may_push()):
            waiter.wake()
        if not session.take_part(self):
            return ((waiter, WAKE),)
        mask = READ | WRITE if session.wants_room else READ
        return ((session.stream, mask), (waiter, WAKE))

    def pull(self) -> bool:
        """See `Exchange.pull`."""
        session = self._session
        self._waiter = None
        if session.take_part(self) or not self._events:
            session.move(read=True)
        if isinstance(session.failure, OSError) and not self._events:
            raise anew(session.failure)
        if not self._events and session.failure is None:
            return False
        session.pass_on(self)
        return True

    def head(self) -> Head | NeedData:
        """See `Exchange.head`. Interim responses (1xx) are passed over."""
        while self._events:
            event = self._events.popleft()
            if isinstance(event, h2.events.ResponseReceived):
                self._answered = True
                return _head(event.headers or [])
            if not isinstance(
                event, (h2.events.InformationalResponseReceived, h2.events.WindowUpdated)
            ):
                self._broken(event)
        return self._nothing()

    def body(self) -> bytes | NeedData:
        """See `Exchange.body`."""
        while self._events:
            event = self._events.popleft()
            if isinstance(event, h2.events.DataReceived):
                self._credit(event.flow_controlled_length or 0)
                if event.data:
                    return event.data
            elif isinstance(event, h2.events.StreamEnded):
                self._events.appendleft(event)  # asked again it is still the end
                return b""
            elif not isinstance(event, (h2.events.WindowUpdated, h2.events.TrailersReceived)):
                self._broken(event)
        return self._nothing()

    def _nothing(self) -> NeedData:
        failure = self._session.failure
        if isinstance(failure, PeerClosed):
            raise anew(failure)
        if failure is not None and not isinstance(failure, OSError):
            raise h11.RemoteProtocolError(str(failure))
        return NEED_DATA

    def _broken(self, event: h2.events.Event | Exception) -> None:
        """An event that ends the stream before its time. Once a response has begun, whoever says
        that the request was not processed breaks the protocol."""
        if isinstance(event, Unprocessed) and self.begun:
            raise h11.RemoteProtocolError(f"{event} in the middle of its response") from event
        if isinstance(event, Exception):
            raise event
        if isinstance(event, h2.events.StreamReset):
            if event.error_code == h2.errors.ErrorCodes.REFUSED_STREAM and not self.begun:
                raise Refused("the server refused the stream")
            raise h11.RemoteProtocolError(f"the server reset the stream: {event.error_code!r}")
        if isinstance(event, h2.events.StreamEnded) and not self.begun:
            raise h11.RemoteProtocolError("the stream ended without a response")

    def _credit(self, size: int) -> None:
        self._debt += size
        if self._debt >= CREDIT:
            self._session.credit(self._number, self._debt)
            self._debt = 0

    # -- the end ---------------------------------------------------------------------------

    def leave(self) -> bool:
        """See `Exchange.leave`."""
        session = self._session
        complete = self._done and any(isinstance(e, h2.events.StreamEnded) for e in self._events)
        self._waiter = None
        if self._number:
            if not complete:
                session.give_up(self._since, self._heard)
            session.leave(self._number, reset=not complete)
        else:
            session.forget(self)
        session.pass_on(self)
        return session.usable

    def hand_over(self) -> bytes:
        """See `Exchange.hand_over`."""
        raise RuntimeError("an HTTP/2 connection is shared: its bytes are no request's own")


def _head(headers: Any) -> Head:  # all bytes: `h2_begin` has asked for no encoding
    status, fields = b"", []
    for name, value in headers:
        if not name.startswith(b":"):
            fields.append((name, value))
        elif name == b":status":
            status = status or value
    if len(status) != 3 or not status.isdigit():  # RFC 9113 section 8.3.2
        raise h11.RemoteProtocolError(f"a response with the status {status!r}")
    return Head(int(status), fields, b"HTTP/2", None)
