"""HTTP/1.1 over h11: one exchange after another on a stream.

h11 frames; this module moves bytes and says where a request stands. Source: RFC 9112. It
refuses to guess: what h11 calls a protocol error is one, and bytes after a response end the
connection's use.
"""

from __future__ import annotations

from collections.abc import Sequence

import h11

from outlast.http.exchange import NEED_DATA, NeedData, PeerClosed
from outlast.http.message import Head, Headers
from outlast.net.seam import READ, WRITE, Interest, Stream

__all__ = ["H1Exchange"]

MAX_HEAD = 100 * 1024  # httpcore's limit for a response head
CHUNK = 65_536
JOIN = 65_536  # up to this size head and body leave in one piece


class H1Exchange:
    """A connection's exchange, made ready again for each request. See `Exchange`."""

    __slots__ = (
        "_h11",
        "_queue",
        "_reading",
        "_stream",
        "_whole",
        "_writing",
        "begun",
        "ended",
        "mark",
    )

    number: int | None = None  # see `Exchange.number`

    def __init__(self, stream: Stream) -> None:
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._stream = stream
        self._reading = ((stream, READ),)
        self._writing = ((stream, READ | WRITE),)
        self._queue: list[bytes | memoryview] = []
        self._whole = True  # all that was queued has been handed over
        self.ended = False
        self.begun = False
        self.mark = 0

    @property
    def sent(self) -> bool:
        """See `Exchange.sent`."""
        return self._stream.written > self.mark

    def start(self, method: str, target: bytes, headers: Headers) -> None:
        """See `Exchange.start`."""
        self.begun = False
        self.mark = self._stream.written
        event = h11.Request(method=method.encode("ascii"), target=target, headers=list(headers))
        self._queue = [self._h11.send(event) or b""]
        self._whole = False

    def data(self, chunk: bytes) -> None:
        """See `Exchange.data`."""
        self._queue.extend(self._h11.send_with_data_passthrough(h11.Data(data=chunk)) or ())

    def end(self) -> None:
        """See `Exchange.end`."""
        end = self._h11.send(h11.EndOfMessage())
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
            if count == len(queue[0]):
                del queue[0]
            else:
                queue[0] = memoryview(queue[0])[count:]
        self._whole = stream.flush()
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

    def interests(self, *, writing: bool) -> Sequence[Interest]:
        """See `Exchange.interests`."""
        return self._writing if writing else self._reading

    def head(self) -> Head | NeedData:
        """See `Exchange.head`. Interim responses (1xx) are passed over, but for 101."""
        while True:
            if self.ended and not self.begun:
                raise PeerClosed
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                return NEED_DATA
            if isinstance(event, h11.InformationalResponse) and event.status_code != 101:
                continue
            if isinstance(event, (h11.Response, h11.InformationalResponse)):
                return Head(
                    event.status_code,
                    event.headers.raw_items(),
                    b"HTTP/" + event.http_version,
                    event.reason,
                )
            raise h11.RemoteProtocolError(f"expected a response, got {type(event).__name__}")

    def body(self) -> bytes | NeedData:
        """See `Exchange.body`."""
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                return NEED_DATA
            if isinstance(event, h11.Data):
                if event.data:
                    return bytes(event.data)
                continue
            return b""

    def leave(self) -> bool:
        """See `Exchange.leave`."""
        if not self._whole:  # answered before all was sent: the rest would begin the next request
            return False
        ours, theirs = self._h11.our_state, self._h11.their_state
        if ours is not h11.DONE or theirs is not h11.DONE or self.ended:
            return False
        if self._h11.trailing_data[0]:  # bytes after the response: whose are they?
            return False
        self._h11.start_next_cycle()
        return True

    def hand_over(self) -> bytes:
        """See `Exchange.hand_over`."""
        self.ended = True  # for HTTP: no request follows
        return self._h11.trailing_data[0]
