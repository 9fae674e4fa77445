"""HTTP/1.1 as a sans-IO exchange over h11: bytes in, events out, and marks.

h11 frames; this module says where a request stands: `begun` (a response byte has come),
`complete` (the response has ended), `reusable` (another request may follow). Source: RFC 9112.
It refuses to guess: what h11 calls a protocol error is one.
"""

from __future__ import annotations

from collections.abc import Sequence

import h11

from outlast.http.message import Head, Headers

__all__ = ["EXPECT_DATA", "H1Exchange", "NeedData", "ProtocolError"]

ProtocolError = (h11.RemoteProtocolError, h11.LocalProtocolError)
MAX_HEAD = 100 * 1024  # httpcore's limit for a response head


class NeedData:
    """More bytes must come before there is an event."""


EXPECT_DATA = NeedData()


class H1Exchange:
    """One connection's framing: one request after another. Not thread-safe."""

    __slots__ = ("_h11", "begun")

    def __init__(self) -> None:
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self.begun = False

    def request(self, method: str, target: bytes, headers: Headers) -> bytes:
        """Begin a request; the bytes of its head. Raises h11.LocalProtocolError."""
        self.begun = False
        event = h11.Request(method=method.encode("ascii"), target=target, headers=list(headers))
        return self._h11.send(event) or b""

    def data(self, chunk: bytes) -> Sequence[bytes]:
        """A piece of the request's body, framed."""
        return self._h11.send_with_data_passthrough(h11.Data(data=chunk)) or ()

    def end(self) -> bytes:
        """The end of the request's body."""
        return self._h11.send(h11.EndOfMessage()) or b""

    def feed(self, data: bytes) -> None:
        """Bytes from the server; empty bytes mean that it has closed."""
        if data:
            self.begun = True
        self._h11.receive_data(data)

    def head(self) -> Head | NeedData:
        """The response's head. Interim responses (1xx) are passed over, but for 101."""
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                return EXPECT_DATA
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
        """The next piece of the response's body; b"" when it has ended."""
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                return EXPECT_DATA
            if isinstance(event, h11.Data):
                if event.data:
                    return bytes(event.data)
                continue
            return b""

    @property
    def complete(self) -> bool:
        """Whether the response has ended."""
        return self._h11.their_state is not h11.SEND_BODY

    @property
    def request_open(self) -> bool:
        """Whether the request's body has not ended yet."""
        return self._h11.our_state is h11.SEND_BODY

    def next_cycle(self) -> bool:
        """Make ready for another request on this connection; False if there can be none."""
        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        if self._h11.trailing_data[0]:  # bytes after the response: whose are they?
            return False
        self._h11.start_next_cycle()
        self.begun = False
        return True
