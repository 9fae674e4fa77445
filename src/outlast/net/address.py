"""Addresses to dial, and how people write them.

`host:port`, `[v6]:port`, and the path of a Unix socket; refuses what has no port or a port outside
1..65535, naming the part.
"""

from __future__ import annotations

import functools
import socket
from typing import NamedTuple

__all__ = ["UNIX", "Address", "literal", "split_host_port", "unix_address"]

UNIX: int | None = getattr(socket, "AF_UNIX", None)  # None: the platform has no Unix sockets


class Address(NamedTuple):
    """One address of one family, ready for connect(2): host and port, or a Unix socket's path."""

    family: int
    sockaddr: tuple[str, int] | tuple[str, int, int, int] | str

    @property
    def host(self) -> str:
        """The address without the port; the path of a Unix socket."""
        return self.sockaddr if isinstance(self.sockaddr, str) else self.sockaddr[0]

    @property
    def port(self) -> int:
        """The port; 0 for a Unix socket, which has none."""
        return 0 if isinstance(self.sockaddr, str) else self.sockaddr[1]

    @property
    def pair(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    def __str__(self) -> str:
        if isinstance(self.sockaddr, str):  # abstract ones are written with an @, as by ss(8)
            return f"unix:{self.sockaddr.replace(chr(0), '@')}"
        host, port = self.pair
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@functools.lru_cache(maxsize=1024)  # connections to one endpoint share its address
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


def unix_address(path: str) -> Address:
    """The Unix socket at `path`. ValueError where the platform has none."""
    if UNIX is None:
        raise ValueError(f"{path!r}: this platform has no Unix sockets; use host and port")
    return Address(UNIX, path)


def split_host_port(text: str, *, what: str, example: str) -> tuple[str, int]:
    """`host` and `port` of "host:port" or "[v6]:port"; ValueError naming what is wrong."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    host, colon, port = text.rpartition(":")
    if _is_v6(bare):
        other = f"'[{host}]:{port}' or " if _is_v6(host) else ""
        raise ValueError(f"{what}: {text!r} has no port or no brackets; write {other}'[{bare}]:80'")
    if not colon and port:
        raise ValueError(f"{what}: {text!r} has no port; write it like {example!r}")
    if host in ("", "[]"):
        raise ValueError(f"{what}: {text!r} names no host; write it like {example!r}")
    if not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536):
        raise ValueError(f"{what}: port {port!r} of {text!r} is not a number from 1 to 65535")
    return _host(host, port, f"{what}:", f"of {text!r}", f"write it like {example!r}"), int(port)


def _is_v6(host: str) -> bool:
    return ":" in host and literal(host, 0) is not None


def _host(host: str, port: str, what: str, where: str, form: str) -> str:
    """`host` without brackets; ValueError if it is none, or has brackets where none belong."""
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else None
    if inner is None and _is_v6(host):
        raise ValueError(f"{what} {host!r} {where} needs brackets: write it like '[{host}]:{port}'")
    if inner is not None and ":" not in inner:
        raise ValueError(f"{what} {inner!r} {where} is no IPv6 address and needs no brackets")
    name = host if inner is None else inner
    if any(c.isspace() or c in "/?#@[]\0" for c in name) or (inner is None and ":" in name):
        raise ValueError(f"{what} {name!r} {where} is no host; {form}")
    return name
