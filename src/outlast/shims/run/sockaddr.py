"""What a program wants to connect to, read from its memory, which is taken for hostile.

Whatever is odd (a bad pointer, a length that is none, a family that is not ours) gives None: the
kernel is left to say what it says. Bounds are those of the kernel itself: sockaddr_in has 16 bytes,
sockaddr_in6 at least 24 (net/ipv6/af_inet6.c, SIN6_LEN_RFC2133), no address more than 128.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from outlast.net.address import Address
from outlast.shims.run.calls import read_memory

__all__ = ["Wanted", "fitted", "packed", "read_address"]

LEAST, LEAST_SIX, MOST = 16, 24, 128
MAPPED = bytes(10) + b"\xff\xff"  # ::ffff:0:0/96, RFC 4291 section 2.5.5.2


@dataclass(frozen=True, slots=True)
class Wanted:
    """`raw`: as the program wrote it. `host`: as people write it; an IPv4 address for a mapped
    one."""

    family: int
    raw: bytes
    host: str
    port: int
    scoped: bool  # it names an interface


def read_address(pid: int, pointer: int, length: int) -> Wanted | None:
    """What stands at a thread's pointer; None for what is none of ours."""
    if not LEAST <= length <= MOST:
        return None
    try:
        raw = read_memory(pid, pointer, min(length, 28))
    except OSError:
        return None
    return parsed(raw)


def parsed(raw: bytes) -> Wanted | None:
    """See `read_address`."""
    family = int.from_bytes(raw[:2], "little")
    port = int.from_bytes(raw[2:4], "big")
    if not port:
        return None
    if family == socket.AF_INET:
        raw = raw[:LEAST]
        return Wanted(family, raw, socket.inet_ntop(family, raw[4:8]), port, scoped=False)
    if family != socket.AF_INET6 or len(raw) < LEAST_SIX:
        return None
    host = raw[8:24]
    scoped = any(raw[24:28])
    if host.startswith(MAPPED):
        return Wanted(family, raw, socket.inet_ntop(socket.AF_INET, host[12:]), port, scoped)
    return Wanted(family, raw, socket.inet_ntop(family, host), port, scoped)


def fitted(address: Address, family: int) -> Address | None:
    """An address as a socket of this family dials it: IPv4 is mapped for IPv6; None if not at
    all."""
    if address.family == family:
        return address
    if family == socket.AF_INET6 and address.family == socket.AF_INET:
        return Address(family, (f"::ffff:{address.host}", address.port, 0, 0))
    return None


def packed(address: Address) -> bytes:
    """An address as connect(2) takes it."""
    host, port = address.pair
    place = socket.inet_pton(address.family, host)
    if address.family == socket.AF_INET:
        return struct.pack("=H", address.family) + struct.pack("!H4s8x", port, place)
    return struct.pack("=H", address.family) + struct.pack("!HI16sI", port, 0, place, 0)
