"""HTTP/1.1 with httptools (llhttp) for a parser of responses, for whoever asks for it.

Requests are framed by h11 as ever, and so are whole exchanges in which a response means something
else than it says: answers to HEAD and CONNECT, upgrades, `Connection` and `Expect` fields of the
caller's own. httptools has no word for those. Source: RFC 9112; llhttp's strict mode. It refuses
what llhttp refuses, also where h11 would make something of it: docs/drop-in.md has the list.
"""

from __future__ import annotations

import importlib
import re
from collections import deque
from typing import Any

import h11

from outlast.http.exchange import NEED_DATA, NeedData, PeerClosed
from outlast.http.h1 import CHUNK, FRAMING, MAX_HEAD, H1Exchange, h11_connection, tells
from outlast.http.message import Head, Headers
from outlast.net.raising import anew
from outlast.net.seam import Stream

__all__ = ["HttptoolsExchange"]

# Imported with this module, which is only on use.
httptools: Any = importlib.import_module("httptools")
SENDING = FRAMING | {b"host"}  # tells of the request alone
REASON = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")  # RFC 9112 section 4
UNASKED = "the server switches protocols, and was not asked to"


class _Response:
    """One response, as the parser tells of it. Nothing here raises: the parser would hide it in an
    error of its own."""

    __slots__ = (
        "before",
        "done",
        "extra",
        "fields",
        "interim",
        "kept",
        "parser",
        "pieces",
        "read",
        "reason",
        "status",
        "unbounded",
        "version",
        "wrong",
    )

    def __init__(self) -> None:
        self.parser: Any = None  # while it reads: it holds this one, and the two would be a circle
        self.status = 0  # 0: the head has not come
        self.version = b""
        self.reason = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.pieces: deque[bytes] = deque()
        self.interim = False
        self.before = 0  # interim responses that have come
        self.unbounded = False  # the body ends with the connection
        self.kept = False  # the server will take another request
        self.done = False
        self.read = False  # by the caller: what it leaves unread ends the connection, as with h11
        self.extra = False  # something came after the end
        self.wrong = ""  # with the head, though the parser takes it

    @property
    def progress(self) -> tuple[int, int, int, bool]:
        """Changes whenever there is something to tell."""
        return self.before, self.status, len(self.pieces), self.done

    def on_message_begin(self) -> None:
        """Another one has begun."""
        self.extra = self.done

    def on_status(self, reason: bytes) -> None:
        """A part of the reason phrase."""
        if not self.status:
            self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field; those of a trailer are nobody's."""
        if not self.status:
            self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        """A head has come: the response's, or one before it (1xx)."""
        if self.status:
            return
        parser = self.parser
        status: int = parser.get_status_code()
        self.interim = 100 <= status < 200 and status != 101
        if not REASON.fullmatch(self.reason):
            self.wrong = f"a response with the reason {self.reason!r}"
        if self.interim:
            return
        self.status = status
        self.version = b"HTTP/" + parser.get_http_version().encode("ascii")
        self.kept = parser.should_keep_alive() and self.version == b"HTTP/1.1"
        self._read_framing()

    def _read_framing(self) -> None:
        """Where the body ends (RFC 9112 section 6.3), and and what is not to be taken."""
        named = [(index, name.lower()) for index, (name, _) in enumerate(self.fields)]
        coded = [index for index, name in named if name == b"transfer-encoding"]
        if self.status < 100:
            self.wrong = f"a response with the status {self.status}"
        # As the parser sees it: with a tab behind it that takes it for another one.
        elif len(coded) > 1 or any(
            self.fields[each][1].rstrip(b" ").lower() != b"chunked" for each in coded
        ):
            self.wrong = "a Transfer-Encoding that is not chunked, or not once"
        self.fields = [(name, value.rstrip(b" \t")) for name, value in self.fields]
        for each in coded:
            self.fields[each] = (self.fields[each][0], b"chunked")  # as h11 has it
        bounded = coded or any(name == b"content-length" for _, name in named)
        self.unbounded = self.status not in (204, 304) and not bounded

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        if not self.done:
            self.pieces.append(data)

    def on_message_complete(self) -> None:
        """All of it has come, or of one before it."""
        if self.interim:
            self.interim, self.reason = False, b""
            self.before += 1
            self.fields.clear()
        else:
            self.done = True


class HttptoolsExchange(H1Exchange):
    """See above. One exchange after another; each is read by the parser or wholly by h11."""

    __slots__ = ("_apart", "_failure", "_parser", "_response", "_unheard")

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._response: _Response | None = None  # of h11's own exchanges: None
        self._parser: Any = None
        self._apart = False  # h11 hears nothing of this exchange
        self._failure: Exception | None = None
        self._unheard = 0  # bytes since there was something to tell

    # -- out -------------------------------------------------------------------------------

    def start(self, method: str, target: bytes, headers: Headers) -> None:
        """See `Exchange.start`."""
        self._response, self._apart, owed = None, False, self._owed
        super().start(method, target, headers)
        before = self._before
        more = [name for name, value in before.event.headers if tells(name, value)]
        if method in ("HEAD", "CONNECT") or not SENDING.issuperset(more):
            return
        self._response = response = _Response()
        self._parser = httptools.HttpResponseParser(response)
        self._failure, self._unheard = None, 0
        self._apart = before.bare and len(self._owed) > len(owed)
        if self._apart:  # its fields are known to be valid, and there is no body to be framed
            self._owed = owed

    def end(self) -> None:
        """See `Exchange.end`."""
        if not self._apart:
            super().end()

    # -- in --------------------------------------------------------------------------------

    def pull(self) -> bool:
        """See `Exchange.pull`."""
        response = self._response
        if response is None:
            return super().pull()
        data = self._stream.recv(CHUNK)
        if data is None:
            return False
        if data:
            self.begun = True
            self._feed(response, data)
        else:
            self.ended = True
        return True

    def _feed(self, response: _Response, data: bytes) -> None:
        told, response.parser = response.progress, self._parser
        try:
            if self._failure is None:
                self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            # What is told raises nothing: a signal has struck there, and is the caller's.
            raise error.__context__ or error from None
        except httptools.HttpParserUpgrade:
            self._failure = h11.RemoteProtocolError(UNASKED)
        except httptools.HttpParserError as error:
            if response.done:  # the response is as it should be, what follows is nobody's
                response.extra = True
            else:
                self._failure = h11.RemoteProtocolError(str(error))
        finally:
            response.parser = None
        if response.wrong and self._failure is None:
            self._failure = h11.RemoteProtocolError(response.wrong)
        if told != response.progress:
            self._unheard = 0
            return
        self._unheard += len(data)
        if self._unheard > MAX_HEAD and self._failure is None:
            text = f"{MAX_HEAD} bytes of a head, a trailer or a chunk's line, and no end of it"
            self._failure = h11.RemoteProtocolError(text)

    def head(self) -> Head | NeedData:
        """See `Exchange.head`. Interim responses (1xx) are passed over."""
        response = self._response
        if response is None:
            return super().head()
        if response.status == 101 and self._failure is None:
            self._failure = h11.RemoteProtocolError(UNASKED)
        if response.wrong or response.status == 101:
            return self._more(response)
        if response.status:
            return Head(response.status, response.fields, response.version, response.reason)
        return self._more(response)

    def body(self) -> bytes | NeedData:
        """See `Exchange.body`."""
        response = self._response
        if response is None:
            return super().body()
        if response.pieces:
            return response.pieces.popleft()
        if response.done or (self.ended and response.unbounded):
            response.read = True
            return b""
        return self._more(response)

    def _more(self, response: _Response) -> NeedData:
        """There is nothing to tell, and more has to come."""
        if self._failure is not None:
            raise anew(self._failure)  # never raised itself: see `net.raising`
        if self.ended and not self.begun:
            raise PeerClosed
        if self.ended:
            what = "body" if response.status else "head"
            text = f"peer closed connection without sending complete message {what}"
            raise h11.RemoteProtocolError(text)
        return NEED_DATA

    def leave(self) -> bool:
        """See `Exchange.leave`."""
        response, self._response = self._response, None
        if response is None:
            return super().leave()
        self._parser = None
        whole = self._whole and response.done and response.read and not self.ended
        if not whole or response.extra or not response.kept or self._failure is not None:
            return False
        if not self._apart:  # of the response h11 has not heard
            if self._h11.our_state is not h11.DONE:
                return False
            self._h11 = h11_connection()
        return True

    def hand_over(self) -> bytes:
        """See `Exchange.hand_over`. Of what is no upgrade: the body, as far as it has come."""
        early = super().hand_over()
        response = self._response
        if response is None:
            return early
        pieces = b"".join(response.pieces)
        response.pieces.clear()
        return pieces
