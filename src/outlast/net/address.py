"""Addresses to dial, and how people write them.

`host:port`, `[v6]:port`; refuses what has no port or a port outside 1..65535, naming the part.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

__all__ = ["Address", "literal", "split_host_port"]


@dataclass(frozen=True, slots=True)
class Address:
    """One address and port of one family, ready for connect(2)."""

    family: int
    sockaddr: tuple[str, int] | tuple[str, int, int, int]

    @property
    def host(self) -> str:
        """The address without the port."""
        return self.sockaddr[0]

    @property
    def port(self) -> int:
        """The port."""
        return self.sockaddr[1]

    def __str__(self) -> str:
        host, port = self.sockaddr[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def literal(host: str, port: int) -> Address | None:
    """The address that `host` spells out, or None if it is a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        if family == socket.AF_INET:
            return Address(family, (host, port))
        return Address(family, (host, port, 0, 0))
    return None


def split_host_port(text: str, *, what: str, example: str) -> tuple[str, int]:
    """`host` and `port` of "host:port" or "[v6]:port"; ValueError naming what is wrong."""
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise ValueError(f"{what}: {text!r} has no port; write it like {example!r}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{what}: {text!r} needs brackets around the IPv6 address: '[{host}]:80'")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{what}: port {port!r} of {text!r} is not a number from 1 to 65535")
    if not host or any(c.isspace() or c in "/?#@" for c in host):
        raise ValueError(f"{what}: {host!r} of {text!r} is no host; write it like {example!r}")
    return host, int(port)
