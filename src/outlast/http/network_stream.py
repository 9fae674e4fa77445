"""`extensions["network_stream"]`: the connection below a response, as httpcore hands it out.

After an upgrade (101) or a CONNECT that was granted its bytes are the caller's: `read`, `write`,
`start_tls` and `close` (`aclose`) work as httpcore's do, and raise httpcore's exceptions, because
the libraries on top (WebSocket clients) catch those. `get_extra_info` works on any response.

Refuses an HTTP/2 connection, which others share, and one that is the response's no more: it may
be in use by another request.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any

from outlast.http.answer import Answer
from outlast.http.raw import RawConnection
from outlast.net.address import UNIX
from outlast.net.run import run_async, run_sync
from outlast.net.seam import Network, Stream
from outlast.net.tls import TlsStream
from outlast.service.handed import watch_by_policy

if TYPE_CHECKING:
    from outlast.http.family import Family

__all__ = ["AsyncNetworkStream", "StreamInfo", "SyncNetworkStream"]


class StreamInfo:
    """What may be known of a connection."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def get_extra_info(self, info: str) -> Any:
        """`ssl_object`, `client_addr`, `server_addr`, `socket` or `is_readable`; None for others,
        and where there is none. The socket is for looking at: it stays this library's."""
        stream = self._stream
        if info == "ssl_object":
            return stream.session if isinstance(stream, TlsStream) else None
        while isinstance(stream, TlsStream):
            stream = stream.raw
        if info == "is_readable":
            return stream.fileno() < 0 or not stream.quiet()
        try:
            sock = stream.detach()
            if info == "client_addr":
                return sock.getsockname()
            if info == "server_addr":
                return sock.getpeername()
        except (OSError, TypeError):  # closed, or no socket at all
            return None
        return sock if info == "socket" else None


class _NetworkStream(StreamInfo):
    """What both kinds share."""

    __slots__ = ("_answer", "_family", "_network", "_raw")

    def __init__(
        self, network: Network, answer: Answer, family: Family, raw: RawConnection | None = None
    ) -> None:
        self._stream = answer.stream if raw is None else raw.stream
        self._network = network
        self._answer = answer
        self._family = family
        self._raw = raw

    def _taken(self) -> RawConnection:
        """The connection, taken out of HTTP's hands. Raises ConnectionError."""
        if self._raw is None:
            with _taking:  # one thread may read while another writes
                if self._raw is None:
                    self._raw = self._take()
        return self._raw

    def _take(self) -> RawConnection:
        lease = self._answer.lease
        if lease is None:
            raise ConnectionError("the response is over, and its connection is not its own now")
        early = lease.exchange.hand_over()
        lease.connection.limit(0.0)
        self._have_watched()
        return RawConnection(self._network, self._stream, self._answer, early)

    def _have_watched(self) -> None:
        """By the background thread: nobody here sees a window that is closed."""
        stream, answer = self._stream, self._answer
        while isinstance(stream, TlsStream):
            stream = stream.raw
        if stream.address.family == UNIX:
            return
        sock = stream.detach()
        watch_by_policy(self._network, stream, sock, answer.call.policy, answer.report)

    def _own(self) -> bool:
        """Whether the connection is the response's alone, or was."""
        lease = self._answer.lease
        return self._raw is not None or (lease is not None and lease.connection.session is None)

    @contextlib.contextmanager
    def _telling(self, verb: str) -> Iterator[None]:
        """Errors are httpcore's: of kind `verb` + Timeout or Error."""
        try:
            yield
        except TimeoutError as error:
            raise self._error(f"{verb}Timeout", error) from error
        except OSError as error:
            raise self._error(f"{verb}Error", error) from error

    def _error(self, kind: str, error: OSError) -> Exception:
        return self._family.below(kind)(f"{self._stream.address}: {error.strerror or error}")


class SyncNetworkStream(_NetworkStream):
    """For synchronous callers. One thread may read while another writes."""

    __slots__ = ()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Up to `max_bytes`; b"" at the end. Raises httpcore's ReadTimeout, ReadError."""
        with self._telling("Read"):
            return run_sync(self._network, self._taken().read(max_bytes, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """All of `buffer`. Raises httpcore's WriteTimeout, WriteError."""
        with self._telling("Write"):
            run_sync(self._network, self._taken().write(buffer, timeout))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> SyncNetworkStream:
        """The connection in TLS, to be used instead; on failure it is closed. Raises httpcore's
        ConnectTimeout, ConnectError."""
        with self._telling("Connect"):
            raw = self._taken()
            work = raw.start_tls(ssl_context, server_hostname, timeout)
            try:
                secure = run_sync(self._network, work)
            except BaseException:
                self.close()
                raise
        return SyncNetworkStream(self._network, self._answer, self._family, secure)

    def close(self) -> None:
        """End the connection; a thread that reads or writes on it hears of it. Idempotent."""
        if self._own():
            run_sync(self._network, self._taken().close())
        else:
            self._answer.close()


class AsyncNetworkStream(_NetworkStream):
    """For asynchronous callers. One task may read while another writes."""

    __slots__ = ()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """See `SyncNetworkStream.read`."""
        with self._telling("Read"):
            return await run_async(self._network, self._taken().read(max_bytes, timeout))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """See `SyncNetworkStream.write`."""
        with self._telling("Write"):
            await run_async(self._network, self._taken().write(buffer, timeout))

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> AsyncNetworkStream:
        """See `SyncNetworkStream.start_tls`."""
        with self._telling("Connect"):
            raw = self._taken()
            work = raw.start_tls(ssl_context, server_hostname, timeout)
            try:
                secure = await run_async(self._network, work)
            except BaseException:
                await self.aclose()
                raise
        return AsyncNetworkStream(self._network, self._answer, self._family, secure)

    async def aclose(self) -> None:
        """See `SyncNetworkStream.close`."""
        if self._own():
            await run_async(self._network, self._taken().close())
        else:
            self._answer.close()


_taking = Lock()  # held for a moment; one for all, because hardly any connection is ever taken


def _renew() -> None:
    global _taking  # noqa: PLW0603  in the child of a fork it may be held by another thread
    _taking = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
