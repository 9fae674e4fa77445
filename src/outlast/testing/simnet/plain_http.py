"""Plain httpx on the simulated network: httpcore's network backends, and transports over them.

So that the same incident can be put to a client that knows nothing of this library. Connects are
as httpcore makes them on the real network: one address after the other in threads, each with the
whole time-out; on event loops as anyio does, 250 ms apart until one stands.

Source: httpcore's backends, `socket.create_connection`, anyio's connect_tcp. httpcore is imported
on use. Its sync pool waits in real time where more threads want connections than its limit allows:
that is told as any real wait is, see `stall`. Refuses Unix sockets.
"""

from __future__ import annotations

import contextlib
import math
import ssl
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import httpcore
import httpx

from outlast.net.address import Address
from outlast.net.options import SocketPlan
from outlast.net.run import Strands, run_async, run_sync
from outlast.net.seam import READ, WAKE, WRITE, Network, Stream, Wait
from outlast.net.tls import TlsStream, handshake

__all__ = ["AsyncSimBackend", "SimBackend", "async_httpx_transport", "httpx_transport"]

T = TypeVar("T")
STAGGER = 0.25  # seconds; anyio's happy_eyeballs_delay


def httpx_transport(network: Network, **arguments: Any) -> httpx.HTTPTransport:
    """`httpx.HTTPTransport(**arguments)` on a simulated network."""
    transport = httpx.HTTPTransport(**arguments)
    transport._pool._network_backend = SimBackend(network)
    return transport


def async_httpx_transport(network: Network, **arguments: Any) -> httpx.AsyncHTTPTransport:
    """`httpx.AsyncHTTPTransport(**arguments)` on a simulated network."""
    transport = httpx.AsyncHTTPTransport(**arguments)
    transport._pool._network_backend = AsyncSimBackend(network)
    return transport


# -- engine code, the same for both worlds --------------------------------------------------


@contextlib.contextmanager
def _told(timed_out: type[Exception], failed: type[Exception]) -> Iterator[None]:
    """httpcore's own exceptions."""
    try:
        yield
    except TimeoutError as error:
        raise timed_out(str(error) or "timed out") from error
    except OSError as error:
        raise failed(str(error)) from error


def _until(network: Network, timeout: float | None) -> float:
    return math.inf if timeout is None else network.now() + timeout


async def _ready(stream: Stream, mask: int, until: float) -> None:
    if not await Wait(((stream, mask),), until):
        raise TimeoutError("timed out")


async def _look_up(network: Network, host: str, port: int, until: float) -> Sequence[Address]:
    waiter = network.waiter()
    lookup = network.lookup(host, port, waiter)
    if not await Wait(((waiter, WAKE),), until):
        raise TimeoutError("timed out")
    if lookup.error is not None:
        raise lookup.error
    return lookup.addresses or ()


async def _dial(network: Network, address: Address, plan: SocketPlan, until: float) -> Stream:
    stream = network.dial(address, plan)
    try:
        await _ready(stream, WRITE, until)
        stream.connected()
    except BaseException:
        stream.close()
        raise
    return stream


async def _in_turn(network: Network, host: str, port: int, plan: SocketPlan, limit: Any) -> Stream:
    """As socket.create_connection: look-ups have no time-out, each address has all of it."""
    error: OSError = OSError("getaddrinfo returns an empty list")
    for address in await _look_up(network, host, port, math.inf):
        try:
            return await _dial(network, address, plan, _until(network, limit))
        except OSError as failure:
            error = failure
    raise error


async def _staggered(
    network: Network, host: str, port: int, plan: SocketPlan, limit: Any
) -> Stream:
    """As anyio.connect_tcp within a time-out."""
    until = _until(network, limit)
    addresses = await _look_up(network, host, port, until)
    strands: Strands[int, Stream] = Strands(network)
    error: OSError = OSError("All connection attempts failed")
    try:
        for number, address in enumerate(addresses):
            strands.start(number, _dial(network, address, plan, until))
            last = number == len(addresses) - 1
            step = math.inf if last else network.now() + STAGGER
            while len(strands):
                ended = await strands.next(min(step, until))
                if ended is None:
                    break
                if not isinstance(ended[1], BaseException):
                    return ended[1]
                error = _as_os_error(ended[1])
    finally:
        strands.close()
    if network.now() >= until:
        raise TimeoutError("timed out")
    raise error


def _as_os_error(error: BaseException) -> OSError:
    if not isinstance(error, OSError):
        raise error
    return error


async def _read(network: Network, stream: Stream, size: int, timeout: float | None) -> bytes:
    until = _until(network, timeout)
    while (data := stream.recv(size)) is None:
        await _ready(stream, READ, until)
    return data


async def _write(network: Network, stream: Stream, data: bytes, timeout: float | None) -> None:
    until = _until(network, timeout)
    rest = memoryview(data)
    while rest or not stream.flush():
        count = stream.send(rest) if rest else 0
        rest = rest[count:]
        if not count:
            await _ready(stream, WRITE, until)


async def _secure(
    network: Network, stream: Stream, context: ssl.SSLContext, name: str | None, limit: Any
) -> TlsStream:
    strands: Strands[int, TlsStream] = Strands(network)
    strands.start(0, handshake(stream, context=context, name=name))
    try:
        ended = await strands.next(_until(network, limit))
    finally:
        strands.close()
    if ended is None:
        raise TimeoutError("timed out")
    if isinstance(ended[1], BaseException):
        raise ended[1]
    return ended[1]


def _info(stream: Stream, info: str) -> Any:
    if info == "is_readable":  # how httpcore asks whether an idle connection has ended
        return not stream.quiet()
    if info == "ssl_object":
        return stream.session if isinstance(stream, TlsStream) else None
    return stream.address.sockaddr if info == "server_addr" else None


def _plan(local: str | None, options: Any) -> SocketPlan:
    source = None if local is None else (local, 0)
    return SocketPlan(keepalive=None, extra=tuple(options or ()), source=source)


_CONNECT = (httpcore.ConnectTimeout, httpcore.ConnectError)
_READ = (httpcore.ReadTimeout, httpcore.ReadError)
_WRITE = (httpcore.WriteTimeout, httpcore.WriteError)
_UNIX = "a simulated host has no Unix sockets"


# -- threads -------------------------------------------------------------------------------


class _Stream(httpcore.NetworkStream):
    def __init__(self, network: Network, stream: Stream) -> None:
        self._network = network
        self._stream = stream

    def _do(self, kinds: tuple[Any, Any], work: Coroutine[Any, Any, T]) -> T:
        with _told(*kinds):
            return run_sync(self._network, work)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """See httpcore."""
        return self._do(_READ, _read(self._network, self._stream, max_bytes, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """See httpcore."""
        self._do(_WRITE, _write(self._network, self._stream, buffer, timeout))

    def close(self) -> None:
        """See httpcore."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> _Stream:
        """See httpcore."""
        work = _secure(self._network, self._stream, ssl_context, server_hostname, timeout)
        return _Stream(self._network, self._do(_CONNECT, work))

    def get_extra_info(self, info: str) -> Any:
        """See httpcore."""
        return _info(self._stream, info)


class SimBackend(httpcore.NetworkBackend):
    """httpcore's network backend for threads, on a simulated network."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        """See httpcore."""
        plan = _plan(local_address, socket_options)
        with _told(*_CONNECT):
            work = _in_turn(self._network, host, port, plan, timeout)
            return _Stream(self._network, run_sync(self._network, work))

    def connect_unix_socket(
        self, path: str, *_options: Any, **_named: Any
    ) -> httpcore.NetworkStream:
        """Refused."""
        raise httpcore.ConnectError(f"{path}: {_UNIX}")

    def sleep(self, seconds: float) -> None:
        """See httpcore: between its own connect retries."""
        self._network.wait(Wait((), self._network.now() + seconds))


# -- event loops ---------------------------------------------------------------------------


class _AsyncStream(httpcore.AsyncNetworkStream):
    def __init__(self, network: Network, stream: Stream) -> None:
        self._network = network
        self._stream = stream

    async def _do(self, kinds: tuple[Any, Any], work: Coroutine[Any, Any, T]) -> T:
        with _told(*kinds):
            return await run_async(self._network, work)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """See httpcore."""
        return await self._do(_READ, _read(self._network, self._stream, max_bytes, timeout))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """See httpcore."""
        await self._do(_WRITE, _write(self._network, self._stream, buffer, timeout))

    async def aclose(self) -> None:
        """See httpcore."""
        self._stream.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> _AsyncStream:
        """See httpcore."""
        work = _secure(self._network, self._stream, ssl_context, server_hostname, timeout)
        return _AsyncStream(self._network, await self._do(_CONNECT, work))

    def get_extra_info(self, info: str) -> Any:
        """See httpcore."""
        return _info(self._stream, info)


class AsyncSimBackend(httpcore.AsyncNetworkBackend):
    """httpcore's network backend for asyncio and trio, on a simulated network."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        """See httpcore."""
        plan = _plan(local_address, socket_options)
        with _told(*_CONNECT):
            work = _staggered(self._network, host, port, plan, timeout)
            return _AsyncStream(self._network, await run_async(self._network, work))

    async def connect_unix_socket(
        self, path: str, *_options: Any, **_named: Any
    ) -> httpcore.AsyncNetworkStream:
        """Refused."""
        raise httpcore.ConnectError(f"{path}: {_UNIX}")

    async def sleep(self, seconds: float) -> None:
        """See httpcore: between its own connect retries."""
        await self._network.wait_async(Wait((), self._network.now() + seconds))
