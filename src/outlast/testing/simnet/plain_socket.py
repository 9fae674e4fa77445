"""What `outlast.create_connection` and `connect_tcp` hand out on a simulated network.

A `socket.socket` whose calls block in virtual time, and an anyio stream. There is no descriptor
below: what needs one (`select`, `ssl.SSLContext.wrap_socket`, C libraries) gets -1, and fails.

Source: the socket module's documentation (time-outs, errors), anyio's stream interfaces.
Refuses `detach` and duplication: nobody but the simulation could use what they give.
"""

from __future__ import annotations

import errno
import math
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio import BrokenResourceError, ClosedResourceError, EndOfStream
from anyio.abc import SocketStream

from outlast.net.seam import READ, WRITE, Wait
from outlast.testing.simnet.states import CLOSED

if TYPE_CHECKING:
    from outlast.testing.simnet.network import SimNetwork
    from outlast.testing.simnet.stream import SimStream

__all__ = ["PlainSocket", "PlainStream"]


class PlainSocket(socket.socket):
    """A socket in virtual time, of the connection below `stream`."""

    def __init__(self, network: SimNetwork, stream: SimStream) -> None:
        self._io_refs = 0  # the socket module's own book-keeping, for makefile
        self._closed = False
        self._network = network
        self._stream = stream
        self._timeout: float | None = socket.getdefaulttimeout()

    # -- what it is ------------------------------------------------------------------------

    @property
    def family(self) -> Any:
        """AF_INET or AF_INET6."""
        return socket.AddressFamily(self._stream.address.family)

    @property
    def type(self) -> Any:
        """SOCK_STREAM."""
        return socket.SOCK_STREAM

    @property
    def proto(self) -> Any:
        """TCP."""
        return socket.IPPROTO_TCP

    def fileno(self) -> int:
        """-1: there is no descriptor."""
        return -1

    def getsockname(self) -> Any:
        """The local host and port."""
        return self._stream.sock.local

    def getpeername(self) -> Any:
        """The remote host and port. Raises OSError (ENOTCONN) when the connection is gone."""
        sock = self._stream.sock
        if sock.closed or sock.state == CLOSED:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self._stream.address.sockaddr

    def setsockopt(self, *args: Any) -> None:
        """Set an option by Linux's numbers."""
        self._network.turn()
        self._stream.sock.setsockopt(*args)

    def getsockopt(self, *args: Any) -> Any:
        """Read an option back."""
        return self._stream.sock.getsockopt(*args[:2])

    # -- time-outs -------------------------------------------------------------------------

    def settimeout(self, value: float | None) -> None:
        """Seconds of virtual time for each call; 0: never wait; None: for ever."""
        if value is not None and value < 0:
            raise ValueError("Timeout value out of range")
        self._timeout = value

    def gettimeout(self) -> float | None:
        """See `settimeout`."""
        return self._timeout

    @property
    def timeout(self) -> Any:
        """See `settimeout`."""
        return self._timeout

    def setblocking(self, flag: bool) -> None:
        """Wait for ever, or never."""
        self._timeout = None if flag else 0.0

    def getblocking(self) -> bool:
        """Whether calls wait."""
        return self._timeout != 0

    def _wait(self, mask: int, until: float) -> None:
        if self._timeout == 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if not self._network.wait(Wait(((self._stream, mask),), until)):
            raise TimeoutError("timed out")

    def _until(self) -> float:
        return math.inf if self._timeout is None else self._network.now() + self._timeout

    # -- bytes -----------------------------------------------------------------------------

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """Up to `bufsize` bytes; b"" at the end."""
        _plain(flags)
        until = self._until()
        while (data := self._stream.recv(bufsize)) is None:
            self._wait(READ, until)
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Up to as many bytes as fit; how many."""
        view = memoryview(buffer).cast("B")
        data = self.recv(nbytes or len(view), flags)
        view[: len(data)] = data
        return len(data)

    def send(self, data: Any, flags: int = 0) -> int:
        """Hand over what fits; how many bytes."""
        _plain(flags)
        until = self._until()
        view = memoryview(data).cast("B")
        while not (count := self._stream.send(view)) and view:
            self._wait(WRITE, until)
        return count

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Hand over all of it; the time-out is for the whole."""
        _plain(flags)
        until = self._until()
        view = memoryview(data).cast("B")
        while view:
            count = self._stream.send(view)
            view = view[count:]
            if not count:
                self._wait(WRITE, until)

    # -- the end ---------------------------------------------------------------------------

    def shutdown(self, how: int) -> None:
        """End one direction or both."""
        self._network.turn()
        if how == socket.SHUT_WR:
            self._stream.sock.shutdown_write()
        else:
            self._stream.sock.shutdown()

    def _real_close(self, _ss: Any = None) -> None:
        self._stream.close()

    def detach(self) -> int:
        """Refused: there is no descriptor."""
        raise OSError(errno.EOPNOTSUPP, "a simulated socket has no descriptor to detach")

    def dup(self) -> PlainSocket:
        """Refused: there is no descriptor."""
        raise OSError(errno.EOPNOTSUPP, "a simulated socket has no descriptor to duplicate")

    def as_anyio(self) -> SocketStream:
        """The same connection as an anyio stream, which owns it from here on."""
        return PlainStream(self, self._network, self._stream)

    def __repr__(self) -> str:
        return f"<PlainSocket {self._stream!r}{' (closed)' if self._closed else ''}>"


class PlainStream(SocketStream):
    """An anyio stream in virtual time."""

    def __init__(self, sock: PlainSocket, network: SimNetwork, stream: SimStream) -> None:
        self._sock = sock
        self._network = network
        self._stream = stream
        self._ended = False

    @property
    def _raw_socket(self) -> socket.socket:
        return self._sock

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Up to `max_bytes`. Raises EndOfStream, BrokenResourceError or ClosedResourceError."""
        data: bytes = await self._until(READ, partial(self._stream.recv, max_bytes))
        if not data:
            raise EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        """Send all of it. Raises as `receive` does."""
        rest = memoryview(item)
        while rest:
            count: int = await self._until(WRITE, partial(self._send, rest))
            rest = rest[count:]

    def _send(self, rest: memoryview) -> int | None:
        return self._stream.send(rest) or None

    async def _until(self, mask: int, attempt: Callable[[], Any]) -> Any:
        """Try, and wait, until something is done."""
        while True:
            if self._ended:
                raise ClosedResourceError
            try:
                done = attempt()
            except OSError as error:
                raise BrokenResourceError from error
            if done is not None:
                await self._network.wait_async(Wait((), -math.inf))
                return done
            await self._network.wait_async(Wait(((self._stream, mask),)))

    async def send_eof(self) -> None:
        """End the sending direction."""
        self._sock.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Close it in good order."""
        self._ended = True
        self._stream.close()
        await self._network.wait_async(Wait((), -math.inf))


def _plain(flags: int) -> None:
    if flags:
        raise OSError(errno.EOPNOTSUPP, f"flags {flags:#x} mean nothing on a simulated socket")
