"""The server's end of an HTTP/2 connection, over the h2 library; it may misbehave frame by frame.

What it notes are requests as HTTP/2 has them: their header lists, their bodies, their resets.
Frames are not compared: how a body is cut into them means nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from tests.dropin.stage import Handler, Peer

__all__ = ["Asked", "Talk", "echo_asked", "echo_h2", "h2_handler", "serving"]

Fields: TypeAlias = Sequence[tuple[bytes, bytes]]
Codes = h2.settings.SettingCodes
# httpx has one stream at a time on a connection whose server says nothing of this.
SETTINGS: dict[Codes, int] = {Codes.MAX_CONCURRENT_STREAMS: 100}


@dataclass
class Asked:
    """A request: its stream, its header list, and its body as far as it has come."""

    stream: int
    headers: Fields
    body: bytearray = field(default_factory=bytearray)

    @property
    def path(self) -> str:
        return dict(self.headers)[b":path"].decode()

    @property
    def method(self) -> str:
        return dict(self.headers)[b":method"].decode()


class Talk:
    """An HTTP/2 connection. `settings`: what the server says first, over `SETTINGS`."""

    def __init__(self, peer: Peer, settings: dict[Codes, int] | None = None) -> None:
        self.peer = peer
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        initial: dict[Codes, int] = {**SETTINGS, **(settings or {})}
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values=initial)
        self.h2.max_inbound_frame_size = self.h2.local_settings.max_frame_size
        self.h2.initiate_connection()
        self.flush()
        self.open: dict[int, Asked] = {}
        self.generous = True  # windows are opened again as bodies come in
        self._pings = 0
        self._owed: Counter[int] = Counter()
        self._events: deque[h2.events.Event] = deque()

    # -- out -------------------------------------------------------------------------------

    def flush(self) -> None:
        self.peer.send(self.h2.data_to_send())

    def raw(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """A frame as it is."""
        self.flush()
        head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
        self.peer.send(head + payload)

    def head(self, stream: int, status: int, *fields: tuple[str, str], end: bool = False) -> None:
        self.h2.send_headers(stream, [(":status", str(status)), *fields], end_stream=end)
        self.flush()

    def data(self, stream: int, body: bytes, *, end: bool = True) -> None:
        """A body, as the client's windows allow; False if the client has gone."""
        while body:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if not room:
                if not self._read():
                    raise ConnectionAbortedError("the client has gone")
                continue
            last = end and room >= len(body)
            self.h2.send_data(stream, body[:room], end_stream=last)
            self.flush()
            body = body[room:]
            if last:
                return
        if end:
            self.h2.end_stream(stream)
            self.flush()

    def answer(
        self, asked: Asked, status: int = 200, body: bytes = b"", *fields: tuple[str, str]
    ) -> None:
        self.head(asked.stream, status, *fields, end=not body)
        if body:
            self.data(asked.stream, body)

    def reset(self, stream: int, code: h2.errors.ErrorCodes) -> None:
        self.h2.reset_stream(stream, code)
        self.flush()

    def goaway(self, last: int, code: int = 0) -> None:
        """Says goodbye, and goes on as if nothing had been said."""
        self.raw(7, 0, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big"))

    # -- in --------------------------------------------------------------------------------

    def begun(self) -> Asked | None:
        """The next request's head."""
        return self._until(h2.events.RequestReceived)

    def request(self) -> Asked | None:
        """The next request that is whole; None at the end of the connection."""
        return self._until(h2.events.StreamEnded)

    def give(self) -> None:
        """Open the windows again as far as bodies have come in."""
        for stream, size in self._owed.items():
            self.h2.acknowledge_received_data(size, stream)
        self._owed.clear()
        self.flush()

    def resize(self, window: int) -> None:
        """Change the windows of all streams. h2 takes an acknowledgement of earlier settings for
        one of these: so those must have been acknowledged."""
        self.until_idle()
        self.h2.update_settings({Codes.INITIAL_WINDOW_SIZE: window})
        self.flush()

    def until_full(self, asked: Asked, size: int) -> None:
        """Until so much of a body has come."""
        while len(asked.body) < size and self._read():
            pass

    def until_idle(self) -> None:
        """Until the client has answered a few pings, and had its time to act upon the rest."""
        for _ in range(5):
            self._pings += 1
            ping = self._pings.to_bytes(8, "big")
            self.h2.ping(ping)
            self.flush()
            while not any(getattr(event, "ping_data", b"") == ping for event in self._events):
                if not self._read():
                    return

    def _until(self, kind: type[h2.events.Event]) -> Asked | None:
        while True:
            while self._events:
                event = self._events.popleft()
                if isinstance(event, kind):
                    stream: int = getattr(event, "stream_id", 0)
                    return self.open[stream]
            if not self._read():
                return None

    def _read(self) -> bool:
        data = self.peer.sock.recv(65_536)
        if not data:
            return False
        for event in self.h2.receive_data(data):
            self._hear(event)
            self._events.append(event)
        self.flush()
        return True

    def _hear(self, event: h2.events.Event) -> None:
        line = self.peer.line
        if isinstance(event, h2.events.RequestReceived):
            fields = [(bytes(name), bytes(value)) for name, value in event.headers or []]
            asked = Asked(event.stream_id or 0, fields)
            self.open[asked.stream] = asked
            line.requests.append(f"{asked.method} {asked.path}")
        elif isinstance(event, h2.events.DataReceived):
            stream = event.stream_id or 0
            self.open[stream].body += event.data or b""
            self._owed[stream] += event.flow_controlled_length or 0
            if self.generous:
                self.give()
        elif isinstance(event, h2.events.StreamEnded):
            asked = self.open[event.stream_id or 0]
            body = bytes(asked.body) if len(asked.body) < 1000 else hash(bytes(asked.body))
            line.said.append(f"{asked.headers} {body!r}")
        elif isinstance(event, h2.events.StreamReset):
            line.said.append(f"reset of {self.open[event.stream_id or 0].path}")

    def until_closed(self) -> None:
        """Read until the client has gone."""
        while self._read():
            self._events.clear()


Conversation: TypeAlias = Callable[[Talk], None]


def h2_handler(conversation: Conversation, settings: dict[Codes, int] | None = None) -> Handler:
    """A handler that speaks HTTP/2, and reads to the end when it has said what it had to say."""

    def handler(peer: Peer) -> None:
        talk = Talk(peer, settings)
        try:
            conversation(talk)
            talk.until_closed()
        except h2.exceptions.ProtocolError as error:
            peer.act.left = True
            peer.line.said.append(f"the client broke the protocol: {type(error).__name__}")

    return handler


def serving(answer: Callable[[Talk, Asked], None]) -> Conversation:
    """Every whole request is answered by `answer`."""

    def conversation(talk: Talk) -> None:
        while (asked := talk.request()) is not None:
            answer(talk, asked)

    return conversation


def echo_asked(talk: Talk, asked: Asked) -> None:
    """Answer with the request's own body, or with its path."""
    body = b"" if asked.method == "HEAD" else bytes(asked.body) or asked.path.encode()
    talk.answer(asked, 200, body, ("content-length", str(len(body))))


echo_h2 = h2_handler(serving(echo_asked))
