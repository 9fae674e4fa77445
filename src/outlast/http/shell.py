"""What the transports of all families are made of: their arguments, the engine, the two faces.

A family's own classes (`transport`, `outlast.httpx2`) add its base class and nothing else. At
run time any of them serves a request of any family: who made the request gets its own exceptions,
Response and stream types back. What this version cannot serve is refused when the transport is
made.
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from outlast.errors import TransportFailure
from outlast.http.answer import Answer
from outlast.http.arguments import (
    Cert,
    Parser,
    Verify,
    read_http1_parser,
    read_limits,
    read_local_address,
    read_policy,
    read_protocols,
    read_socket_options,
    read_targets,
    read_tls,
)
from outlast.http.body import async_body, sync_body
from outlast.http.call_driver import run_call
from outlast.http.dropping import drop
from outlast.http.engine import Engine, EngineSettings
from outlast.http.family import Family, FamilyLimits, FamilyRequest, family_of
from outlast.http.network_stream import AsyncNetworkStream, SyncNetworkStream
from outlast.http.reading import read_request
from outlast.http.trace import Telling, Trace
from outlast.http.traced import run_traced
from outlast.http.way_arguments import read_retries, read_way
from outlast.net.kernel import kernel
from outlast.net.options import SocketOption
from outlast.net.run import run_async, run_sync
from outlast.net.seam import Network
from outlast.policy import Policy
from outlast.target import Target

__all__ = ["AsyncShell", "SyncShell"]

RequestT = TypeVar("RequestT", bound=FamilyRequest)
ResponseT = TypeVar("ResponseT")
ProxyT = TypeVar("ProxyT")  # the family's URL | Proxy


class _Shell(Generic[ProxyT]):
    """What both kinds of transport share. `family`: whose base class it has, and whose way of
    making a TLS context it uses. `_needs`: modules that its calls import."""

    family: ClassVar[Family]
    _needs: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        verify: Verify = True,
        cert: Cert | None = None,
        trust_env: bool = True,
        http1: bool = True,
        http2: bool = False,
        limits: FamilyLimits | None = None,
        proxy: str | ProxyT | None = None,
        uds: str | None = None,
        local_address: str | None = None,
        retries: int = 0,
        socket_options: Iterable[SocketOption] | None = None,
        *,
        policy: Policy | None = None,
        targets: Mapping[str, str | Target] | None = None,
        network: Network | None = None,
        http1_parser: Parser = "h11",
    ) -> None:
        self._policy = read_policy(policy)
        self._network: Network = kernel() if network is None else network
        origins, source = read_targets(targets), read_local_address(local_address)
        package = self.family.module
        settings = EngineSettings(
            targets=origins,
            limits=read_limits(limits, self._policy),
            context=read_tls(verify, cert, trust_env, package.create_ssl_context),
            protocols=read_protocols(http1, http2),
            socket_options=read_socket_options(socket_options),
            source=source,
            way=read_way(proxy, uds, targets=origins, source=source, package=package),
            retries=read_retries(retries),
            h1=read_http1_parser(http1_parser),
        )
        self._engine = Engine(self._network, settings)
        for name in self._needs:  # here, not in a call: a fork could come in the middle
            importlib.import_module(name)

    def drop(
        self,
        target_or_address: str | None = None,
        reason: str = "dropped by the caller",
        *,
        abort: bool = False,
    ) -> int:
        """Close connections, so that what comes next goes out on new ones. Never blocks.

        target_or_address: a target as in `targets`, an endpoint such as "10.0.0.1:8080", or an
            origin such as "http://orders.shop.svc:8080"; None for all.
        reason: in words, for whoever waits on one of them.
        abort: end those with requests in flight too. Else they are closed when their requests are
            over. What is aborted is repeated if it is safe to repeat, like any broken connection.

        Returns how many connections are meant. Raises ValueError for what is no target, address
        or origin. Thread-safe, and the same from any event loop.
        """
        return drop(self._engine, target_or_address, reason, abort=abort)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in self._engine.pool.counts().items())
        home = "" if self.family.module.__name__ == "httpx" else f"{self.family.module.__name__}."
        return f"<outlast.{home}{type(self).__name__}: {counts}>"


class SyncShell(_Shell[ProxyT], Generic[RequestT, ResponseT, ProxyT]):
    """A synchronous transport; see `outlast.Transport`."""

    def handle_request(self, request: RequestT) -> ResponseT:
        """Send one request. Raises the family's TransportError with `.report`; ValueError for a
        wrong `extensions["outlast"]`."""
        family = family_of(request)
        listener = request.extensions.get("trace")
        trace = None if listener is None else Trace(listener, request, family)
        try:
            message = read_request(request, self._policy, sync_body(request, family), family)
            if trace is None:
                answer = run_sync(self._network, run_call(self._engine, message))
            else:
                told = run_traced(self._engine, message, trace)
                answer = run_sync(Telling(self._network, trace), told)
        except TransportFailure as failure:
            raise family.error(failure, request) from failure.cause
        pieces = stream = family.sync_answer(self._network, answer, request, family)
        if trace is not None:
            stream = family.sync_traced(pieces, trace, answer.head)
        below = SyncNetworkStream(self._network, answer, family)
        response: ResponseT = _response(family, answer, stream, below)
        pieces.response = weakref.ref(response)
        return response

    def close(self) -> None:
        """Close all connections: the idle at once; whoever waits on a busy one hears of it."""
        self._engine.close()


class AsyncShell(_Shell[ProxyT], Generic[RequestT, ResponseT, ProxyT]):
    """An asynchronous transport; see `outlast.AsyncTransport`."""

    _needs = ("anyio.lowlevel", "anyio._backends._asyncio")  # anyio imports that in its first call

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        """Send one request; see `SyncShell.handle_request`."""
        family = family_of(request)
        listener = request.extensions.get("trace")
        trace = None if listener is None else Trace(listener, request, family)
        try:
            message = read_request(request, self._policy, async_body(request, family), family)
            if trace is None:
                answer = await run_async(self._network, run_call(self._engine, message))
            else:
                told = run_traced(self._engine, message, trace)
                answer = await run_async(Telling(self._network, trace), told)
        except TransportFailure as failure:
            raise family.error(failure, request) from failure.cause
        pieces = stream = family.async_answer(self._network, answer, request, family)
        if trace is not None:
            stream = family.async_traced(pieces, trace, answer.head)
        below = AsyncNetworkStream(self._network, answer, family)
        response: ResponseT = _response(family, answer, stream, below)
        pieces.response = weakref.ref(response)
        return response

    async def aclose(self) -> None:
        """Close all connections; see `SyncShell.close`. Does not wait."""
        self._engine.close()


def _response(family: Family, answer: Answer, stream: object, below: object) -> Any:
    head = answer.head
    extensions: dict[str, object] = {
        "http_version": head.http_version,
        "network_stream": below,
        "outlast": answer.report,
    }
    if head.reason is not None:
        extensions["reason_phrase"] = head.reason
    elif answer.lease is not None:
        extensions["stream_id"] = answer.lease.exchange.number
    return family.response(head.status, headers=head.headers, stream=stream, extensions=extensions)
