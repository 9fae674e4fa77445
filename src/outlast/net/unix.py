"""Unix sockets behind the seam: a connection stands at once, or the kernel says at once why not.

No TCP option is set on them, and the kernel tells nothing of how far the peer has read. A socket
whose queue of connections is full is EAGAIN (unix(7)): nothing can be waited for, so whoever
dials tries again later. Refuses a local address: there is nothing that it could mean.
"""

from __future__ import annotations

import errno
import os
import socket

from outlast.core.liveness import Sample
from outlast.net.address import Address
from outlast.net.kernel import KernelStream
from outlast.net.options import LocalRefusal, SocketPlan, apply

__all__ = ["UnixStream"]


class UnixStream(KernelStream):
    """A Unix socket behind the seam; see `Stream`. Its local port is 0. One owner at a time."""

    __slots__ = ()

    @classmethod
    def dial(cls, address: Address, plan: SocketPlan) -> UnixStream:
        """Connect. Raises OSError; EAGAIN if the socket's queue is full at the moment."""
        if plan.source is not None:
            text = f"connect to {address}: a Unix socket has no local address to bind"
            raise LocalRefusal(errno.EINVAL, text)
        plan = SocketPlan(keepalive=None, nodelay=False, extra=plan.extra)
        sock = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            notes = apply(sock, plan)
            code = sock.connect_ex(address.sockaddr)
            if code:
                raise OSError(code, f"connect to {address}: {os.strerror(code)}")
        except BaseException:
            sock.close()
            raise
        stream = cls(sock, address, plan)
        stream.notes = notes
        return stream

    def connected(self) -> None:
        """See `Stream.connected`: it has been since the dial."""

    def state(self) -> Sample | None:
        """See `Stream.state`."""
        return None

    def linked(self) -> bool:
        """See `Stream.linked`: the peer is on this machine."""
        return True

    def set_user_timeout(self, seconds: float) -> None:
        """See `Stream.set_user_timeout`: nothing is ever unacknowledged here."""
