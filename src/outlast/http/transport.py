"""The transports: httpx's faces over the engine.

Drop-in for `httpx.HTTPTransport` and `httpx.AsyncHTTPTransport`, with `policy` and `targets`
besides. Errors are httpx's own, each with `.report`; every response carries the same report in
`extensions["outlast"]`. What this version cannot serve is refused when the transport is made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

import httpx

from outlast.errors import TransportFailure
from outlast.http.answer import Answer
from outlast.http.arguments import (
    Cert,
    Verify,
    read_limits,
    read_local_address,
    read_policy,
    read_protocols,
    read_socket_options,
    read_targets,
    read_tls,
    refuse_what_comes_later,
)
from outlast.http.call_driver import run_call
from outlast.http.engine import Engine, EngineSettings
from outlast.http.message import BytesBody, StreamBody
from outlast.http.reading import read_request
from outlast.net.kernel import kernel
from outlast.net.options import SocketOption
from outlast.net.run import run_async, run_sync
from outlast.net.seam import Network
from outlast.policy import Policy

__all__ = ["AsyncTransport", "Transport"]


class _Shell:
    """What both transports share: their arguments, and the engine made of them."""

    def __init__(
        self,
        verify: Verify = True,
        cert: Cert | None = None,
        trust_env: bool = True,
        http1: bool = True,
        http2: bool = False,
        limits: httpx.Limits | None = None,
        proxy: str | httpx.URL | httpx.Proxy | None = None,
        uds: str | None = None,
        local_address: str | None = None,
        retries: int = 0,
        socket_options: Iterable[SocketOption] | None = None,
        *,
        policy: Policy | None = None,
        targets: Mapping[str, str] | None = None,
        network: Network | None = None,
    ) -> None:
        refuse_what_comes_later(proxy=proxy, uds=uds, retries=retries)
        self._policy = read_policy(policy)
        self._network: Network = kernel() if network is None else network
        settings = EngineSettings(
            targets=read_targets(targets),
            limits=read_limits(limits, self._policy),
            context=read_tls(verify, cert, trust_env),
            protocols=read_protocols(http1, http2),
            socket_options=read_socket_options(socket_options),
            source=read_local_address(local_address),
        )
        self._engine = Engine(self._network, settings)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in self._engine.pool.counts().items())
        return f"<outlast.{type(self).__name__}: {counts}>"


class Transport(_Shell, httpx.BaseTransport):
    """A synchronous httpx transport that outlives its endpoints.

    Takes the arguments of `httpx.HTTPTransport`, and:

    policy: a `Policy`; the defaults need no thought. Of its `idle_expiry` and the limits'
        `keepalive_expiry`, the shorter holds.
    targets: origin to target, such as {"http://orders.shop.svc:8080": "static://10.0.0.1:80"}.
    network: where connections go; the kernel's network if not given.

    Raises ValueError for arguments that are wrong, or that this version cannot serve yet.
    Thread-safe. Requests raise httpx's exceptions, with the call's time line in `.report`.
    """

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request. Raises httpx.TransportError with `.report`; ValueError for a wrong
        `extensions["outlast"]`."""
        try:
            message = read_request(request, self._policy, _sync_body(request))
            answer = run_sync(self._network, run_call(self._engine, message))
        except TransportFailure as failure:
            raise _translated(failure, request) from failure.cause
        return _response(answer, _SyncStream(self._network, answer, request))

    def close(self) -> None:
        """Close all connections: the idle at once; whoever waits on a busy one hears of it."""
        self._engine.close()


class AsyncTransport(_Shell, httpx.AsyncBaseTransport):
    """An asynchronous httpx transport that outlives its endpoints, on asyncio and trio.

    Arguments, errors and report are those of `Transport`. Safe for many tasks and cancellation;
    its connections belong to no event loop, so it may be used from one loop after another.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; see `Transport.handle_request`."""
        try:
            message = read_request(request, self._policy, _async_body(request))
            answer = await run_async(self._network, run_call(self._engine, message))
        except TransportFailure as failure:
            raise _translated(failure, request) from failure.cause
        return _response(answer, _AsyncStream(self._network, answer, request))

    async def aclose(self) -> None:
        """Close all connections; see `Transport.close`. Does not wait."""
        self._engine.close()


# -- bodies and errors ---------------------------------------------------------------------


def _sync_body(request: httpx.Request) -> BytesBody | StreamBody:
    stream = request.stream
    if not isinstance(stream, httpx.SyncByteStream):
        raise RuntimeError("an async request body needs an AsyncClient and outlast.AsyncTransport")
    try:
        return BytesBody(request.content)
    except httpx.RequestNotRead:
        chunks = iter(stream)

    async def pull() -> bytes | None:
        return next(chunks, None)

    return StreamBody(pull)


def _async_body(request: httpx.Request) -> BytesBody | StreamBody:
    stream = request.stream
    if not isinstance(stream, httpx.AsyncByteStream):
        raise RuntimeError("a sync request body needs a Client and outlast.Transport")
    try:
        return BytesBody(request.content)
    except httpx.RequestNotRead:
        chunks = stream.__aiter__()

    async def pull() -> bytes | None:
        try:
            return await chunks.__anext__()
        except StopAsyncIteration:
            return None

    return StreamBody(pull)


def _translated(failure: TransportFailure, request: httpx.Request) -> httpx.TransportError:
    """The httpx exception of the failure's kind, with the report."""
    kind: type[httpx.TransportError] = getattr(httpx, failure.kind)
    error = kind(failure.message, request=request)
    vars(error)["report"] = failure.report
    return error


def _response(
    answer: Answer, stream: httpx.SyncByteStream | httpx.AsyncByteStream
) -> httpx.Response:
    head = answer.head
    return httpx.Response(
        head.status,
        headers=list(head.headers),
        stream=stream,
        extensions={
            "http_version": head.http_version,
            **({} if head.reason is None else {"reason_phrase": head.reason}),
            "outlast": answer.report,
        },
    )


class _SyncStream(httpx.SyncByteStream):
    def __init__(self, network: Network, answer: Answer, request: httpx.Request) -> None:
        self._network = network
        self._answer = answer
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        try:
            while chunk := run_sync(self._network, self._answer.read()):
                yield chunk
        except TransportFailure as failure:
            raise _translated(failure, self._request) from failure.cause

    def close(self) -> None:
        self._answer.close()


class _AsyncStream(httpx.AsyncByteStream):
    def __init__(self, network: Network, answer: Answer, request: httpx.Request) -> None:
        self._network = network
        self._answer = answer
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while chunk := await run_async(self._network, self._answer.read()):
                yield chunk
        except TransportFailure as failure:
            raise _translated(failure, self._request) from failure.cause

    async def aclose(self) -> None:
        self._answer.close()
