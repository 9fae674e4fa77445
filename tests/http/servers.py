"""Raw servers on loopback: one handler per connection, which may misbehave byte by byte.

    with Server(serve) as server: ...                 every connection is served well
    with Server(mute, serve) as server: ...           the first is not, the others are

A handler is a plain function that is given its `Peer`. Each runs on a thread of its own; every
operation is bounded in time, all threads are joined at the end, and an assertion that failed in
a handler fails the test. What a client does to a connection (resets) is no failure.
"""

from __future__ import annotations

import errno
import itertools
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import outlast

BOUND = 20.0  # seconds; far more than anything here takes, far less than a test may take
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s


@dataclass(frozen=True)
class Seen:
    """A request as the server saw it; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


class Peer:
    """The server's end of one connection."""

    def __init__(self, server: Server, sock: socket.socket, number: int) -> None:
        self.server = server
        self.sock = sock
        self.number = number
        self._buffer = b""

    # -- in --------------------------------------------------------------------------------

    def more(self) -> bool:
        """Read once; False at the end."""
        data = self.sock.recv(65_536)
        self._buffer += data
        return bool(data)

    def head(self) -> Seen | None:
        """A request's head, its body left unread; None at the end of the connection."""
        while b"\r\n\r\n" not in self._buffer:
            if not self.more():
                return None
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        return Seen(method, target, headers, b"", self.number)

    def request(self) -> Seen | None:
        """A whole request, noted with the server; None if the connection ended before it did."""
        head = self.head()
        if head is None:
            return None
        if head.headers.get("transfer-encoding") == "chunked":
            body = self._chunked()
        else:
            body = self._exactly(int(head.headers.get("content-length", "0")))
        if body is None:
            return None
        seen = Seen(head.method, head.target, head.headers, body, self.number)
        self.server.note(seen)
        return seen

    def _exactly(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            if not self.more():
                return None
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def exactly(self, size: int) -> bytes:
        """So many bytes; ConnectionError if the connection ends before."""
        data = self._exactly(size)
        if data is None:
            raise ConnectionError("the client has gone")
        return data

    def _chunked(self) -> bytes | None:
        body = b""
        while True:
            while b"\r\n" not in self._buffer:
                if not self.more():
                    return None
            size, _, self._buffer = self._buffer.partition(b"\r\n")
            data = self._exactly(int(size, 16) + 2)
            if data is None or size == b"0":
                return None if data is None else body
            body += data[:-2]

    def until_closed(self) -> None:
        """Read until the client has gone."""
        while self.more():
            self._buffer = b""

    # -- out -------------------------------------------------------------------------------

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.sock.sendall(part)

    def answer(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        """A response with a Content-Length; header names are written with underscores."""
        lines = [f"HTTP/1.1 {status} Whatever", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """Close with an RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.sock.close()

    def wait(self, event: threading.Event) -> None:
        """Wait for a test to say so, with a bound."""
        assert event.wait(BOUND), "nobody has set the event"


Handler: TypeAlias = Callable[[Peer], None]


class ServerSideSocket(ssl.SSLSocket):
    """A client may be gone before its handshake begins: then ssl would lose the socket."""

    def getpeername(self) -> Any:
        try:
            return super().getpeername()
        except OSError as error:
            self.close()
            raise ConnectionAbortedError(errno.ECONNABORTED, "no client any more") from error


class Server:
    """Listens on loopback, or on a Unix socket at `path`; `handlers` in the order of connections,
    the last one stays.

    `requests`: what arrived whole, in order. `connections`: how many were accepted. `gate`: an
    event for handlers to wait for; set at the end.
    `receive_buffer`: bytes, small ones block a sender soon.
    """

    def __init__(
        self,
        *handlers: Handler,
        context: ssl.SSLContext | None = None,
        receive_buffer: int | None = None,
        path: str | None = None,
    ) -> None:
        self._handlers = handlers
        self._context = context
        if context is not None:
            context.sslsocket_class = ServerSideSocket
        self._listener = socket.socket() if path is None else socket.socket(socket.AF_UNIX)
        if receive_buffer is not None:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._listener.bind(("127.0.0.1", 0) if path is None else path)
        self._listener.listen(64)
        self.port: int = self._listener.getsockname()[1] if path is None else 0
        self.address = f"127.0.0.1:{self.port}" if path is None else path
        self.url = f"{'https' if context else 'http'}://{self.address}"
        self._lock = threading.Lock()
        self._socks: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        self.requests: list[Seen] = []
        self.connections = 0
        self.gate = threading.Event()

    # -- what tests read -------------------------------------------------------------------

    def note(self, seen: Seen) -> None:
        with self._lock:
            self.requests.append(seen)

    @property
    def methods(self) -> list[str]:
        return [seen.method for seen in self.requests]

    @property
    def bodies(self) -> list[bytes]:
        return [seen.body for seen in self.requests]

    # -- life ------------------------------------------------------------------------------

    def stop_listening(self) -> None:
        """Refuse connections from here on."""
        _shut(self._listener)

    def __enter__(self) -> Server:
        self._begin(self._accept, ())
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        _shut(self._listener)
        with self._lock:
            for sock in self._socks:
                _shut(sock)
        for thread in self._threads:
            thread.join(BOUND)
            assert not thread.is_alive(), f"a handler of {self.url} does not end"
        self._listener.close()
        if self._failures:
            raise self._failures[0]

    def _begin(self, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        thread = threading.Thread(target=work, args=arguments, name=f"server {self.address}")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        for number in itertools.count():
            try:
                sock, _ = self._listener.accept()
            except OSError:  # shut down: the test is over
                return
            sock.settimeout(BOUND)
            with self._lock:
                self._socks.append(sock)
                self.connections += 1
            handler = self._handlers[min(number, len(self._handlers) - 1)]
            self._begin(self._handle, (handler, sock, number))

    def _handle(self, handler: Handler, sock: socket.socket, number: int) -> None:
        try:
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True)
                with self._lock:
                    self._socks.append(sock)
            handler(Peer(self, sock, number))
        except OSError:  # the client has gone, or the test is over
            pass
        except BaseException as error:
            self._failures.append(error)
            if not isinstance(error, Exception):
                raise
        finally:
            sock.close()


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:  # closed already
        return


# -- usual handlers ------------------------------------------------------------------------


def in_turn(*servers: Server) -> outlast.Target:
    """The target of several servers, each asked in its turn, whatever chance would have."""
    text = f"static://{','.join(server.address for server in servers)}"
    return outlast.Target(text, balance=outlast.RoundRobin())


def serve(peer: Peer) -> None:
    """A good server: every request is answered with its own body, or with its path."""
    while (seen := peer.request()) is not None:
        peer.answer(200, b"" if seen.method == "HEAD" else seen.body or seen.target.encode())


def mute(peer: Peer) -> None:
    """Takes one request and never answers."""
    peer.request()
    peer.until_closed()


def hang_up(peer: Peer) -> None:
    """Takes one request and closes without an answer."""
    peer.request()
    peer.close()


def answering(status: int, body: bytes = b"", **headers: str) -> Handler:
    """Every request gets this answer."""

    def handler(peer: Peer) -> None:
        while peer.request() is not None:
            peer.answer(status, body, **headers)

    return handler


def raw(*answers: bytes) -> Handler:
    """One request after the other gets these bytes, then the connection is closed."""

    def handler(peer: Peer) -> None:
        for answer in answers:
            if peer.request() is None:
                return
            peer.send(answer)
        peer.close()

    return handler
