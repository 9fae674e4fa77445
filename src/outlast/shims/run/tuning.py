"""Options on the program's own socket, before it connects: keepalive, where the program says
nothing of it.

What differs from a fresh socket's was set by the program and stands. What the program sets later
stands too: it comes after ours. No user timeout is ever set: a program may hand a socket to another
process, where nobody could lift it in time (linux-tcp facts 5.4); the watch ends dead connections.
"""

from __future__ import annotations

import socket

from outlast.net.options import NUMBERS, TCP, Keepalive

__all__ = ["Tuner"]

SOL, KEEPALIVE = socket.SOL_SOCKET, socket.SO_KEEPALIVE


class Tuner:
    """Sets the policy's keepalive; None for nothing at all."""

    def __init__(self, keepalive: Keepalive | None) -> None:
        wanted = () if keepalive is None else ("idle", "interval", "count")
        with socket.socket() as fresh:
            self._figures = [
                (number, fresh.getsockopt(TCP, number), getattr(keepalive, name))
                for name in wanted
                if (number := NUMBERS[name]) is not None
            ]
            self._on = bool(fresh.getsockopt(SOL, KEEPALIVE))
        self._off = keepalive is None

    def tune(self, sock: socket.socket) -> None:
        """Raises OSError if the socket is no TCP socket."""
        if self._off:
            return
        for number, default, _ in self._figures:
            if sock.getsockopt(TCP, number) != default:
                return  # the program has its own ideas
        for number, _, ours in self._figures:
            sock.setsockopt(TCP, number, ours)
        if not sock.getsockopt(SOL, KEEPALIVE):
            sock.setsockopt(SOL, KEEPALIVE, 1)
