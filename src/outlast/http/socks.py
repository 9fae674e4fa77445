"""SOCKS5 as a talk (see `proxy`): the method, the password if there is one, the destination.

Names go to the proxy as they are and are looked up there, for socks5:// as for socks5h://, as in
httpx. Not a byte behind the proxy's own answers is taken: a server that speaks first may be behind
it. With a user and a password only that method is offered, without them only the method without.
Sources: RFC 1928, RFC 1929. Refuses GSSAPI, BIND and UDP: HTTP needs none of them.
"""

from __future__ import annotations

import errno
import ipaddress
from collections.abc import Generator

from outlast.http.proxy import ProxyFault, Talk, final
from outlast.net.address import literal

__all__ = ["socks5"]

VERSION = b"\x05"
PASSWORD_VERSION = b"\x01"  # of RFC 1929
CONNECT = b"\x05\x01\x00"
NAME = b"\x03"  # the address type of a name, which its length precedes
LENGTHS = {b"\x01": 4, b"\x04": 16}  # bytes of the other address types
ANONYMOUS, PASSWORD, NO_METHOD = b"\x00", b"\x02", b"\xff"
METHODS = {ANONYMOUS: "no authentication", b"\x01": "GSSAPI", PASSWORD: "username and password"}
DONE = b"\x00"
REPLIES = {
    1: "General SOCKS server failure",
    2: "Connection not allowed by ruleset",
    3: "Network unreachable",
    4: "Host unreachable",
    5: "Connection refused",
    6: "TTL expired",
    7: "Command not supported",
    8: "Address type not supported",
}
FOR_GOOD = frozenset({2, 7, 8})  # any other may be the trouble of one of the proxy's addresses


def socks5(host: str, port: int, auth: tuple[bytes, bytes] | None, proxy: str) -> Talk:
    """Ask a SOCKS5 proxy for a connection. `auth`: user and password, of 255 bytes at most.

    `proxy` is its name in errors. Raises ProxyFault, or TransportFailure for a refusal that is
    final.
    """
    destination = _destination(host, proxy) + port.to_bytes(2, "big")
    method = ANONYMOUS if auth is None else PASSWORD
    answer = yield from _exactly(VERSION + b"\x01" + method, 2, proxy)
    if answer[:1] != VERSION:
        raise final(f"{proxy} speaks no SOCKS5: its answer begins with {answer!r}")
    if answer[1:] != method:
        raise final(_other_method(proxy, method, answer[1:]))
    if auth is not None:
        credentials = PASSWORD_VERSION + _counted(auth[0]) + _counted(auth[1])
        answer = yield from _exactly(credentials, 2, proxy)
        if answer[1:] != DONE:  # some proxies give another version
            raise final(f"Invalid username/password ({proxy})")
    where = f"{proxy} to connect to {host}:{port}"
    answer = yield from _exactly(CONNECT + destination, 2, where)
    if answer[:1] != VERSION or answer[1:] != DONE:
        raise _unreached(answer, where)
    yield from _bound(where)


def _bound(where: str) -> Generator[tuple[bytes, int], bytes, None]:
    """The rest of the answer: the address that the proxy connects from, which is of no use."""
    kind = (yield from _exactly(b"", 2, where))[1:]
    length = LENGTHS.get(kind)
    if kind == NAME:
        length = (yield from _exactly(b"", 1, where))[0]
    if length is None:
        raise final(f"{where}: its answer has an address of type {kind!r}, which SOCKS5 has not")
    yield from _exactly(b"", length + 2, where)


def _exactly(out: bytes, size: int, where: str) -> Generator[tuple[bytes, int], bytes, bytes]:
    """Send, and take so many bytes."""
    data = b""
    while len(data) < size:
        piece = yield out, size - len(data)
        if not piece:
            told = f"{where}: the proxy closed the connection in the middle of SOCKS5"
            raise ProxyFault("ProxyError", told, errno.ECONNRESET, blame=True)
        data += piece
        out = b""
    return data


def _counted(text: bytes) -> bytes:
    return bytes((len(text),)) + text


def _destination(host: str, proxy: str) -> bytes:
    if literal(host, 0) is not None:
        address = ipaddress.ip_address(host)
        return (b"\x01" if address.version == 4 else b"\x04") + address.packed
    name = host.encode("ascii")
    if len(name) > 255:
        raise final(f"{proxy}: SOCKS5 takes names of 255 bytes at most, not {host!r}")
    return NAME + _counted(name)


def _other_method(proxy: str, asked: bytes, chosen: bytes) -> str:
    told = f"{proxy} was offered {METHODS[asked]}"
    if chosen != NO_METHOD:
        return f"{told}, but chose {METHODS.get(chosen, repr(chosen))}"
    hint = "" if asked == PASSWORD else "; if it wants one, write 'socks5://user:password@host'"
    return f"{told}, which it does not accept{hint}"


def _unreached(answer: bytes, where: str) -> Exception:
    reply = answer[1]
    told = f"Proxy Server could not connect: {REPLIES.get(reply, f'reply {reply}')} ({where})"
    if answer[:1] != VERSION or reply in FOR_GOOD:
        return final(told)
    return ProxyFault("ProxyError", told, blame=False)
