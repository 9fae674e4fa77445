"""Raw proxies on loopback, as handlers of a `Server`: HTTP with CONNECT, and SOCKS5.

They look no name up: `Streets` says where an authority ("orders.shop.svc:443") leads, whatever is
not in it leads where it says. What they were asked stands in the server's `requests`: for SOCKS5
as a request with the method SOCKS5, its target as it was written, its user and password as headers.
"""

from __future__ import annotations

import base64
import contextlib
import select
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import TypeAlias

from tests.http.servers import BOUND, Handler, Peer, Seen

Streets: TypeAlias = Mapping[str, str]
Sock: TypeAlias = "socket.socket | ssl.SSLSocket"
LENGTH = b"content-length:"


def lead(streets: Streets, target: str) -> socket.socket:
    """A connection to where a target leads."""
    host, _, port = streets.get(target, target).rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), BOUND)


def relay(near: Sock, far: Sock) -> None:
    """Carry bytes both ways until one side ends."""
    with contextlib.suppress(OSError):
        while True:
            for source in _readable(near, far):
                data = source.recv(65_536)
                if not data:
                    return
                (far if source is near else near).sendall(data)


def _readable(*socks: Sock) -> list[Sock]:
    for sock in socks:
        if isinstance(sock, ssl.SSLSocket) and sock.pending():
            return [sock]
    ready, _, _ = select.select(socks, [], [], BOUND)
    assert ready, "nothing goes through the proxy any more"
    return list(ready)


# -- HTTP ----------------------------------------------------------------------------------


def basic(user: str, password: str) -> str:
    """The credentials as a header's value."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def http_proxy(streets: Streets | None = None, *, credentials: str | None = None) -> Handler:
    """Forwards and tunnels; 407 for whoever lacks the credentials."""

    def handler(peer: Peer) -> None:
        while (seen := peer.request()) is not None:
            if credentials not in (None, seen.headers.get("proxy-authorization")):
                peer.answer(407, b"who?", proxy_authenticate='Basic realm="proxy"')
            elif seen.method == "CONNECT":
                tunnel(peer, streets or {}, seen)
                return
            else:
                forward(peer, streets or {}, seen)

    return handler


def tunnel(peer: Peer, streets: Streets, seen: Seen) -> None:
    with lead(streets, seen.target) as far:
        peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        relay(peer.sock, far)


def forward(peer: Peer, streets: Streets, seen: Seen) -> None:
    """One request, one answer, one connection to the origin."""
    scheme, _, rest = seen.target.partition("://")
    assert scheme == "http", f"not in absolute form: {seen.target}"
    authority, slash, path = rest.partition("/")
    target = authority if ":" in authority else f"{authority}:80"
    kept = {k: v for k, v in seen.headers.items() if not k.startswith("proxy-")}
    kept.pop("transfer-encoding", None)
    kept["content-length"] = str(len(seen.body))
    lines = [f"{seen.method} {slash}{path} HTTP/1.1", *(f"{k}: {v}" for k, v in kept.items())]
    with lead(streets, target) as far:
        far.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + seen.body)
        peer.send(whole_answer(far))


def whole_answer(far: socket.socket) -> bytes:
    """A response with a Content-Length, head and body, as it came."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += more(far)
    head, _, body = data.partition(b"\r\n\r\n")
    (size,) = (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == LENGTH)
    while len(body) < size:
        body += more(far)
    return head + b"\r\n\r\n" + body


def more(far: socket.socket) -> bytes:
    data = far.recv(65_536)
    assert data, "the origin has left"
    return data


def answering_connect(answer: bytes, then: Callable[[Peer], None] | None = None) -> Handler:
    """Takes one CONNECT, says these bytes, and waits for the client to leave."""

    def handler(peer: Peer) -> None:
        peer.request()
        peer.send(answer)
        (then or Peer.until_closed)(peer)

    return handler


# -- SOCKS5 --------------------------------------------------------------------------------


def socks_proxy(
    streets: Streets | None = None,
    *,
    credentials: tuple[str, str] | None = None,
    reply: int = 0,
    bound: bytes = b"\x01\x7f\x00\x00\x01\x1f\x90",
    piece: int = 1 << 16,
) -> Handler:
    """Connects where it is asked to. `reply`: instead. `bound`: what it says it connects from.
    `piece`: bytes of its answers that leave at once."""

    def handler(peer: Peer) -> None:
        said = methods(peer)
        wanted = 2 if credentials else 0
        if wanted not in said:
            peer.send(b"\x05\xff")
            return
        in_pieces(peer, bytes((5, wanted)), piece)
        user = password(peer) if credentials else ("", "")
        if credentials:
            in_pieces(peer, bytes((1, user != credentials)), piece)
            if user != credentials:
                return
        target = destination(peer)
        headers = {"user": user[0], "password": user[1]}
        peer.server.note(Seen("SOCKS5", target, headers, b"", peer.number))
        if reply:
            peer.send(bytes((5, reply, 0)) + bound)
            return
        with lead(streets or {}, target) as far:
            in_pieces(peer, b"\x05\x00\x00" + bound, piece)
            relay(peer.sock, far)

    return handler


def methods(peer: Peer) -> bytes:
    """The methods that a client offers."""
    version, count = peer.exactly(2)
    assert version == 5
    return peer.exactly(count)


def password(peer: Peer) -> tuple[str, str]:
    (version,) = peer.exactly(1)
    assert version == 1
    user = peer.exactly(*peer.exactly(1)).decode()
    return user, peer.exactly(*peer.exactly(1)).decode()


def destination(peer: Peer) -> str:
    version, command, reserved, kind = peer.exactly(4)
    assert (version, command, reserved) == (5, 1, 0)
    if kind == 3:
        host = peer.exactly(*peer.exactly(1)).decode()
    else:
        family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
        host = socket.inet_ntop(family, peer.exactly(size))
    port = int.from_bytes(peer.exactly(2), "big")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def in_pieces(peer: Peer, data: bytes, piece: int) -> None:
    for start in range(0, len(data), piece):
        peer.send(data[start : start + piece])
