"""What a program on a simulated host has in its hands: sockets that never block.

Every call does what a non-blocking Linux socket does at that moment, errno for errno. `on_change`
is called whenever readiness may have changed; it is called from the middle of the kernel's work, so
it may only take note, not use the socket.

Source: tcp(7), connect(2), recv(2), send(2), poll(2); net/ipv4/tcp.c. Refuses options that the
model does not know with ENOPROTOOPT. Not thread-safe: one thread at a time, as the timeline.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from outlast.testing.simnet.info import TcpInfo, tcp_info
from outlast.testing.simnet.packet import Endpoint
from outlast.testing.simnet.rules import SECOND
from outlast.testing.simnet.settings import read_option, write_option
from outlast.testing.simnet.states import (
    CLOSE_WAIT,
    CLOSED,
    ESTABLISHED,
    SYN_RECV,
    SYN_SENT,
)

if TYPE_CHECKING:
    from outlast.testing.simnet.host import Host
    from outlast.testing.simnet.tcp import Connection

__all__ = ["Listener", "SimSocket"]


class SimSocket:
    """One connection, as its program sees it. Made by `Host.connect` and `Listener.accept`."""

    __slots__ = ("_closed", "_conn")

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._closed = False

    # -- what it is ------------------------------------------------------------------------

    @property
    def label(self) -> str:
        """The connection's stable name; its chance is keyed by it."""
        return self._conn.label

    @property
    def local(self) -> Endpoint:
        """The local address and port."""
        return self._conn.local

    @property
    def remote(self) -> Endpoint:
        """What was dialled, or who dialled."""
        return self._conn.remote

    @property
    def state(self) -> int:
        """The state, as TCP_INFO numbers it; see `states`."""
        return self._conn.state

    @property
    def closed(self) -> bool:
        """Whether the program has closed it."""
        return self._closed

    @property
    def on_change(self) -> Callable[[], None] | None:
        """Called whenever readiness may have changed; may only take note."""
        return self._conn.notify

    @on_change.setter
    def on_change(self, notify: Callable[[], None] | None) -> None:
        if not self._closed:
            self._conn.notify = notify

    # -- readiness, as poll(2) tells it ----------------------------------------------------

    def readable(self) -> bool:
        """Whether a read would not block: data, the end, or an error."""
        conn = self._conn
        return bool(self._closed or conn.receiver.queue or conn.shut_read or conn.error)

    def writable(self) -> bool:
        """Whether a write would not block: a third of the buffer is free, or it would fail."""
        conn = self._conn
        if self._closed or conn.error or conn.shut_write:
            return True
        if conn.state in (SYN_SENT, SYN_RECV):
            return False
        return conn.sender.outstanding * 3 <= conn.settings.send_buffer * 2

    @property
    def error(self) -> int:
        """The pending error as an errno, left pending; 0 if there is none."""
        return self._conn.error

    def take_error(self) -> int:
        """SO_ERROR: the pending error as an errno, which is then no longer pending."""
        conn = self._conn
        code, conn.error = conn.error, 0
        return code

    # -- bytes -----------------------------------------------------------------------------

    def recv(self, size: int) -> bytes | None:
        """Up to `size` bytes; b"" at the end; None if there is nothing now. Raises OSError."""
        conn = self._conn
        self._open()
        if conn.receiver.queue:
            return conn.receiver.read(size)
        if conn.error and not conn.receiver.ended:
            raise _error(self.take_error())
        if conn.shut_read:
            return b""
        if conn.state == CLOSED:
            raise _error(errno.ENOTCONN)
        return None

    def peek(self) -> bool:
        """Whether a read would give bytes. Raises OSError as `recv` does; False at the end too."""
        if self._conn.receiver.queue:
            return True
        self.recv(1)
        return False

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Hand over what fits; the number of bytes taken, maybe 0. Raises OSError."""
        conn = self._conn
        self._open()
        if conn.error:
            raise _error(self.take_error())
        if conn.shut_write:
            raise _error(errno.EPIPE)
        if conn.state not in (ESTABLISHED, CLOSE_WAIT):
            return 0
        free = conn.settings.send_buffer - conn.sender.outstanding
        if free <= 0 or not data:
            return 0
        conn.disturb()
        taken = data if len(data) <= free else memoryview(data)[:free]
        conn.sender.queue(taken)
        return len(taken)

    # -- the end ---------------------------------------------------------------------------

    def shutdown_write(self) -> None:
        """Send FIN after what is queued. Raises OSError (ENOTCONN) if there is no connection."""
        self._connected()
        self._conn.finish()

    def shutdown(self) -> None:
        """End both directions: FIN goes out, reads give the end. Raises OSError (ENOTCONN)."""
        self._connected()
        self._conn.finish()
        self._conn.shut_read = True
        self._conn.changed()

    def close(self) -> None:
        """Let go of it: FIN, or RST if bytes were left unread. Idempotent."""
        if not self._closed:
            self._closed = True
            self._conn.abandon()

    def abort(self) -> None:
        """Let go of it with RST. Idempotent."""
        if not self._closed:
            self._closed = True
            self._conn.orphan = True
            self._conn.notify = None
            self._conn.abort()

    # -- options and TCP_INFO --------------------------------------------------------------

    def setsockopt(self, level: int, number: int, value: int | bytes) -> None:
        """Set an option by Linux's numbers. Raises OSError (EINVAL, ENOPROTOOPT)."""
        self._open()
        self._conn.disturb()
        write_option(self._conn.settings, level, number, value, self._conn.setting_changed)

    def getsockopt(self, level: int, number: int) -> int:
        """Read an option back. Reading SO_ERROR clears it. Raises OSError."""
        if (level, number) == (1, 4):
            return self.take_error()
        return read_option(self._conn.settings, level, number, self._conn.host.kernel)

    def set_user_timeout(self, seconds: float) -> None:
        """TCP_USER_TIMEOUT in seconds; 0 switches it off. Never fails."""
        self._conn.settings.user_timeout = round(seconds * SECOND)

    def tcp_info(self) -> TcpInfo:
        """What the kernel knows of the connection."""
        return tcp_info(self._conn)

    @property
    def outq(self) -> int:
        """SIOCOUTQ: bytes not acknowledged, sent or not."""
        return 0 if self._conn.state in (SYN_SENT, SYN_RECV) else self._conn.sender.outstanding

    @property
    def outq_unsent(self) -> int:
        """SIOCOUTQNSD: bytes never sent."""
        return self._conn.sender.unsent

    def _open(self) -> None:
        if self._closed:
            raise _error(errno.EBADF)

    def _connected(self) -> None:
        self._open()
        if self._conn.state in (CLOSED, SYN_SENT):
            raise _error(errno.ENOTCONN)

    def __repr__(self) -> str:
        return f"<SimSocket {self.label}>"


class Listener:
    """A listening socket. Made by `Host.listen`."""

    __slots__ = ("_host", "_ready", "address", "backlog", "on_change", "owner", "pending")

    def __init__(self, host: Host, address: Endpoint, backlog: int, owner: object) -> None:
        self._host = host
        self.address = address
        self.backlog = backlog
        self.owner = owner  # the program whose socket it is
        self.on_change: Callable[[], None] | None = None
        self.pending: dict[Connection, None] = {}  # handshakes under way
        self._ready: deque[Connection] = deque()

    @property
    def full(self) -> bool:
        """Whether the accept queue has no room: SYNs are not answered then."""
        return len(self._ready) > self.backlog

    @property
    def waiting(self) -> int:
        """Connections that nobody has accepted yet."""
        return len(self._ready)

    def admit(self, conn: Connection) -> bool:
        """Take a connection whose handshake has ended; False if there is no room."""
        if self.full:
            return False
        self.pending.pop(conn, None)
        conn.listener = None
        conn.owner = self.owner
        self._ready.append(conn)
        if self.on_change is not None:
            self.on_change()
        return True

    def accept(self) -> SimSocket | None:
        """The next connection; None if there is none now."""
        return SimSocket(self._ready.popleft()) if self._ready else None

    def close(self) -> None:
        """Stop listening: what was not accepted is reset. Idempotent."""
        self._host.unlisten(self)
        for conn in [*self.pending, *self._ready]:
            conn.abort()
        self.pending.clear()
        self._ready.clear()
        self.on_change = None


def _error(code: int) -> OSError:
    """The matching OSError subclass."""
    return OSError(code, os.strerror(code))
