"""The seam's first implementation: the kernel's own sockets, clock and resolver.

Streams are non-blocking sockets that belong to no event loop, so one pool serves threads and
loops that come and go. Refuses to hide errno: every failure is the kernel's own OSError.
"""

from __future__ import annotations

import _socket
import errno
import os
import select
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

from outlast.core.liveness import Sample
from outlast.net.address import UNIX, Address
from outlast.net.background import Background
from outlast.net.kernel_wait import KernelWaiter, wait_in_loop, wait_in_thread
from outlast.net.link import own_link_is_up
from outlast.net.lookup import Resolver, system_addresses
from outlast.net.options import (
    Keepalive,
    SocketPlan,
    apply,
    apply_to_established,
    keepalive_is_ours,
    set_keepalive,
    user_timeout_option,
)
from outlast.net.seam import Lookup, Waiter
from outlast.net.tcpinfo import TCP_INFO, read_sample

__all__ = ["KernelNetwork", "KernelStream", "kernel"]

_UNDER_WAY = frozenset({0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY, 10035})
_POLLS = hasattr(select, "poll")  # a look that finds nothing costs half of one that raises
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close sends RST


class KernelStream:
    """A TCP socket behind the seam; see `Stream`. One owner at a time."""

    __slots__ = (
        "_closed",
        "_keepalive",
        "_lock",
        "_plan",
        "_process",
        "_sock",
        "address",
        "local_port",
        "notes",
        "written",
    )

    def __init__(self, sock: socket.socket, address: Address, plan: SocketPlan) -> None:
        self._sock = sock
        self._plan = plan
        self._keepalive: Keepalive | None = None  # what stands, once it was changed
        self._lock = threading.Lock()  # between the owner's close and another thread's shut
        self._closed = False
        self.address = address
        self.local_port = 0
        self.written = 0
        self.notes: Sequence[str] = ()
        self._process = os.getpid()

    @property
    def foreign(self) -> bool:
        """See `Stream.foreign`."""
        return os.getpid() != self._process

    @classmethod
    def dial(cls, address: Address, plan: SocketPlan) -> KernelStream:
        """Begin a connection. Raises OSError if the kernel refuses at once."""
        sock = socket.socket(address.family, socket.SOCK_STREAM)
        stream = cls(sock, address, plan)
        try:
            sock.setblocking(False)
            stream.notes = apply(sock, plan)
            # The C type's own: `install()` replaces the Python method, gevent has one of its own.
            code = _socket.socket.connect_ex(getattr(sock, "_sock", sock), address.sockaddr)
            if code not in _UNDER_WAY:
                raise _error(code, address)
            stream.local_port = sock.getsockname()[1]
        except BaseException:
            sock.close()
            raise
        return stream

    def fileno(self) -> int:
        """The descriptor, for waiting."""
        return self._sock.fileno()

    def connected(self) -> None:
        """See `Stream.connected`."""
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise _error(code, self.address)
        if self.local_port == self.address.port and self._met_itself():
            raise _error(errno.ECONNREFUSED, self.address)
        self.notes = (*self.notes, *apply_to_established(self._sock, self._plan))

    def _met_itself(self) -> bool:
        """A dial to a free local port can be answered by its own socket (simultaneous open)."""
        return bool(self._sock.getsockname() == self._sock.getpeername())

    def recv(self, size: int) -> bytes | None:
        """See `Stream.recv`."""
        try:
            return self._sock.recv(size)
        except BlockingIOError:
            return None

    def send(self, data: bytes | memoryview) -> int:
        """See `Stream.send`."""
        try:
            count = self._sock.send(data)
        except BlockingIOError:
            return 0
        self.written += count
        return count

    def flush(self) -> bool:
        """See `Stream.flush`."""
        return True

    def quiet(self) -> bool:
        """See `Stream.quiet`."""
        if not _POLLS:
            return _reads_silent(self._sock)
        number = self._sock.fileno()
        if number < 0:
            return False
        poller = select.poll()
        poller.register(number, select.POLLIN)
        return not poller.poll(0)

    def state(self) -> Sample | None:
        """See `Stream.state`."""
        return read_sample(self._sock)

    def linked(self) -> bool:
        """See `Stream.linked`."""
        return own_link_is_up(self._sock)

    def set_user_timeout(self, seconds: float) -> None:
        """See `Stream.set_user_timeout`. The caller's own setting is left as it is."""
        number, value = user_timeout_option(seconds)
        theirs = {given[:2] for given in self._plan.extra}
        if number is None or (socket.IPPROTO_TCP, number) in theirs:
            return
        try:
            self._sock.setsockopt(socket.IPPROTO_TCP, number, value)
        except OSError:  # the connection is gone: whoever reads or writes next will hear why
            return

    @property
    def keepalive(self) -> Keepalive | None:
        """See `Stream.keepalive`."""
        return self._plan.keepalive if keepalive_is_ours(self._plan) else None

    def set_keepalive(self, keepalive: Keepalive) -> None:
        """See `Stream.set_keepalive`."""
        old = self._keepalive or self.keepalive
        if old is None:
            return
        try:
            set_keepalive(self._sock, old, keepalive)
        except OSError:  # the connection is gone: whoever reads or writes next will hear why
            return
        self._keepalive = keepalive

    def close(self) -> None:
        """See `Stream.close`."""
        if not self.foreign:  # else the lock may be another process's thread's
            with self._lock:  # a number that is closed may be somebody else's connection
                self._closed = True
        self._sock.close()

    def abort(self) -> None:
        """See `Stream.abort`."""
        if not self.foreign:
            try:
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            except OSError:  # already dead, or closed
                pass
        self.close()

    def shut(self) -> None:
        """See `Stream.shut`."""
        if self.foreign:
            return
        with self._lock:
            if self._closed:
                return
            try:
                self._sock.shutdown(socket.SHUT_RDWR)  # never blocks
            except OSError:  # not connected: nobody can be waiting for long
                return

    def detach(self) -> socket.socket:
        """The socket itself, for whoever it is handed to; this stream no longer owns it."""
        return self._sock


def _reads_silent(sock: socket.socket) -> bool:
    try:
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _error(code: int, address: Address) -> OSError:
    """The kernel's own error for a dial, as the matching OSError subclass."""
    return OSError(code, f"connect to {address}: {os.strerror(code)}")


_networks: weakref.WeakSet[KernelNetwork] = weakref.WeakSet()


class KernelNetwork:
    """The real network; see `Network`. Thread-safe, and the same for every event loop.

    `resolve(host, port)` replaces the system's resolver; it runs on a thread of its own.
    """

    def __init__(self, resolve: Callable[[str, int], Sequence[Address]] = system_addresses) -> None:
        self._resolve = resolve
        self._resolver = Resolver(resolve)
        self._background = Background(self)
        _networks.add(self)

    tells = TCP_INFO is not None  # Linux does
    now = staticmethod(time.monotonic)  # asked some ten times a request

    def wall_clock(self) -> float:
        """See `Network.wall_clock`."""
        return time.time()

    wait = staticmethod(wait_in_thread)
    wait_async = staticmethod(wait_in_loop)

    def rng(self, name: str) -> Random:  # noqa: ARG002  only a simulation has use for the name
        """See `Network.rng`: seeded by the operating system."""
        return Random()

    def waiter(self) -> Waiter:
        """See `Network.waiter`."""
        return KernelWaiter()

    def lookup(self, host: str, port: int, waiter: Waiter) -> Lookup:
        """See `Network.lookup`."""
        return self._resolver.start(host, port, waiter)

    def dial(self, address: Address, plan: SocketPlan) -> KernelStream:
        """See `Network.dial`."""
        if address.family == UNIX:
            from outlast.net.unix import UnixStream

            return UnixStream.dial(address, plan)
        return KernelStream.dial(address, plan)

    def spawn(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """See `Network.spawn`."""
        self._background.spawn(job)

    def renew(self) -> None:
        """In the child of a fork: the threads and look-ups under way are the parent's."""
        self._resolver = Resolver(self._resolve)
        self._background = Background(self)


_KERNEL = KernelNetwork()


def kernel() -> KernelNetwork:
    """The one kernel network of this process."""
    return _KERNEL


def _renew_all() -> None:
    for network in list(_networks):
        network.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
