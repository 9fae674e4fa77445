"""Keepalive on a socket of a program's, unless the program has set any of it itself.

Whether it has is told by comparison with a fresh socket, because no kernel tells who set what. The
figures of a fresh socket are read once: they are the system's (sysctl net.ipv4.tcp_keepalive_*).
Refuses to fail: a socket without keepalive is of use.
"""

from __future__ import annotations

import functools
import socket

from outlast.net.options import Keepalive, keepalive_options

__all__ = ["keep_alive"]


@functools.lru_cache(maxsize=16)
def _figures(keepalive: Keepalive) -> tuple[tuple[int, int, int, int], ...]:
    """Level, number, ours, and a fresh socket's."""
    with socket.socket() as fresh:
        found = []
        for each in keepalive_options(keepalive):
            if each.number is not None:
                before = fresh.getsockopt(each.level, each.number)
                found.append((each.level, each.number, each.value, before))
        return tuple(found)


def keep_alive(sock: socket.socket, keepalive: Keepalive) -> bool:
    """Have it stand from now on; False if the program has set some, or the kernel refuses."""
    figures = _figures(keepalive)
    try:
        for level, number, _, fresh in figures:
            if sock.getsockopt(level, number) != fresh:
                return False
        for level, number, value, _ in figures:
            sock.setsockopt(level, number, value)
    except OSError:
        return False
    return True
