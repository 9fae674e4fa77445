"""The few rtnetlink requests the kernel lab needs: make, join, address, raise and drop links.

A fault must take effect within a few milliseconds, and a lab should stand in a few dozen, so the
requests go straight to the kernel instead of through one `ip` process each.

Source: rtnetlink(7), netlink(7), linux/rtnetlink.h, linux/if_link.h, linux/veth.h. Refuses IPv6.
Every function acts on the network namespace that the *calling thread* is in.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time
from collections.abc import Iterator

_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK, _RTM_NEWADDR, _RTM_NEWROUTE = 16, 17, 18, 20, 24
_F_REQUEST, _F_ACK, _F_EXCL, _F_CREATE = 0x1, 0x4, 0x200, 0x400
_NLMSG_ERROR = 2
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 1, 3, 10, 18, 28
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF = 1, 4
_IFF_UP = 0x1
_IFLA_OPERSTATE, _OPER_UP = 16, 6
_NLA_F_NESTED = 0x8000
_TABLE_MAIN, _PROTO_STATIC, _SCOPE_LINK, _TYPE_UNICAST = 254, 4, 253, 1


def add_bridge(name: str) -> None:
    """Make a bridge without spanning tree (the kernel's default), still down."""
    info = _attr(_IFLA_INFO_KIND, b"bridge")
    body = _link(0) + _attr(_IFLA_IFNAME, _text(name)) + _nest(_IFLA_LINKINFO, info)
    _ask(_RTM_NEWLINK, _F_CREATE | _F_EXCL, body, f"add bridge {name}")


def add_veth(name: str, *, peer: str, peer_namespace: int, peer_mac: bytes) -> None:
    """Make a veth pair: `name` here, `peer` in the namespace of descriptor `peer_namespace`."""
    other = (
        _link(0)
        + _attr(_IFLA_IFNAME, _text(peer))
        + _attr(_IFLA_ADDRESS, peer_mac)
        + _attr(_IFLA_NET_NS_FD, struct.pack("=I", peer_namespace))
    )
    data = _nest(_IFLA_INFO_DATA, _nest(_VETH_INFO_PEER, other))
    info = _attr(_IFLA_INFO_KIND, b"veth") + data
    body = _link(0) + _attr(_IFLA_IFNAME, _text(name)) + _nest(_IFLA_LINKINFO, info)
    _ask(_RTM_NEWLINK, _F_CREATE | _F_EXCL, body, f"add veth {name}")


def delete_link(name: str) -> None:
    """Delete a link; a veth's other end goes with it."""
    _ask(_RTM_DELLINK, 0, _link(socket.if_nametoindex(name)), f"delete {name}")


def set_link(name: str, *, up: bool) -> None:
    """Bring a link up or down. The far end of a veth sees its carrier go."""
    body = _link(socket.if_nametoindex(name), flags=_IFF_UP if up else 0, change=_IFF_UP)
    _ask(_RTM_NEWLINK, 0, body, f"set {name} {'up' if up else 'down'}")


def await_up(name: str) -> None:
    """Wait until a link that was brought up is operational.

    Before that its bridge does not forward, and what its own host sends is thrown away: a lost
    ARP request costs a second. TimeoutError after 5 s.
    """
    give_up = time.monotonic() + 5.0
    while _operational_state(name) != _OPER_UP:
        if time.monotonic() > give_up:
            raise TimeoutError(f"{name} is not operational 5 s after it was brought up")
        time.sleep(0.001)


def _operational_state(name: str) -> int:
    """RFC 2863's ifOperStatus as the kernel has it."""
    body = _link(socket.if_nametoindex(name))
    head = struct.pack("=IHHII", len(body) + 16, _RTM_GETLINK, _F_REQUEST, 1, 0)
    with _route_socket() as sock:
        sock.send(head + body)
        reply = sock.recv(65536)
    place = 32  # nlmsghdr and ifinfomsg
    while place + 4 <= len(reply):
        size, kind = struct.unpack_from("=HH", reply, place)
        if kind == _IFLA_OPERSTATE:
            return reply[place + 4]
        place += max(4, (size + 3) & ~3)
    raise OSError(errno.EPROTO, f"rtnetlink: {name} has no operational state")


def join_bridge(name: str, bridge: str) -> None:
    """Make a link a port of a bridge."""
    master = struct.pack("=I", socket.if_nametoindex(bridge))
    body = _link(socket.if_nametoindex(name)) + _attr(_IFLA_MASTER, master)
    _ask(_RTM_NEWLINK, 0, body, f"join {name} to {bridge}")


def leave_bridge(name: str) -> None:
    """Make a link nobody's port."""
    body = _link(socket.if_nametoindex(name)) + _attr(_IFLA_MASTER, struct.pack("=I", 0))
    _ask(_RTM_NEWLINK, 0, body, f"take {name} off its bridge")


def add_address(name: str, address: str, prefix: int) -> None:
    """Give a link an IPv4 address; the route to its prefix comes with it."""
    packed = socket.inet_aton(address)
    head = struct.pack("=BBBBI", socket.AF_INET, prefix, 0, 0, socket.if_nametoindex(name))
    body = head + _attr(_IFA_LOCAL, packed) + _attr(_IFA_ADDRESS, packed)
    _ask(_RTM_NEWADDR, _F_CREATE | _F_EXCL, body, f"add {address}/{prefix} to {name}")


def add_route(network: str, prefix: int, *, link: str) -> None:
    """Route an IPv4 network straight onto a link."""
    head = struct.pack(
        "=BBBBBBBBI",
        *(socket.AF_INET, prefix, 0, 0, _TABLE_MAIN, _PROTO_STATIC, _SCOPE_LINK, _TYPE_UNICAST, 0),
    )
    out = struct.pack("=I", socket.if_nametoindex(link))
    body = head + _attr(_RTA_DST, socket.inet_aton(network)) + _attr(_RTA_OIF, out)
    _ask(_RTM_NEWROUTE, _F_CREATE | _F_EXCL, body, f"route {network}/{prefix} over {link}")


def _link(index: int, *, flags: int = 0, change: int = 0) -> bytes:
    """A `struct ifinfomsg`."""
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


def _attr(kind: int, value: bytes) -> bytes:
    """A `struct rtattr` with its value, padded to four bytes."""
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def _nest(kind: int, inner: bytes) -> bytes:
    return _attr(kind | _NLA_F_NESTED, inner)


def _text(name: str) -> bytes:
    return name.encode("ascii") + b"\0"


def _ask(kind: int, flags: int, body: bytes, what: str) -> None:
    """Send one request and wait for its acknowledgement; a refusal is raised as OSError."""
    head = struct.pack("=IHHII", len(body) + 16, kind, flags | _F_REQUEST | _F_ACK, 1, 0)
    with _route_socket() as sock:
        sock.send(head + body)
        reply = sock.recv(65536)
    (reply_kind,) = struct.unpack_from("=H", reply, 4)
    (code,) = struct.unpack_from("=i", reply, 16)
    if reply_kind != _NLMSG_ERROR:
        raise OSError(errno.EPROTO, f"rtnetlink: {what}: unexpected reply of kind {reply_kind}")
    if code:
        raise OSError(-code, f"rtnetlink: {what}: {os.strerror(-code)}")


@contextlib.contextmanager
def _route_socket() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:  # 0 is NETLINK_ROUTE
        # The kernel answers within the send call; a limit keeps a surprise from hanging a test.
        sock.settimeout(5.0)
        sock.bind((0, 0))
        yield sock
