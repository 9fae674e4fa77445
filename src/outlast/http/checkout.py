"""How an attempt gets a connection: an idle one that is as it was left, a place, or a dial.

Every failure here means that nothing was sent. A place in the pool that did not become a
connection goes back at once, whatever ended the dial.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from outlast.errors import TransportFailure
from outlast.http.call_context import CallContext
from outlast.http.connection import Connection, Lease
from outlast.http.pool import Grant, Ticket
from outlast.net.address import Address
from outlast.net.dial import DialError, DialRequest
from outlast.net.race_driver import dial
from outlast.net.seam import WAKE, Wait

__all__ = ["check_out"]


async def check_out(call: CallContext, attempt: int, *, place: bool) -> Lease:
    """A connection for attempt number `attempt`. Raises TransportFailure.

    `place`: the attempt brings a place in the pool along, and it is used up here. The first
    attempt takes an idle connection if there is one; later ones only to an endpoint that the
    call has not tried, because pooled connections may share what broke the last one.
    """
    return await _Checkout(call, attempt).run(place)


class _Checkout:
    __slots__ = ("attempt", "call", "engine")

    def __init__(self, call: CallContext, attempt: int) -> None:
        self.call = call
        self.engine = call.engine
        self.attempt = attempt

    async def run(self, place: bool) -> Lease:
        order = self.call.service.order(self.call.now())  # once: every look takes a turn
        if place:
            return await self._dial(order)
        fresh = [address for address in order if address not in self.call.tried]
        while True:
            self._check_open()
            grant = await self._grant(fresh)
            if not isinstance(grant, Connection):
                return await self._dial(order)
            if grant.stream.quiet():
                return self._use(grant, "reused")
            self.call.note(grant, self.attempt, "closed by the peer while idle")
            self.engine.retire(grant)

    def _check_open(self) -> None:
        if self.call.generation != self.engine.generation:
            message = "the transport was closed while the call was under way; nothing was sent"
            raise TransportFailure("ConnectError", message, final=True)

    # -- the pool --------------------------------------------------------------------------

    async def _grant(self, order: Sequence[Address]) -> Connection | Grant:
        grant, dead = self.engine.pool.take(self.call.request.origin, order, self.call.now())
        self.engine.close(dead)
        return grant if grant is not None else await self._queue()

    async def _queue(self) -> Connection | Grant:
        """Stand in line for a connection or a place."""
        call, pool, started = self.call, self.engine.pool, self.call.now()
        refuse = frozenset(call.tried) if self.attempt == 0 else None
        ticket = Ticket(call.request.origin, refuse, self.engine.network.waiter())
        until = call.pool_time.deadline(started).earlier(call.deadline).at
        pool.queue(ticket)
        try:
            while ticket.grant is None and call.now() < until:
                await Wait(((ticket.waiter, WAKE),), until)
            grant, ticket.grant = ticket.grant, None
        finally:
            call.pool_time.spend(started, call.now())
            self.engine.close(pool.leave(ticket, call.now()))
        waited = f"waited {call.now() - started:.3f} s for a connection"
        call.report.add(call.now(), "pool", waited, attempt=self.attempt)
        if grant is None:
            message = f"{waited}: all {pool.counts()['places']} places are taken; nothing was sent"
            raise TransportFailure("PoolTimeout", message, final=True)
        return grant

    def _use(self, connection: Connection, what: str) -> Lease:
        self.call.tried.add(connection.address)
        self.call.note(connection, self.attempt, what)
        return connection.lease()

    # -- a new connection ------------------------------------------------------------------

    async def _dial(self, order: Sequence[Address]) -> Lease:
        """Turn a place in the pool into a connection; the place goes back if that fails."""
        call, engine, started = self.call, self.engine, self.call.now()
        call.report.attempt = self.attempt
        request = self._request(started, order)
        try:
            won = await dial(engine.network, request, call.report)
        except DialError as error:
            engine.pool.free_place()
            kind = "ConnectTimeout" if error.timed_out else "ConnectError"
            cause = error.cause or error
            raise TransportFailure(kind, error.message, cause, final=True) from error
        except BaseException:
            engine.pool.free_place()
            raise
        finally:
            call.connect_time.spend(started, call.now())
        if request.plan.user_timeout != call.policy.user_timeout:
            won.stream.set_user_timeout(call.policy.user_timeout)
        connection = engine.connection(won.stream, won.rtt, call.request.origin)
        engine.pool.adopt(connection)
        for spare in won.spare:
            engine.offer(spare, won.rtt, call.request.origin)
        if call.generation != engine.generation:
            engine.retire(connection)
        self._check_open()
        return self._use(connection, "new")

    def _request(self, now: float, order: Sequence[Address]) -> DialRequest:
        call, engine, policy = self.call, self.engine, self.call.policy
        finish = None
        if call.request.origin.scheme == "https":
            finish = functools.partial(engine.secure, name=call.request.server_name)
        name = call.service.target.name
        deadline = call.connect_time.deadline(now).earlier(call.deadline)
        return DialRequest(
            memory=call.service.memory,
            deadline=deadline.at,
            plan=engine.socket_plan(policy, deadline.remaining(now)),
            name=name,
            addresses=() if name else sorted(order, key=call.tried.__contains__),
            finish=finish,
            max_open=policy.open_attempts,
            attempt_delay=policy.attempt_delay,
            watcher=call.service,
        )
