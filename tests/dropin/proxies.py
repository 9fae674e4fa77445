"""Proxies in the client's way: HTTP with CONNECT, and SOCKS5, and a stage that has one.

They take any name for an address of the loopback, and tell what they were asked: HTTP proxies as
any server does, SOCKS5 as a request with the method SOCKS5.
"""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Sequence

from tests.dropin.stage import BOUND, Act, Handler, Head, Line, Peer, Stage
from tests.http.proxy_servers import relay

__all__ = ["ProxiedStage", "answering_connect", "basic", "http_proxy", "proxy_url", "socks_proxy"]

HELD = b"HTTP/1.1 200 Connection established\r\n\r\n"
WHO = 'proxy-authenticate: Basic realm="proxy"'


class ProxiedStage(Stage):
    """An origin, and the proxy before it."""

    def __init__(
        self,
        proxy: Handler,
        *handlers: Handler,
        context: ssl.SSLContext | None = None,
        proxy_context: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(*handlers, context=context, host=host)
        self.proxy = Stage(proxy, context=proxy_context)

    def __enter__(self) -> Stage:
        self.proxy.__enter__()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.proxy.__exit__()

    def begin(self) -> Act:
        """See `Stage.begin`."""
        self.proxy.begin()
        return super().begin()

    def end(self) -> list[Line]:
        """See `Stage.end`; the proxy's connections, then the origin's."""
        self.act.gate.set()
        return [*self.proxy.end(), *super().end()]


def proxy_url(stage: Stage, scheme: str = "http", user: str = "") -> str:
    """The URL of a stage's proxy. `user`: "name:password"."""
    assert isinstance(stage, ProxiedStage)
    return f"{scheme}://{user}{'@' if user else ''}{stage.proxy.authority}"


def lead(host: str, port: int) -> socket.socket:
    """A connection to where a client wants to go: an origin has one of these two addresses."""
    try:
        return socket.create_connection(("::1" if ":" in host else "127.0.0.1", port), BOUND)
    except ConnectionRefusedError:
        return socket.create_connection(("::1", port), BOUND)


# -- HTTP ------------------------------------------------------------------------------------


def basic(user: str, password: str) -> str:
    """The credentials as a header's value."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def http_proxy(*, credentials: str | None = None, close: bool = False) -> Handler:
    """Forwards and tunnels; 407 for whoever lacks the credentials. `close`: it ends a connection
    when it has forwarded one request."""

    def handler(peer: Peer) -> None:
        while (seen := peer.request()) is not None:
            head, body = seen
            if credentials not in (None, head.headers.get("proxy-authorization")):
                peer.answer(407, b"who?", WHO)
            elif head.method == "CONNECT":
                host, _, port = head.target.rpartition(":")
                with lead(host, int(port)) as far:
                    peer.send(HELD)
                    relay(peer.sock, far)
                return
            else:
                answer = _forwarded(head, body)
                if close:
                    peer.send(answer.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
                    return
                peer.send(answer)

    return handler


def _forwarded(head: Head, body: bytes) -> bytes:
    """One request, one answer, one connection to the origin."""
    scheme, _, rest = head.target.partition("://")
    assert scheme == "http", f"not in absolute form: {head.target}"
    authority, slash, path = rest.partition("/")
    host, _, port = authority.rpartition(":")
    kept = {name: each for name, each in head.headers.items() if not name.startswith("proxy-")}
    kept.pop("transfer-encoding", None)
    kept["content-length"] = str(len(body))
    lines = [f"{head.method} {slash}{path} HTTP/1.1", *(f"{k}: {v}" for k, v in kept.items())]
    with lead(host, int(port)) as far:
        far.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        far.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: far.recv(65_536), b""))


def answering_connect(answer: bytes, *, end: bool = False) -> Handler:
    """Every CONNECT gets these bytes, then perhaps the connection's end."""

    def handler(peer: Peer) -> None:
        while peer.request() is not None:
            peer.send(answer)
            if end:
                peer.finish()

    return handler


# -- SOCKS5 ----------------------------------------------------------------------------------


def socks_proxy(
    *,
    credentials: tuple[str, str] | None = None,
    reply: int = 0,
    greeting: bytes | None = None,
    early_end: Sequence[str] = (),
) -> Handler:
    """Connects where it is asked to. `reply`: the refusal it gives instead. `greeting`: instead of
    the method it chooses. `early_end`: where it ends: "greeting", "reply". It ends after a refusal
    (RFC 1928 section 6)."""

    def handler(peer: Peer) -> None:
        _, count = _exactly(peer, 2)
        offered = _exactly(peer, count)
        if "greeting" in early_end:
            return
        if credentials is not None and 2 not in offered:
            peer.send(b"\x05\xff")
            return
        peer.send(greeting or bytes((5, 2 if credentials else 0)))
        if greeting is not None or (credentials is not None and not _known(peer, credentials)):
            return
        host, port = _destination(peer)
        peer.line.requests.append(f"SOCKS5 {host}")
        if reply:
            peer.send(bytes((5, reply, 0, 1)) + bytes(6))
        if reply or "reply" in early_end:
            return
        with lead(host, port) as far:
            peer.send(bytes((5, 0, 0, 1)) + bytes(6))
            relay(peer.sock, far)

    return handler


def _known(peer: Peer, credentials: tuple[str, str]) -> bool:
    """Whether these are the credentials that the client shows (RFC 1929)."""
    _exactly(peer, 1)
    user = _exactly(peer, *_exactly(peer, 1)).decode()
    password = _exactly(peer, *_exactly(peer, 1)).decode()
    known = (user, password) == credentials
    peer.send(bytes((1, not known)))
    return known


def _destination(peer: Peer) -> tuple[str, int]:
    kind = _exactly(peer, 4)[3]
    if kind == 3:
        host = _exactly(peer, *_exactly(peer, 1)).decode()
    else:
        family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
        host = socket.inet_ntop(family, _exactly(peer, size))
    return host.strip("[]"), int.from_bytes(_exactly(peer, 2), "big")


def _exactly(peer: Peer, size: int) -> bytes:
    data = peer.exactly(size)
    if data is None:
        raise ConnectionAbortedError("the client has gone")
    return data
