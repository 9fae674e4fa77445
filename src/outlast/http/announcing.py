"""What happens to connections and calls, told as events; called only where somebody listens.

`if events.listening:` stands before every call from a request's own path, so that nothing here is
even looked up while nobody does. Each connection is told to be opened once and closed once, with
one reason; each call that ends by itself is finished once: what its caller cancels has no end of
its own. Refuses to tell of connections that a fork has brought along: they are the parent's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from outlast import events
from outlast.core.call import Next, Try
from outlast.core.classify import Progress
from outlast.errors import TransportFailure
from outlast.net.dial import Won, errno_of

if TYPE_CHECKING:
    from outlast.http.answer import Answer
    from outlast.http.attempt import Attempt
    from outlast.http.call_context import CallContext
    from outlast.http.connection import Connection, Lease
    from outlast.http.engine import Engine

__all__ = [
    "answered",
    "attempt_failed",
    "body_failed",
    "closed",
    "failed",
    "opened",
    "pool_waited",
    "reused",
    "suspected",
]

REQUEST = frozenset({"LocalProtocolError", "WriteError", "WriteTimeout"})  # what sending raises


# -- connections -------------------------------------------------------------------------------


def opened(call: CallContext, won: Won) -> None:
    """The connections that a race has made."""
    if not events.wanted(events.ConnectionOpened):
        return
    for stands in (won, *won.spare):
        events.emit(
            events.ConnectionOpened(
                at=call.now(),
                target=call.service.target.text,
                address=str(stands.stream.address),
                connect=stands.rtt,
                handshake=stands.handshake,
                dials=won.dials,
                local_port=stands.stream.local_port,
            )
        )


def reused(call: CallContext, connection: Connection) -> None:
    """A pooled connection serves one more request; before it is the call's."""
    if not events.wanted(events.ConnectionReused):
        return
    now = call.now()
    rested = connection.leases == 1 and connection.idle_since >= connection.asked
    events.emit(
        events.ConnectionReused(
            at=now,
            target=call.service.target.text,
            address=connection.name,
            idle=now - connection.idle_since if rested else 0.0,
            local_port=connection.stream.local_port,
        )
    )


def suspected(call: CallContext, connection: Connection, why: str) -> None:
    """There is evidence against a connection's peer: once for each request on it."""
    if connection.suspected == connection.requests:
        return
    connection.suspected = connection.requests
    if events.wanted(events.ConnectionSuspect):
        events.emit(
            events.ConnectionSuspect(
                at=call.now(),
                target=call.service.target.text,
                address=connection.name,
                why=why,
                local_port=connection.stream.local_port,
            )
        )


def closed(engine: Engine, connections: Iterable[Connection], reason: str = "") -> None:
    """Connections have been closed. `reason` "": what their books say."""
    if not events.wanted(events.ConnectionClosed):
        return
    now = engine.network.now()
    for each in connections:
        if each.epoch != engine.epoch:
            continue
        events.emit(
            events.ConnectionClosed(
                at=now,
                target=engine.service(each.route.origin).target.text,
                address=each.name,
                reason=_reason(engine, each, now, reason),
                age=now - each.made,
                local_port=each.stream.local_port,
            )
        )


def _reason(engine: Engine, connection: Connection, now: float, reason: str) -> str:
    """What has doomed it while it was in use comes before how it has ended."""
    if connection.doom:
        return connection.doom
    if not connection.counted and reason != "peer":
        return "suspect"
    if reason:
        return reason
    rested = connection.idle_since >= connection.asked
    if rested and now - connection.idle_since >= engine.settings.limits.idle_expiry:
        return "idle"
    return "age" if now >= connection.expires else "full"


# -- calls -------------------------------------------------------------------------------------


def pool_waited(call: CallContext, seconds: float, *, granted: bool) -> None:
    """A call has stood in line."""
    if events.wanted(events.PoolWaited):
        target = call.service.target.text
        events.emit(
            events.PoolWaited(at=call.now(), target=target, seconds=seconds, granted=granted)
        )


def attempt_failed(call: CallContext, attempt: Attempt, step: Next, status: int | None) -> None:
    """An attempt has failed, or was answered with a status that is repeated; `step` follows."""
    if not events.wanted(events.AttemptFailed):
        return
    used, failure = attempt.used, None if status is not None else attempt.failure
    events.emit(
        events.AttemptFailed(
            at=call.now(),
            target=call.service.target.text,
            address="" if used is None else used.connection.name,
            attempt=attempt.number,
            phase="response" if failure is None else _phase(attempt, failure),
            why=f"answered {status}" if failure is None else failure.message,
            progress=attempt.progress,
            repeated=isinstance(step, Try),
            decision=step.why,
            error="" if failure is None else failure.kind,
            errno=None if failure is None else errno_of(failure.cause),
            status=status,
            reused=used is not None and used.connection.requests > 1,
        )
    )


def _phase(attempt: Attempt, failure: TransportFailure) -> str:
    if attempt.used is None:
        return failure.phase or ("pool" if failure.kind == "PoolTimeout" else "connect")
    unsent = attempt.progress is Progress.NOT_SENT
    return "request" if unsent or failure.kind in REQUEST else "response"


def body_failed(answer: Answer, lease: Lease, failure: TransportFailure) -> None:
    """The body of an answer that the caller has broke off."""
    if not events.wanted(events.AttemptFailed):
        return
    call, connection = answer.call, lease.connection
    events.emit(
        events.AttemptFailed(
            at=call.now(),
            target=call.service.target.text,
            address=connection.name,
            attempt=answer.number,
            phase="body",
            why=failure.message,
            progress=Progress.BODY,
            repeated=False,
            decision="a body that is under way is never asked for again",
            error=failure.kind,
            errno=errno_of(failure.cause),
            status=answer.head.status,
            reused=connection.requests > 1,
        )
    )


def answered(call: CallContext, answer: Answer) -> None:
    """A call has its answer's head."""
    version = answer.head.http_version.decode("ascii", "replace").removeprefix("HTTP/")
    address = str(answer.stream.address)
    _finished(call, address, status=answer.head.status, http_version=version)


def failed(call: CallContext, failure: TransportFailure) -> None:
    """A call has its error."""
    met = (each.address for each in reversed(call.report.events) if each.phase in MET)
    _finished(call, next(filter(None, met), ""), error=failure.kind)


MET = frozenset({"pool", "request"})  # what a report says of connections


def _finished(
    call: CallContext,
    address: str,
    *,
    status: int | None = None,
    error: str = "",
    http_version: str = "",
) -> None:
    if not events.wanted(events.CallFinished):
        return
    now, origin = call.now(), call.request.route.origin
    events.emit(
        events.CallFinished(
            at=now,
            target=call.service.target.text,
            method=call.request.method,
            scheme=origin.scheme,
            host=origin.host,
            port=origin.port,
            seconds=now - call.report.started,
            attempts=call.written,
            status=status,
            error=error,
            address=address,
            http_version=http_version,
        )
    )
