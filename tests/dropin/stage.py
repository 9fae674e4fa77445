"""A server on loopback that notes every byte it was sent, for one client after another.

One act per client: within it connections are counted from 0, and each is handed to a handler on
a thread of its own, in the order of connections; the last handler stays. The act ends when the
client has gone and all its handlers have ended; then its journal is whole.

Every operation is bounded in time, all threads are joined, and an assertion that failed in a
handler fails the test. What a client does to a connection (resets) is no failure.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

PATIENCE = 5.0  # seconds until a connection that its client has left open is told of
BOUND = 20.0  # seconds; far more than anything here takes, far less than a test may take
OTHER = ("::1", "127.0.0.1")  # of the other family than an address of version 4, 6
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s


@dataclass
class Line:
    """What reached the server on one connection: bytes, and what is said of it in words."""

    raw: bytearray = field(default_factory=bytearray)
    said: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)  # request lines without the version


@dataclass(frozen=True)
class Head:
    """A request's head; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]

    @property
    def number(self) -> int:
        """The number that a path such as /17 stands for."""
        return int(self.target.strip("/").partition("?")[0])


class Peer:
    """The server's end of one connection; `number` counts within the act."""

    def __init__(self, act: Act, sock: socket.socket, number: int, line: Line) -> None:
        self.act = act
        self.sock = sock
        self.number = number
        self.line = line
        self.port: int = 0 if sock.family == socket.AF_UNIX else sock.getsockname()[1]
        self.buffer = b""

    # -- in --------------------------------------------------------------------------------

    def more(self) -> bool:
        """Read once; False at the end."""
        data = self.sock.recv(65_536)
        self.line.raw += data
        self.buffer += data
        return bool(data)

    def head(self) -> Head | None:
        """A request's head, its body left unread; None at the end of the connection."""
        while b"\r\n\r\n" not in self.buffer:
            if not self.more():
                return None
        text, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        first, *lines = text.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        self.line.requests.append(f"{method} {target}")
        pairs = (line.partition(":") for line in lines)
        return Head(method, target, {name.lower(): value.strip() for name, _, value in pairs})

    def request(self) -> tuple[Head, bytes] | None:
        """A whole request and its body; None if the connection ended before it did."""
        head = self.head()
        body = None if head is None else self.body(head)
        return None if head is None or body is None else (head, body)

    def body(self, head: Head) -> bytes | None:
        """The body that belongs to a head."""
        if head.headers.get("transfer-encoding") == "chunked":
            return self._chunked()
        return self.exactly(int(head.headers.get("content-length", "0")))

    def exactly(self, size: int) -> bytes | None:
        """So many bytes; None if the connection ended before."""
        while len(self.buffer) < size:
            if not self.more():
                return None
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def _chunked(self) -> bytes | None:
        body = b""
        while True:
            while b"\r\n" not in self.buffer:
                if not self.more():
                    return None
            size, _, self.buffer = self.buffer.partition(b"\r\n")
            data = self.exactly(int(size, 16) + 2)
            if data is None or size == b"0":
                return None if data is None else body
            body += data[:-2]

    def until_closed(self) -> None:
        """Read until the client has gone."""
        while self.more():
            self.buffer = b""

    # -- out -------------------------------------------------------------------------------

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.sock.sendall(part)

    def together(self, *parts: bytes) -> None:
        """Send parts (TLS: records) so that they arrive at once."""
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        self.send(*parts)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    def answer(self, status: int = 200, body: bytes = b"", *lines: str) -> None:
        """A response with a Content-Length and more header lines."""
        head = [f"HTTP/1.1 {status} Whatever", f"content-length: {len(body)}", *lines]
        self.send("\r\n".join([*head, "", ""]).encode("latin-1") + body)

    def finish(self) -> None:
        """Say that nothing more comes (FIN, whatever a TLS session says), and go on reading."""
        self.act.left = True
        with socket.socket(fileno=os.dup(self.sock.fileno())) as below:
            below.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close with an RST."""
        self.act.left = True
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.sock.close()

    def wait(self) -> None:
        """Wait for the case to open the gate, with a bound."""
        assert self.act.gate.wait(BOUND), "nobody has opened the gate"


Handler: TypeAlias = Callable[[Peer], None]


class Act:
    """One client's time with the server. `gate`: for handlers to wait for; open at the end.
    `signal`: for the case to wait for. `left`: whether the server has ended a connection, so that
    a client may hear of it sooner or later. `number`: what the case tells handlers by."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.signal = threading.Event()
        self.lines: list[Line] = []
        self.socks: list[socket.socket] = []
        self.threads: list[threading.Thread] = []
        self.failures: list[BaseException] = []
        self.left = False
        self.number = 0


class Stage:
    """A listener that serves acts. `port`, `authority` (host:port) and `url` stay the same.

    host: an IP address, or the path of a Unix socket.
    """

    port: int

    def __init__(
        self,
        *handlers: Handler,
        context: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        receive_buffer: int | None = None,
    ) -> None:
        self._handlers = handlers
        self._context = context
        if context is not None:
            context.sni_callback = note_name
        self._listener, *self._kept_free = _alone(host)
        if receive_buffer is not None:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._listener.listen(128)
        self.scheme = "https" if context else "http"
        self.path = host if _is_path(host) else None
        self.port, self.authority = 0, "localhost"
        if not _is_path(host):
            self.port = self._listener.getsockname()[1]
            self.authority = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self.url = f"{self.scheme}://{self.authority}"
        self.act = Act()
        self._host = host
        self._last: object = None  # the local address of the connection that ends an act
        self._accepted = threading.Event()

    def __enter__(self) -> Stage:
        self._accepting = threading.Thread(target=self._accept, name=f"stage {self.authority}")
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        _shut(self._listener)
        self._accepting.join(BOUND)
        self._listener.close()
        for sock in self._kept_free:
            sock.close()
        if _is_path(self._host):
            os.unlink(self._host)

    def begin(self) -> Act:
        """Begin an act: the next client's."""
        self.act = Act()
        return self.act

    def end(self) -> list[Line]:
        """End the act, its client being closed; its journal. Blocks. Raises what failed in a
        handler."""
        act = self.act
        act.gate.set()
        self._accept_all()
        for thread, line in zip(act.threads, act.lines, strict=True):
            thread.join(PATIENCE)
            if thread.is_alive():
                line.said.append("left open by the client")
        for sock in act.socks:
            _shut(sock)
        for thread in act.threads:
            thread.join(BOUND)
            assert not thread.is_alive(), f"a handler of {self.url} does not end"
        if act.failures:
            raise act.failures[0]
        return act.lines

    def _accept_all(self) -> None:
        """Wait until every connection has been accepted: one of our own, the last, tells."""
        with socket.socket(self._listener.family) as last:
            last.settimeout(BOUND)
            last.bind("" if _is_path(self._host) else (self._host, 0))  # "": Linux finds a name
            self._accepted.clear()
            self._last = last.getsockname()
            last.connect(self._listener.getsockname())
            assert self._accepted.wait(BOUND), "the listener does not accept"
        self._last = None  # the address may be a client's next

    # -- connections -----------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                sock, address = self._listener.accept()
            except OSError:  # shut down: the test is over
                return
            if address == self._last:
                sock.close()
                self._accepted.set()
                continue
            sock.settimeout(BOUND)
            if not _is_path(self._host):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            act = self.act
            peer = Peer(act, sock, len(act.lines), Line())
            thread = threading.Thread(target=self._handle, args=(peer,), name="handler")
            act.lines.append(peer.line)
            act.socks.append(sock)
            act.threads.append(thread)
            thread.start()

    def _handle(self, peer: Peer) -> None:
        handler = self._handlers[min(peer.number, len(self._handlers) - 1)]
        try:
            if self._context is not None:
                self._secure(peer, self._context)
            handler(peer)
        except OSError:  # the client has gone, or the test is over
            pass
        except BaseException as error:
            peer.act.failures.append(error)
            if not isinstance(error, Exception):
                raise
        finally:
            peer.sock.close()

    def _secure(self, peer: Peer, context: ssl.SSLContext) -> None:
        """The handshake, and what it tells: the name asked for, the protocol agreed on."""
        asked: list[str | None] = []
        try:
            sock = context.wrap_socket(peer.sock, server_side=True, do_handshake_on_connect=False)
            peer.sock = peer.act.socks[peer.number] = sock
            vars(sock)["asked"] = asked
            sock.do_handshake()
        except ssl.SSLError as error:
            peer.line.said.append(f"handshake failed: {error.reason}")
            raise
        finally:
            peer.line.said.append(f"asked for {asked}")
        peer.line.said.append(f"agreed on {sock.selected_alpn_protocol()}")


def note_name(sock: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
    """For `SSLContext.sni_callback`: the name that the client has asked for."""
    vars(sock)["asked"].append(name)


def _is_path(host: str) -> bool:
    return host.startswith("/")


def _family(host: str) -> socket.AddressFamily:
    if _is_path(host):
        return socket.AF_UNIX
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _alone(host: str) -> list[socket.socket]:
    """A bound socket, and one that keeps its port free on the other family's loopback: cases have
    clients and proxies go there to be refused, and would meet another test's server."""
    while True:
        held = [socket.socket(_family(host))]
        held[0].bind(host if _is_path(host) else (host, 0))
        if _is_path(host):
            return held
        there = OTHER[":" in host]
        try:
            held.append(socket.socket(_family(there)))
            held[1].bind((there, held[0].getsockname()[1]))
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                return held  # the machine has no such loopback
            for sock in held:
                sock.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return held


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:  # closed already
        return


# -- usual handlers ------------------------------------------------------------------------


def echo(peer: Peer) -> None:
    """Every request is answered with its own body, or with its path."""
    while (seen := peer.request()) is not None:
        head, body = seen
        peer.answer(200, b"" if head.method == "HEAD" else body or head.target.encode())


def raw(*answers: bytes, after: Handler | None = None) -> Handler:
    """One request after the other gets these bytes; the last ones all that follow, or the
    connection goes to `after`."""

    def handler(peer: Peer) -> None:
        for answer in answers:
            if peer.request() is None:
                return
            peer.send(answer)
        if after is not None:
            after(peer)
        while peer.request() is not None:
            peer.send(answers[-1])

    return handler


def closing(answer: bytes) -> Handler:
    """One request gets these bytes, then the connection ends in good order."""

    def handler(peer: Peer) -> None:
        if peer.request() is not None:
            peer.send(answer)
            peer.finish()
            peer.until_closed()

    return handler
