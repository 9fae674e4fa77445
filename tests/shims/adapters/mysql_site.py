"""A MySQL server that lets everybody in and says 7, on loopback (protocol 10)."""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl
import struct
from collections.abc import Iterator

from tests.shims.adapters.postgres_site import exactly
from tests.shims.adapters.site import Site, serving

CAPABILITIES = 0x00_0F_A2_05  # protocol 4.1, secure connection, plugin auth, transactions
TLS = 0x800
OK = b"\0\0\0\2\0\0\0"
QUERY, PING, QUIT = 3, 14, 1


def packet(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


def received(sock: socket.socket) -> tuple[int, bytes]:
    """Its number and body."""
    head = exactly(sock, 4)
    return head[3], exactly(sock, int.from_bytes(head[:3], "little"))


def greeting(*, secure: bool) -> bytes:
    flags = CAPABILITIES | (TLS if secure else 0)
    low, high = struct.pack("<H", flags & 0xFFFF), struct.pack("<H", flags >> 16)
    salt = b"12345678", b"123456789012\0"
    middle = b"\x2d\2\0" + high + b"\x15" + bytes(10)
    head = b"\x0a8.0.0\0" + struct.pack("<I", 1) + salt[0] + b"\0" + low
    return packet(0, head + middle + salt[1] + b"mysql_native_password\0")


def seven() -> bytes:
    """A result of one column and one row."""
    words = (b"def", b"", b"", b"", b"n", b"n")
    column = b"".join(bytes([len(word)]) + word for word in words)
    column += b"\x0c" + struct.pack("<HIBHBH", 63, 11, 3, 0, 0, 0)
    end = b"\xfe\0\0\2\0"
    bodies = (b"\1", column, end, b"\x017", end)
    return b"".join(packet(number + 1, body) for number, body in enumerate(bodies))


def mysql(sock: socket.socket, *, context: ssl.SSLContext | None) -> None:
    """A query with `mute` in it is not answered."""
    with contextlib.ExitStack() as stack:
        sock.sendall(greeting(secure=context is not None))
        number, _ = received(sock)
        if context is not None:
            sock = stack.enter_context(context.wrap_socket(sock, server_side=True))
            number, _ = received(sock)
        sock.sendall(packet(number + 1, OK))
        while True:
            _, body = received(sock)
            if body[0] == QUIT:
                return
            if b"mute" not in body:
                sock.sendall(seven() if b"elect" in body else packet(1, OK))


@contextlib.contextmanager
def database(context: ssl.SSLContext | None = None) -> Iterator[Site]:
    """Such a server at work."""
    with serving(functools.partial(mysql, context=context)) as made:
        yield made
