"""A TLS server on loopback that treats each connection as it is told."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from outlast.net.address import Address
from tests.net.far_side import PATIENCE
from tests.net.kernel_world import on_loopback
from tests.net.tls_pair import server_context

Behaviour: TypeAlias = "Callable[[socket.socket, ssl.SSLContext], None]"
GREETING = b"220 welcome\r\n"


def mute(sock: socket.socket, context: ssl.SSLContext) -> None:
    """Accept, and never say a word: until the client leaves."""
    while sock.recv(65_536):
        pass


def leaving(sock: socket.socket, context: ssl.SSLContext) -> None:
    """Accept, and close."""


def greeting(sock: socket.socket, context: ssl.SSLContext) -> None:
    """Shake hands, say something at once, echo, and end in good order."""
    with context.wrap_socket(sock, server_side=True) as session:
        session.sendall(GREETING)
        while data := session.recv(65_536):
            session.sendall(data)
        session.unwrap()


def hanging_up(sock: socket.socket, context: ssl.SSLContext) -> None:
    """Shake hands, say something, and leave without close_notify."""
    with context.wrap_socket(sock, server_side=True) as session:
        session.sendall(GREETING)
        session.recv(65_536)


class TlsServer:
    """Serves one connection for each of `behaviours`, side by side; `close` waits for them."""

    def __init__(self, behaviours: Sequence[Behaviour], context: ssl.SSLContext | None = None):
        self.context = context or server_context()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE)
        self.address: Address = on_loopback(self.listener)
        self.accepted = 0
        self.errors: list[str] = []
        self._behaviours = behaviours
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        for behaviour in self._behaviours:
            try:
                sock, _ = self.listener.accept()
            except OSError:  # closed: there will be no more
                return
            self.accepted += 1
            thread = threading.Thread(target=self._serve, args=(behaviour, sock))
            self._threads.append(thread)
            thread.start()

    def _serve(self, behaviour: Behaviour, sock: socket.socket) -> None:
        sock.settimeout(PATIENCE)
        with sock:
            try:
                behaviour(sock, self.context)
            except OSError as error:
                self.errors.append(str(error))

    def close(self) -> None:
        """Accept no more, and wait for those that were accepted. Idempotent."""
        if self.listener.fileno() >= 0:
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes the accept
        self._threads[0].join(PATIENCE)
        self.listener.close()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
