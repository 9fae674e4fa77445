"""What a program has set on a socket of its own, to be set on another that takes its place.

An option was set by the program where it differs from that of a fresh socket of the same kind: no
kernel tells who set what. Read before the connect is over, because some figures move with it.

Left out, because they read otherwise once a connect is under way or a system call changes them by
itself: TCP_MAXSEG, TCP_WINDOW_CLAMP, TCP_QUICKACK, TCP_FASTOPEN_CONNECT, TCP_ULP and keys of
TCP-AO and MD5, which cannot be read at all. Source: tcp(7), ip(7), ipv6(7), socket(7), the
headers linux/tcp.h, linux/in.h, linux/in6.h and asm-generic/socket.h for the numbers.
"""

from __future__ import annotations

import functools
import socket
import struct
import sys
from typing import NamedTuple

from outlast.net.options import SocketOption

__all__ = ["bound_source", "carried"]

SOL, TCP = socket.SOL_SOCKET, socket.IPPROTO_TCP
IP, IP6 = socket.IPPROTO_IP, socket.IPPROTO_IPV6
LINUX = sys.platform == "linux"
DOUBLED = {(SOL, socket.SO_SNDBUF), (SOL, socket.SO_RCVBUF)} if LINUX else set()


class _Known(NamedTuple):
    level: int
    number: int
    length: int  # of a value that is bytes; 0 for an int


def _named(level: int, names: str, *, length: int = 0) -> list[_Known]:
    """Options by their Python names; those that this platform has."""
    numbers = [getattr(socket, name, None) for name in names.split()]
    return [_Known(level, number, length) for number in numbers if number is not None]


def _numbered(level: int, *numbers: int, length: int = 0) -> list[_Known]:
    """Options of Linux by their numbers, where Python has no name."""
    return [_Known(level, number, length) for number in numbers] if LINUX else []


_SOCKET = [
    *_named(SOL, "SO_REUSEADDR SO_REUSEPORT SO_DONTROUTE SO_SNDBUF SO_RCVBUF SO_OOBINLINE"),
    *_named(SOL, "SO_RCVLOWAT"),
    *_named(SOL, "SO_LINGER", length=struct.calcsize("ii")),
    *(_named(SOL, "SO_RCVTIMEO SO_SNDTIMEO", length=struct.calcsize("@ll")) if LINUX else []),
    *_named(SOL, "SO_BINDTODEVICE", length=16),
    *_named(SOL, "SO_MARK"),
    *_numbered(SOL, 46, 47, 60),  # SO_BUSY_POLL, SO_MAX_PACING_RATE, SO_ZEROCOPY
]
_KEEPALIVE = [
    *_named(SOL, "SO_KEEPALIVE"),
    *_named(TCP, "TCP_KEEPIDLE TCP_KEEPALIVE TCP_KEEPINTVL TCP_KEEPCNT"),
]
_TCP = [
    *_named(TCP, "TCP_NODELAY TCP_CORK TCP_SYNCNT TCP_LINGER2 TCP_USER_TIMEOUT"),
    *_named(TCP, "TCP_NOTSENT_LOWAT"),
    *_named(TCP, "TCP_CONGESTION", length=16),
    *_numbered(TCP, 16, 44),  # TCP_THIN_LINEAR_TIMEOUTS, TCP_RTO_MAX_MS
]
_BY_FAMILY = {
    socket.AF_INET: [
        *_named(IP, "IP_TOS IP_TTL IP_TRANSPARENT IP_BIND_ADDRESS_NO_PORT"),
        *_numbered(IP, 10, 11, 15, 21, 51),  # MTU_DISCOVER, RECVERR, FREEBIND, MINTTL, port range
    ],
    socket.AF_INET6: [
        *_named(IP6, "IPV6_V6ONLY IPV6_TCLASS IPV6_UNICAST_HOPS IPV6_DONTFRAG"),
        *_numbered(IP6, 23, 25, 70, 72, 73, 75, 78),  # as for IPv4, and AUTOFLOWLABEL, preferences
        *_named(IP, "IP_TOS IP_BIND_ADDRESS_NO_PORT"),
    ],
}
# The last, because a type of service changes it.
_PRIORITY = _named(SOL, "SO_PRIORITY")


def carried(sock: socket.socket) -> tuple[SocketOption, ...]:
    """The options that differ from a fresh socket's of the same family, in an order in which they
    may be set on one. Call it before the connection stands. Raises OSError if `sock` is closed."""
    with socket.socket(sock.family, sock.type, sock.proto) as fresh:
        known = [*_SOCKET, *_KEEPALIVE, *_TCP, *_BY_FAMILY.get(sock.family, ()), *_PRIORITY]
        found = []
        for option in known:
            value = _read(sock, option)
            if value is not None and value != _read(fresh, option):
                found.append((option.level, option.number, _as_set(option, value)))
    return tuple(found)


def _read(sock: socket.socket, option: _Known) -> int | bytes | None:
    """What holds; None if this kernel does not know the option."""
    try:
        if option.length:
            return sock.getsockopt(option.level, option.number, option.length)
        return sock.getsockopt(option.level, option.number)
    except OSError:
        if sock.fileno() < 0:
            raise
        return None


def _as_set(option: _Known, value: int | bytes) -> int | bytes:
    """What gives `value` when it is set: Linux doubles the sizes of buffers (socket(7))."""
    if isinstance(value, int) and (option.level, option.number) in DOUBLED:
        return value // 2
    return value


_UNBOUND = (("0.0.0.0", 0), ("::", 0, 0, 0))


def bound_source(sock: socket.socket) -> tuple[str, int] | None:
    """What a socket that has not begun to connect is bound to; None if to nothing.

    The port is 0 where the kernel drew it: another dial has to draw another one, or it meets the
    same backend (linux-tcp facts 9.2). Raises OSError.
    """
    name = sock.getsockname()
    if name in _UNBOUND or sock.family not in _BY_FAMILY:
        return None
    host, port = name[:2]
    first, last = _drawn_from()
    return host, 0 if first <= port <= last else port


@functools.lru_cache(maxsize=1)
def _drawn_from() -> tuple[int, int]:
    """The ports that the kernel draws from; RFC 6335 section 6 where it does not tell."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as told:
            first, last = map(int, told.read().split())
    except (OSError, ValueError):
        return 49152, 65535
    return first, last
