"""A PostgreSQL server that lets everybody in and says 7, on loopback (protocol 3.0)."""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl
import struct
import threading
from collections.abc import Iterator

from tests.shims.adapters.site import Site, serving

SSL_REQUEST = 80877103
CANCEL_REQUEST = 80877102
GSS_REQUEST = 80877104


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


IDLE = message(b"Z", b"I")
COLUMN = b"n\0" + struct.pack("!IHIhIH", 0, 0, 23, 4, 0xFFFFFFFF, 0)  # an int4
SEVEN = (
    message(b"T", struct.pack("!H", 1) + COLUMN)
    + message(b"D", struct.pack("!HI", 1, 1) + b"7")
    + message(b"C", b"SELECT 1\0")
)
SETTINGS = {
    "server_version": "15.0",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "default_transaction_read_only": "off",
    "in_hot_standby": "off",
    "integer_datetimes": "on",
    "TimeZone": "UTC",
}


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise ConnectionError("the client has left")
        data += more
    return data


def postgres(
    sock: socket.socket,
    *,
    context: ssl.SSLContext | None = None,
    refuses: str = "",
    standby: bool = False,
    cancelled: threading.Event | None = None,
) -> None:
    """`context`: takes TLS. `refuses`: the error for everybody. `standby`: says so. `cancelled`: a
    cancel has come. A query with `mute` in it is not answered."""
    with contextlib.ExitStack() as stack:
        while True:
            length, code = struct.unpack("!II", exactly(sock, 8))
            exactly(sock, length - 8)
            if code == CANCEL_REQUEST:
                if cancelled is not None:
                    cancelled.set()
                return
            if code not in (SSL_REQUEST, GSS_REQUEST):
                break
            if code == GSS_REQUEST or context is None:
                sock.sendall(b"N")
            else:
                sock.sendall(b"S")
                sock = stack.enter_context(context.wrap_socket(sock, server_side=True))
        if not refuses:
            talk(sock, standby=standby)
        else:
            fields = f"SFATAL\0C28P01\0M{refuses}\0\0".encode()
            sock.sendall(message(b"E", fields))


def talk(sock: socket.socket, *, standby: bool) -> None:
    settings = {**SETTINGS, "in_hot_standby": "on" if standby else "off"}
    said = [message(b"S", f"{name}\0{value}\0".encode()) for name, value in settings.items()]
    key = message(b"K", struct.pack("!II", 1, 1))
    sock.sendall(message(b"R", struct.pack("!I", 0)) + b"".join(said) + key + IDLE)
    while True:
        kind, length = struct.unpack("!cI", exactly(sock, 5))
        body = exactly(sock, length - 4)
        if kind == b"X":
            return
        if kind == b"Q" and b"mute" not in body:
            sock.sendall((SEVEN if b"elect" in body else message(b"C", b"BEGIN\0")) + IDLE)


@contextlib.contextmanager
def database(
    context: ssl.SSLContext | None = None,
    refuses: str = "",
    *,
    standby: bool = False,
    cancelled: threading.Event | None = None,
) -> Iterator[Site]:
    """Such a server at work."""
    way = {"context": context, "refuses": refuses, "standby": standby, "cancelled": cancelled}
    with serving(functools.partial(postgres, **way)) as made:  # type: ignore[arg-type]  # a mix
        yield made
