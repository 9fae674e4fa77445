"""Whether this machine's own link is up: silence behind a pulled cable says nothing of any peer.

Asked only when a peer is about to be held suspect (DESIGN section 7: evidence that is our own
fault). The interface that has the connection's local address must run; one that has lost the
address counts as down. Source: netdevice(7). Refuses to guess: where the system does not tell,
and on every system but Linux, the link is taken to be up.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address

__all__ = ["own_link_is_up"]

SIOCGIFCONF = 0x8912  # linux/sockios.h
SIOCGIFFLAGS = 0x8913
RUNNING = 0x1 | 0x40  # IFF_UP and IFF_RUNNING, linux/if.h
ENTRY = 40  # bytes of a struct ifreq on 64 bits
MOST = 1024  # interfaces' addresses


def own_link_is_up(sock: socket.socket) -> bool:
    """Whether the interface with the socket's local address runs. Never raises OSError."""
    if sys.platform != "linux":
        return True
    try:
        host = ip_address(sock.getsockname()[0].partition("%")[0])
        mapped = host.ipv4_mapped if isinstance(host, IPv6Address) else None
        host = mapped or host
        if host.is_loopback:
            return True
        names = _six(host) if isinstance(host, IPv6Address) else _four(sock, host.packed)
        return any(_runs(sock, name) for name in names)
    except (OSError, ValueError, IndexError, struct.error):
        return True


def _four(sock: socket.socket, host: bytes) -> Iterator[bytes]:
    """Names of the interfaces with this IPv4 address, in the socket's own network namespace."""
    import array
    import fcntl

    room = array.array("B", bytes(ENTRY * MOST))
    address, size = room.buffer_info()
    request = struct.pack("iL", size, address)
    length, _ = struct.unpack("iL", fcntl.ioctl(sock.fileno(), SIOCGIFCONF, request))
    listed = room.tobytes()[:length]
    for start in range(0, length, ENTRY):
        entry = listed[start : start + ENTRY]
        if entry[20:24] == host:  # a sockaddr_in behind 16 bytes of name
            yield entry[:16]


def _six(host: IPv6Address) -> Iterator[bytes]:
    """The same for IPv6, in the namespace of this thread."""
    with open("/proc/thread-self/net/if_inet6", encoding="ascii") as table:
        for line in table:
            digits, *_, name = line.split()
            if digits == host.packed.hex():
                yield name.encode().ljust(16, b"\0")


def _runs(sock: socket.socket, name: bytes) -> bool:
    import fcntl

    name = name.partition(b"\0")[0].partition(b":")[0]  # an alias has the flags of its interface
    answer = fcntl.ioctl(sock.fileno(), SIOCGIFFLAGS, name.ljust(ENTRY, b"\0"))
    flags: int = struct.unpack_from("H", answer, 16)[0]
    return flags & RUNNING == RUNNING
