"""The arguments of plain connects, checked: what is wrong is a ValueError that names the argument.

They are those of `socket.create_connection` and `anyio.connect_tcp`, and mean what they mean
there. Refuses a name as the local address: to bind to one would block on a look-up.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any, TypeAlias

from outlast.net.address import literal

__all__ = ["Host", "read_address", "read_local", "read_remote", "read_source"]

Host: TypeAlias = "str | IPv4Address | IPv6Address"
PAIR = "write it like ('db.shop.svc', 5432)"
SOURCE = "write an IP address and a port, like ('10.0.0.7', 0)"


def read_address(address: Any) -> tuple[str, int]:
    """Host and port of `address`; a host of None is this machine, as in `socket`."""
    if not isinstance(address, (tuple, list)) or len(address) != 2:
        raise ValueError(f"address: {address!r} is no (host, port); {PAIR}")
    host, port = address
    if host is not None and not _is_host(host):
        raise ValueError(f"address: host {host!r} of {address!r} is no name or address; {PAIR}")
    if not _is_port(port, 1):
        raise ValueError(f"address: port {port!r} of {address!r} is not from 1 to 65535; {PAIR}")
    return "localhost" if host is None else host, port


def read_source(source: Any) -> tuple[str, int] | None:
    """The local address to bind; an empty host is any."""
    if source is None:
        return None
    if not isinstance(source, (tuple, list)) or len(source) != 2:
        raise ValueError(f"source_address: {source!r}: {SOURCE}")
    host, port = source
    if not _is_local(host) or not _is_port(port, 0):
        raise ValueError(f"source_address: {source!r}: {SOURCE}")
    return host, port


def read_remote(host: Any, port: Any) -> tuple[str, int]:
    """The host as text, and the port."""
    text = str(host) if isinstance(host, (IPv4Address, IPv6Address)) else host
    if not _is_host(text):
        raise ValueError(f"remote_host: {host!r} is no name or address, such as 'db.shop.svc'")
    if not _is_port(port, 1):
        raise ValueError(f"remote_port: {port!r} is not from 1 to 65535")
    return text, port


def read_local(host: Any, port: Any) -> tuple[str, int] | None:
    """The local address to bind, or None."""
    if host is None and port is None:
        return None
    text = str(host) if isinstance(host, (IPv4Address, IPv6Address)) else host or ""
    if not _is_local(text):
        raise ValueError(f"local_host: {host!r} is no IP address, such as '10.0.0.7'")
    if port is not None and not _is_port(port, 0):
        raise ValueError(f"local_port: {port!r} is not from 0 to 65535")
    return text, port or 0


def _is_host(host: object) -> bool:
    return isinstance(host, str) and bool(host)


def _is_local(host: object) -> bool:
    return isinstance(host, str) and (not host or literal(host, 0) is not None)


def _is_port(port: object, least: int) -> bool:
    return isinstance(port, int) and not isinstance(port, bool) and least <= port < 65536
