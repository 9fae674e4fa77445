"""What an attempt needs of a protocol: one request and its response, without waiting.

An exchange queues what is to be sent, hands it over as far as the network takes it (`push`),
takes in what has arrived (`pull`), and says what is worth waiting for (`interests`). HTTP/1.1
and HTTP/2 each have one (`h1`, `h2`). One owner at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import h11

from outlast.http.message import Head, Headers
from outlast.net.seam import Interest

__all__ = [
    "NEED_DATA",
    "Exchange",
    "NeedData",
    "PeerClosed",
    "ProtocolError",
    "Refused",
    "Unprocessed",
]

# What a peer, or the caller's own request, may violate. h2's errors are turned into these.
ProtocolError = (h11.RemoteProtocolError, h11.LocalProtocolError)


class PeerClosed(Exception):
    """The peer has ended the connection where more had to come."""


class Unprocessed(Exception):
    """The peer has said that it did not act on the request: any method may be repeated."""


class Refused(Unprocessed):
    """The same of a server that takes no more for now: repeated, but not at once nor for ever."""


class NeedData:
    """More must arrive before there is an answer."""


NEED_DATA: Final = NeedData()


class Exchange(Protocol):
    """One request and its response on a connection. Nothing here blocks."""

    @property
    def number(self) -> int | None:
        """The stream's; None where the connection is but one stream."""

    @property
    def begun(self) -> bool:
        """Whether a byte of the response has come."""

    @property
    def ended(self) -> bool:
        """Whether the peer has ended its side: nothing more will come."""

    @property
    def sent(self) -> bool:
        """Whether a byte of the request may have left this machine."""

    @property
    def mark(self) -> int:
        """Bytes written on the connection before this request."""

    def start(self, method: str, target: bytes, headers: Headers) -> None:
        """Queue the request's head. Raises h11.LocalProtocolError."""

    def data(self, chunk: bytes) -> None:
        """Queue a piece of the request's body. Raises h11.LocalProtocolError."""

    def end(self) -> None:
        """Queue the end of the request's body. Raises h11.LocalProtocolError."""

    def push(self) -> bool:
        """Hand over what is queued; True if nothing is left. Raises OSError."""

    def pull(self) -> bool:
        """Take in what has arrived; True if there was something. Raises OSError."""

    @property
    def patience(self) -> float:
        """Seconds after which `pull` is asked again though nothing of `interests` was ready."""

    def interests(self, *, writing: bool) -> Sequence[Interest]:
        """What to wait for: an answer, and with `writing` room for more of the request."""

    def head(self) -> Head | NeedData:
        """The response's head. Raises PeerClosed, h11.RemoteProtocolError."""

    def body(self) -> bytes | NeedData:
        """The next piece of the body; b"" at its end. Raises as `head`."""

    def leave(self) -> bool:
        """The exchange is over: whether its connection may serve another request."""

    def hand_over(self) -> bytes:
        """The connection's bytes are the caller's from here on; those that have come already.

        It serves no other request. Raises RuntimeError if other exchanges share it.
        """
