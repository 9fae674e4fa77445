"""One call's surroundings: its request, its limits, its report; and how it gets a connection.

Pool and connect time are httpx's timeouts, spent once per call however many attempts there are;
the policy's deadline bounds them too. Every failure here means that nothing was sent.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from outlast.core.call import Call
from outlast.core.deadline import Deadline, Stopwatch
from outlast.core.report import Report
from outlast.errors import TransportFailure
from outlast.http.connection import Connection
from outlast.http.message import BytesBody, Request
from outlast.http.pool import Grant, Ticket
from outlast.net.address import Address
from outlast.net.dial import DialError, DialRequest
from outlast.net.race_driver import dial
from outlast.net.seam import WAKE, Wait

if TYPE_CHECKING:
    from outlast.http.attempt import Attempt
    from outlast.http.engine import Engine
    from outlast.service.table import Service

__all__ = ["CallContext"]


class CallContext:
    """What the attempts of one call share. One owner; not thread-safe."""

    __slots__ = (
        "connect_time",
        "deadline",
        "engine",
        "generation",
        "machine",
        "now",
        "policy",
        "pool_time",
        "report",
        "request",
        "service",
        "tried",
        "watched",
    )

    def __init__(
        self, engine: Engine, request: Request, service: Service, machine: Call, deadline: Deadline
    ) -> None:
        self.engine = engine
        self.generation = engine.generation
        self.request = request
        self.policy = request.policy
        self.service = service
        self.machine = machine
        self.now = engine.network.now
        self.deadline = deadline
        self.connect_time = Stopwatch(request.timeouts.connect)
        self.pool_time = Stopwatch(request.timeouts.pool)
        self.report = Report(self.now())
        self.tried: set[Address] = set()
        self.watched = self.policy.watch and request.safe and isinstance(request.body, BytesBody)

    def until(self, seconds: float | None) -> tuple[float, str]:
        """Where a wait of `seconds` from now ends, and what ends it, in words."""
        own = Deadline.after(seconds, self.now())
        if own.at <= self.deadline.at:
            return own.at, f"{seconds:g} s" if seconds is not None else "ever"
        return self.deadline.at, f"the call's deadline of {self.policy.deadline:g} s"

    # -- a connection ----------------------------------------------------------------------

    async def connect(self, attempt: Attempt) -> Connection:
        """A connection for `attempt`: an idle one that is as it was left, or a new one."""
        order = self.service.order(self.now())  # once: every look takes a turn
        fresh = [address for address in order if address not in self.tried]
        while True:
            self._still_open(attempt)
            grant = await self._grant(attempt, fresh)
            if not isinstance(grant, Connection):
                return await self._dial(attempt, order)
            if grant.stream.quiet():
                self._use(attempt, grant, "reused")
                return grant
            self._note(grant, "pool", "closed by the peer while idle")
            self.engine.retire(grant)

    def _still_open(self, attempt: Attempt) -> None:
        if self.generation != self.engine.generation:
            message = "the transport was closed while the call was under way"
            raise attempt.fail("ConnectError", f"{message}; nothing was sent", final=True)

    async def _grant(self, attempt: Attempt, order: Sequence[Address]) -> Connection | Grant:
        pool = self.engine.pool
        if attempt.place:
            attempt.place = False
            return Grant.PLACE
        grant, dead = pool.take(self.request.origin, order, self.now())
        self.engine.close(dead)
        return grant if grant is not None else await self._queue(attempt)

    async def _queue(self, attempt: Attempt) -> Connection | Grant:
        """Stand in line for a connection or a place."""
        pool, started = self.engine.pool, self.now()
        refuse = frozenset(self.tried) if attempt.number == 0 else None
        ticket = Ticket(self.request.origin, refuse, self.engine.network.waiter())
        until = self.pool_time.deadline(started).earlier(self.deadline).at
        pool.queue(ticket)
        try:
            while ticket.grant is None and self.now() < until:
                await Wait(((ticket.waiter, WAKE),), until)
            grant, ticket.grant = ticket.grant, None
        finally:
            self.pool_time.spend(started, self.now())
            self.engine.close(pool.leave(ticket, self.now()))
        waited = f"waited {self.now() - started:.3f} s for a connection"
        self.report.add(self.now(), "pool", waited, attempt=attempt.number)
        if grant is None:
            counts = self.engine.pool.counts()
            message = f"{waited}: all {counts['places']} places are taken"
            raise attempt.fail("PoolTimeout", message, final=True)
        return grant

    async def _dial(self, attempt: Attempt, order: Sequence[Address]) -> Connection:
        """Turn a place in the pool into a new connection; the place goes back if that fails."""
        engine, started = self.engine, self.now()
        self.report.attempt = attempt.number
        request = self._dial_request(started, order)
        try:
            won = await dial(engine.network, request, self.report)
        except DialError as error:
            engine.pool.free_place()
            raise self._not_connected(attempt, error) from error
        except BaseException:
            engine.pool.free_place()
            raise
        finally:
            self.connect_time.spend(started, self.now())
        if request.plan.user_timeout != self.policy.user_timeout:
            won.stream.set_user_timeout(self.policy.user_timeout)
        connection = engine.connection(won.stream, won.rtt, self.request.origin)
        engine.pool.adopt(connection)
        if self.generation != engine.generation:
            engine.retire(connection)
            self._still_open(attempt)
        for spare in won.spare:
            engine.offer(spare, won.rtt, self.request.origin)
        self._use(attempt, connection, "new")
        return connection

    def _dial_request(self, now: float, order: Sequence[Address]) -> DialRequest:
        engine, policy, service = self.engine, self.policy, self.service
        finish = None
        if self.request.origin.scheme == "https":
            finish = functools.partial(engine.secure, name=self.request.server_name)
        deadline = self.connect_time.deadline(now).earlier(self.deadline)
        return DialRequest(
            memory=service.memory,
            deadline=deadline.at,
            plan=engine.socket_plan(policy, deadline.remaining(now)),
            name=service.target.name,
            addresses=() if service.target.name else sorted(order, key=self.tried.__contains__),
            finish=finish,
            max_open=policy.open_attempts,
            attempt_delay=policy.attempt_delay,
            watcher=service,
        )

    def _not_connected(self, attempt: Attempt, error: DialError) -> TransportFailure:
        kind = "ConnectTimeout" if error.timed_out else "ConnectError"
        return attempt.fail(kind, error.message, error.cause or error, final=True)

    def _use(self, attempt: Attempt, connection: Connection, what: str) -> None:
        attempt.used = connection
        self.tried.add(connection.address)
        connection.requests += 1
        self._note(connection, "pool", what, attempt=attempt.number)

    def _note(
        self, connection: Connection, phase: str, what: str, *, attempt: int | None = None
    ) -> None:
        self.report.add(
            self.now(),
            phase,
            what,
            address=str(connection.address),
            local_port=connection.stream.local_port,
            attempt=attempt,
        )
