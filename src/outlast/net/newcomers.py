"""Sockets of a program that have just connected, to be watched soon.

To begin a watch costs as much as a connect on loopback, and most connections of programs without a
pool are closed again before anything could befall them. So a newcomer is written down by number and
cookie (well under a microsecond), and whoever is still there at the next look, within a second, is
handed to the sentry. Keepalive stands on it from before its connect; what comes late is the user
timeout, which counts from the oldest unacknowledged byte whenever it is set (linux-tcp facts 5.1),
and the cap on the gap between retransmissions.

Refuses to keep a socket open, and to touch a number that stands for another socket by now.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import TypeAlias

from outlast.net.kernel import kernel
from outlast.net.options import NUMBERS, TCP
from outlast.net.place import cookie_of
from outlast.net.pooled import PooledSocket
from outlast.net.seam import Wait
from outlast.net.sentry import take_held

__all__ = ["Newcomers", "newcomers"]

log = logging.getLogger("outlast")

PAUSE = 1.0  # seconds between two looks
STAYS = 10  # looks without a newcomer after which nobody looks any more
RTO_DEFAULT = 120_000  # milliseconds; what stands where nobody has set a cap (facts 2.1)


# Its cookie; the user timeout to watch it with, 0 for not at all; the cap on the gap between
# retransmissions, 0 for none: both in seconds.
_Newcomer: TypeAlias = "tuple[bytes, float, float]"


class Newcomers:
    """See the module. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._there: dict[int, _Newcomer] = {}  # by number: the last one that came under it
        self._running = False

    def add(self, number: int, cookie: bytes, user_timeout: float, rto_max: float) -> None:
        """A socket has connected; `cookie` as by `net.place.cookie_of`. Raises RuntimeError if the
        system gives no thread to look from."""
        self._there[number] = cookie, user_timeout, rto_max
        if not self._running:
            self._begin()

    def _begin(self) -> None:
        with self._lock:
            if self._running:
                return
            self._running = True
        try:
            kernel().spawn(self._run)
        except RuntimeError:
            self._running = False
            raise

    async def _run(self) -> None:
        try:
            empty = 0
            while empty < STAYS:
                await Wait((), kernel().now() + PAUSE)
                empty = 0 if self.look() else empty + 1
        finally:
            self._running = False
        if self._there:  # one has come at the very end
            self._begin()

    def look(self) -> int:
        """Take on who is there; how many had come."""
        count = len(self._there)  # whoever comes meanwhile has time until the next look
        for _ in range(count):
            number = next(iter(self._there))
            try:
                _take(number, *self._there.pop(number))
            except (OSError, ValueError):  # closed, or never connected
                continue
            except RuntimeError as error:  # no thread to watch from
                log.warning("a connection is not watched: %s", error)
        return count

    def renew(self) -> None:
        """In the child of a fork: the thread is the parent's."""
        self._lock = threading.Lock()
        self._running = False
        if self._there:
            self._begin()


def _take(number: int, cookie: bytes, user_timeout: float, rto_max: float) -> None:
    held = PooledSocket(number)
    with held.borrowed() as sock:
        if sock is None or cookie_of(sock) != cookie:
            return
        option = NUMBERS["rto_max"]
        if rto_max and option is not None and _default_rto(sock, option):
            sock.setsockopt(TCP, option, round(rto_max * 1000))
    if user_timeout:
        take_held(kernel(), held, user_timeout)


def _default_rto(sock: socket.socket, option: int) -> bool:
    try:
        return sock.getsockopt(TCP, option) == RTO_DEFAULT
    except OSError:  # a kernel without it
        return False


newcomers = Newcomers()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=newcomers.renew)
