"""A call that somebody listens to: the same engine, with what happens in it noted (`trace`).

Names and information are httpcore's. Where it cannot be the same, because connects are raced and
requests repeated, this is told: one connect per attempt, from its first dial to the winner; TLS
from the first socket that was connected to the winner; head and body of a request that stands in
memory as they leave, in one piece; and for every attempt its own head, sent and received. What is
said to a proxy belongs to the TLS behind it, or to the connect if there is none.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, cast

from outlast.errors import TransportFailure
from outlast.http.answer import Answer
from outlast.http.call_context import CallContext
from outlast.http.call_driver import run_call
from outlast.http.checkout import Checkout
from outlast.http.connection import Connection, Lease
from outlast.http.engine import Engine
from outlast.http.exchange import Exchange, NeedData
from outlast.http.message import Head, Headers, Request
from outlast.http.network_stream import StreamInfo
from outlast.http.trace import Trace
from outlast.http.ways import Opening
from outlast.net.address import UNIX, Address
from outlast.net.dial import DialRequest
from outlast.net.seam import Stream, Wait

__all__ = ["TracedCheckout", "run_traced"]

LOOK = Wait((), -math.inf)  # for no time: the listener gets its turn
TCP, TLS = "connection.connect_tcp", "connection.start_tls"
HEADERS, CONTENT, ANSWER = (
    "send_request_headers",
    "send_request_body",
    "receive_response_headers",
)


async def run_traced(engine: Engine, request: Request, trace: Trace) -> Answer:
    """See `run_call`."""
    try:
        answer = await run_call(engine, request._replace(trace=trace))
    except Exception as error:
        trace.end(error)
        await LOOK
        raise
    except BaseException as error:
        trace.end(error)
        trace.tell_at_once()
        raise
    trace.end(RuntimeError("another attempt was answered first"))
    try:
        await LOOK
    except BaseException:
        answer.close()
        raise
    return answer


class TracedCheckout(Checkout):
    """Tells of the connect."""

    __slots__ = ("_trace",)

    def __init__(self, call: CallContext, attempt: int, trace: Trace) -> None:
        super().__init__(call, attempt)
        self._trace = trace

    async def _dial(self, order: Sequence[Address]) -> Lease:
        name, info = self._connect()
        self._trace.started(self, name, **info)
        try:
            return await super()._dial(order)
        except BaseException as error:
            if self._trace.under_way(self):
                self._trace.failed(self, error)
            raise

    def _connect(self) -> tuple[str, dict[str, Any]]:
        """What is dialled, in httpcore's words: the origin, a proxy, or a Unix socket."""
        settings, request = self.engine.settings, self.call.request
        given = {
            "timeout": request.timeouts.connect,
            "socket_options": list(settings.socket_options) or None,
        }
        target = settings.way.target
        if target is not None and target.name is None and target.addresses[0].family == UNIX:
            return "connection.connect_unix_socket", {"path": target.addresses[0].host, **given}
        host, port = request.route.origin.host, request.route.origin.port
        if target is not None:
            host, port = target.name or target.addresses[0].pair
        local = None if settings.source is None else settings.source[0]
        return TCP, {"host": host, "port": port, "local_address": local, **given}

    def _request(self, now: float, order: Sequence[Address]) -> DialRequest:
        request = super()._request(now, order)
        if request.finish is None:
            return request
        return dataclasses.replace(request, finish=functools.partial(self._finish, request.finish))

    async def _finish(self, finish: Opening, stream: Stream) -> Stream:
        trace, route = self._trace, self.call.request.route
        if trace.under_way(self) != TLS and route.origin.scheme == "https":
            trace.complete(self, StreamInfo(stream))
            trace.started(
                self,
                TLS,
                ssl_context=self.engine.settings.context(),
                server_hostname=route.server_name,
                timeout=self.call.request.timeouts.connect,
            )
        return await finish(stream)

    def _use(self, connection: Connection, what: str) -> Lease:
        trace = self._trace
        lease = super()._use(connection, what)
        if trace.under_way(self):
            trace.complete(self, StreamInfo(connection.stream))
            if connection.session is not None:
                trace.started(self, "http2.send_connection_init", request=trace.request)
                trace.complete(self)
        prefix = "http11" if connection.session is None else "http2"
        traced = _TracedExchange(lease.exchange, trace, prefix)
        return Lease(connection, cast("Exchange", traced))


class _TracedExchange:
    """An exchange that tells of itself. All that is not told of here is the exchange's own."""

    def __init__(self, exchange: Exchange, trace: Trace, prefix: str) -> None:
        self._exchange = exchange
        self._trace = trace
        self._prefix = prefix
        self._phase = HEADERS
        self._info: dict[str, Any] = {}  # of the last that was told, as long as it can be changed
        self._ending = False  # the whole request has been queued
        self._error: OSError | None = None  # of sending; an answer may still come

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

    def _begin(self, phase: str) -> None:
        self._phase = phase
        trace = self._trace
        name = f"{self._prefix}.{phase}"
        self._info = trace.started(self, name, request=trace.request, **trace.stream)

    def _next(self, phase: str) -> None:
        self._trace.complete(self)
        self._begin(phase)

    def start(self, method: str, target: bytes, headers: Headers) -> None:
        """See `Exchange.start`."""
        self._trace.stream = {}
        self._begin(HEADERS)
        self._exchange.start(method, target, headers)

    def end(self) -> None:
        """See `Exchange.end`."""
        self._exchange.end()
        self._ending = True

    def push(self) -> bool:
        """See `Exchange.push`."""
        try:
            whole = self._exchange.push()
        except OSError as error:
            self._error = error
            raise
        finally:
            self._note_number()
        if self._phase == HEADERS and (whole or self._exchange.sent):
            self._next(CONTENT)
        if self._phase == CONTENT and whole and self._ending:
            self._next(ANSWER)
        return whole

    def _note_number(self) -> None:
        """HTTP/2: a stream has its number when it has begun, and its first event is told later."""
        number = self._exchange.number
        if number is not None and not self._trace.stream:
            self._trace.stream = {"stream_id": number}
            self._info.update(self._trace.stream)

    def head(self) -> Head | NeedData:
        """See `Exchange.head`."""
        head = self._exchange.head()
        early = self._phase != ANSWER
        if early and self._error is not None:
            failure = TransportFailure("WriteError", str(self._error), self._error)
            self._trace.failed(self, failure)
            self._begin(ANSWER)
        elif early and isinstance(head, Head):
            self._next(ANSWER)
        if isinstance(head, Head):
            self._trace.complete(self, _told(head))
        return head


def _told(head: Head) -> tuple[object, ...]:
    fields = list(head.headers)
    if head.reason is None:  # HTTP/2
        return (head.status, fields)
    return (head.http_version, head.status, head.reason, fields)
