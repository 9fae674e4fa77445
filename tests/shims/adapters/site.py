"""A server on loopback that talks as it is told, and what stands for a node that is lost.

A peer that goes dead: a socket filter on its side drops every segment, so that nothing is
acknowledged any more, as after a loss of power. Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from typing import TypeAlias

from tests.net.pairs import PATIENCE

SO_ATTACH_FILTER = 26  # asm-generic/socket.h
RETURN_NOTHING = struct.pack("HBBI", 0x06, 0, 0, 0)  # BPF_RET | BPF_K, 0 bytes

Talk: TypeAlias = "Callable[[socket.socket], None]"


def go_dead(sock: socket.socket) -> None:
    """From now on no segment reaches this socket, and so none is answered."""
    code = ctypes.create_string_buffer(RETURN_NOTHING)
    program = struct.pack("HL", 1, ctypes.addressof(code))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


class Site:
    """Serves every connection with `talk` on a thread of its own, until `close`.

    `accepted`: the server's ends, in order; `peers`: whose address each had. `errors`:
    what `talk` has raised, but for OSError.
    """

    def __init__(self, talk: Talk, context: ssl.SSLContext | None = None) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.accepted: list[socket.socket] = []
        self.peers: list[str] = []
        self.errors: list[Exception] = []
        self._talk = talk
        self._context = context
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                sock, (peer, _) = self.listener.accept()
            except OSError:  # closed
                return
            sock.settimeout(PATIENCE)
            self.accepted.append(sock)
            self.peers.append(peer)
            thread = threading.Thread(target=self._serve, args=(sock,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            if self._context is None:
                self._talk(sock)
            else:
                with self._context.wrap_socket(sock, server_side=True) as secure:
                    self.accepted[self.accepted.index(sock)] = secure
                    self._talk(secure)
        except OSError:  # the client has left
            pass
        except Exception as error:  # noqa: BLE001  told at the end
            self.errors.append(error)
        finally:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End every connection, and wait for the threads."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for sock in [*self.accepted]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in [*self._threads]:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        for sock in self.accepted:
            sock.close()
        assert self.errors == []


@contextlib.contextmanager
def serving(talk: Talk, context: ssl.SSLContext | None = None) -> Iterator[Site]:
    """A site, closed at the end."""
    site = Site(talk, context)
    try:
        yield site
    finally:
        site.close()


def wait_for_end(sock: socket.socket) -> None:
    """Say nothing, until the client leaves."""
    while sock.recv(65_536):
        pass


# -- HTTP --------------------------------------------------------------------------------------


def http(sock: socket.socket) -> None:
    """Answers each request with its own first line; /close ends the connection, /mute says
    nothing. CONNECT opens a tunnel to the port that it names, on loopback."""
    buffer = b""
    while True:
        while b"\r\n\r\n" not in buffer:
            data = sock.recv(65_536)
            if not data:
                return
            buffer += data
        head, _, buffer = buffer.partition(b"\r\n\r\n")
        first = head.split(b"\r\n")[0]
        if first.startswith(b"CONNECT "):
            tunnel(sock, int(first.split()[1].rpartition(b":")[2]))
            return
        if b"/mute" in first:
            sock.recv(1)
            return
        body = head.split(b"\r\n")[0]
        last = b"/close" in first
        fields = b"content-length: %d\r\n" % len(body) + b"connection: close\r\n" * last
        sock.sendall(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n" + body)
        if last:
            return


def tunnel(sock: socket.socket, port: int) -> None:
    """Carry bytes to and from a port on loopback."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as far:
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        back = threading.Thread(target=carry, args=(far, sock))
        back.start()
        carry(sock, far)
        back.join(PATIENCE)


def carry(source: socket.socket, sink: socket.socket) -> None:
    """All bytes, and then the end."""
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
