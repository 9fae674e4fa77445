"""How an attempt gets a connection: an idle one that is as it was left, a place, or a dial.

Every failure here means that nothing was sent. A place in the pool that did not become a
connection goes back at once, whatever ended the dial.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Awaitable, Sequence

from outlast import events
from outlast.core.liveness import Sample
from outlast.core.probe import SILENT, Probed, Trust, trust
from outlast.errors import TransportFailure
from outlast.http.announcing import opened, pool_waited, reused
from outlast.http.call_context import CallContext
from outlast.http.connection import Connection, Lease
from outlast.http.redial import dial_again
from outlast.http.seating import ABANDONED, Crowded, Seating
from outlast.http.tickets import Grant, Ticket, Want
from outlast.net.address import UNIX, Address
from outlast.net.dial import DialRequest
from outlast.net.options import SocketPlan
from outlast.net.probe import probe
from outlast.net.seam import WAKE, Stream, Wait
from outlast.service.announce import dial_teller

__all__ = ["Checkout", "check_out"]

AGE_JITTER = 0.2  # DESIGN section 6: maximum age give or take 20 %


def check_out(call: CallContext, attempt: int, place: bool) -> Lease | Awaitable[Lease]:
    """A connection for attempt number `attempt`: at once, if there is nothing to decide or to wait
    for. Raises TransportFailure.

    `place`: the attempt brings a place in the pool along, and it is used up here. The first
    attempt takes an idle connection if there is one; later ones only to an endpoint that the
    call has not tried, because pooled connections may share what broke the last one. An endpoint
    that holds half of the pool comes after the others: it may be one that never answers.
    """
    if call.plain and not (attempt or place) and call.generation == call.engine.generation:
        return _take(call)
    if call.request.trace is not None:
        from outlast.http.traced import TracedCheckout

        checkout: Checkout = TracedCheckout(call, attempt, call.request.trace)
    else:
        checkout = Checkout(call, attempt)
    if call.service.circuits is not None:
        return checkout.sit(Seating(call, attempt, call.service.circuits), place)
    return checkout.choose(place) if call.service.chooses else checkout.run(place)


def _take(call: CallContext) -> Lease | Awaitable[Lease]:
    """As `Checkout.run`, for a first attempt of a call that is `plain`."""
    engine, route = call.engine, call.request.route
    order = call.service.order(0.0)  # it has no choice, so that the time does not matter
    shared = engine.offers_h2 and engine.multiplexed(route)
    want = Want(route, order, call.policy.idle_expiry, shared)
    grant, dead = engine.pool.take(want, call.report.started)
    if type(grant) is Connection and not dead and (grant.leases > 1 or grant.quiet()):
        return _use(call, grant, 0, "reused")
    checkout = Checkout(call, 0)
    checkout.order = order
    return checkout.granted(want, grant, dead)


def _use(call: CallContext, connection: Connection, attempt: int, what: str) -> Lease:
    call.tried.add(connection.address)
    if events.listening and what == "reused":
        reused(call, connection)
    connection.asked = call.report.started
    if connection.user_timeout != call.user_timeout:
        connection.limit(call.user_timeout)
    call.note(connection, attempt, what)
    return connection.lease()


class Checkout:
    """One attempt's way to a connection; see `check_out`."""

    __slots__ = ("attempt", "call", "engine", "order", "seating")

    def __init__(self, call: CallContext, attempt: int) -> None:
        self.call = call
        self.engine = call.engine
        self.attempt = attempt
        self.order: Sequence[Address] = ()
        self.seating: Seating | None = None  # where the target has circuit limits

    async def sit(self, seating: Seating, place: bool) -> Lease:
        """The same under circuit limits: first a seat, then a connection."""
        self.seating = seating
        lease: Lease | None = None
        try:
            try:
                self.order = await seating.order()
            except BaseException:
                if place:
                    self.engine.free_place(self.call.epoch)
                raise
            lease = await self._connected(seating, place)
            return await seating.seated(lease)
        except BaseException:
            seating.leave()
            if lease is not None:
                self.engine.put_back(lease.connection)
            raise

    async def _connected(self, seating: Seating, place: bool) -> Lease:
        """A connection, and before that a stand in line for one where it takes that."""
        ahead = seating.crowded(self.order)
        if ahead and place:
            self.engine.free_place(self.call.epoch)
        while True:
            if ahead:
                place = False
                await seating.stand(self.order)
            try:
                return await (self.choose(place) if self.call.service.chooses else self.run(place))
            except Crowded:  # its place in the pool has gone back
                ahead = True

    async def choose(self, place: bool) -> Lease:
        """The same of several endpoints: one on trial that was not used is due again."""
        lease: Lease | None = None
        try:
            lease = await self.run(place)
            return lease
        finally:
            if lease is None or lease.address != self.order[0]:
                self.call.service.untried(self.order, self.call.now())

    async def run(self, place: bool) -> Lease:
        """A connection. Raises TransportFailure."""
        call, engine = self.call, self.engine
        if call.service.departures:  # whoever has looked the name up, they are to go
            engine.retire_departed(call.service)
        order = self.order = self.order or call.endpoints()
        if place:
            return await self._dial(order)
        if call.generation != engine.generation:
            raise self._closed()
        tried = call.tried
        fresh = [each for each in order if each not in tried] if tried else order
        if len(fresh) > 1:
            fresh = engine.pool.in_use.spread(fresh)
        route = call.request.route
        shared = engine.offers_h2 and engine.multiplexed(route)
        want = Want(route, fresh, call.policy.idle_expiry, shared)
        return await self.granted(want, *engine.pool.take(want, call.now()))

    async def granted(
        self, want: Want, grant: Connection | Grant | None, dead: list[Connection]
    ) -> Lease:
        """The rest, from what the pool has said to `want`."""
        call, engine = self.call, self.engine
        if dead:
            engine.close(dead)
        if grant is None:
            grant = await self._queue(want)
        while isinstance(grant, Connection):
            quiet = grant.leases > 1 or grant.quiet()
            if quiet and call.repeatable:
                return self._use(grant, "reused")
            fit = await self._verify(grant) if quiet else Probed.GONE
            if fit is Probed.ALIVE:
                return self._use(grant, "reused")
            if fit is Probed.GONE:
                call.note(grant, self.attempt, "closed by the peer while idle")
                grant = engine.replace(grant) or await self._queue(want)
            else:
                call.note(grant, self.attempt, "not trusted with a request that is sent but once")
                grant = engine.distrust(grant) or await self._queue(want)
        return await self._dial(self.order)

    @staticmethod
    def _closed() -> TransportFailure:
        message = "the transport was closed while the call was under way; nothing was sent"
        return TransportFailure("ConnectError", message, final=True)

    def _too_late(self) -> TransportFailure:
        ended = self.call.words(None)
        message = f"{ended} came before an idle connection had been verified; nothing was sent"
        return TransportFailure("ConnectTimeout", message, final=True)

    # -- before what may not be repeated ---------------------------------------------------

    async def _verify(self, connection: Connection) -> Probed:
        """Whether the peer of a connection that was idle, or is shared, is there. It is asked only
        if it was not heard from within the last second (DESIGN section 6)."""
        call, address = self.call, connection.address
        suspect = call.service.is_suspect(address)
        alone = connection.leases == 1
        heard = call.now() - connection.asked if alone else math.inf
        if address.family == UNIX or (heard <= SILENT and not suspect):
            return Probed.ALIVE
        sample = connection.state()
        trusted = trust(heard, sample, suspect=suspect)
        if trusted is Trust.VERIFIED or (not alone and _answers_probes(sample, suspect)):
            return Probed.ALIVE
        if trusted is Trust.REPLACE or not alone or connection.keepalive is None:
            return Probed.UNKNOWN
        if not self.engine.pool.in_use.claim(connection):  # a loop takes one wait on it at a time
            return Probed.UNKNOWN
        try:
            (found,) = await probe(self.engine.network, [connection.stream], call.deadline.at)
            if found is Probed.UNKNOWN and call.late:  # that is no evidence against anybody
                raise self._too_late()
        except BaseException:
            # Else the next in a hurry would meet it again.
            self.engine.retire(connection, "unfinished")
            raise
        connection.claimed = False
        self.engine.serve_line()
        if found is Probed.UNKNOWN and connection.linked():
            call.suspect(connection, call.now(), "its peer does not answer a probe")
        return found

    # -- the pool --------------------------------------------------------------------------

    async def _queue(self, want: Want) -> Connection | Grant:
        """Stand in line for a connection or a place."""
        call, pool, started = self.call, self.engine.pool, self.call.now()
        refuse = frozenset(call.tried) if self.attempt == 0 else None
        ticket = Ticket(want.route, refuse, self.engine.network.waiter(), want.multiplexed)
        until = call.pool_time.deadline(started).earlier(call.deadline).at
        self.engine.close(pool.queue(ticket, want, started))
        try:
            while ticket.grant is None and (now := call.now()) < until:
                await Wait(((ticket.waiter, WAKE),), min(until, now + ABANDONED))
                self.engine.tidy()
                self.engine.close(pool.hurry(ticket))
        except BaseException:
            self.engine.close(pool.leave(ticket, call.now()))
            raise
        grant = pool.collect(ticket, call.now())
        call.pool_time.spend(started, call.now())
        waited = f"waited {call.now() - started:.3f} s for a connection"
        call.report.add(call.now(), "pool", waited, attempt=self.attempt)
        if events.listening:
            pool_waited(call, call.now() - started, granted=grant is not None)
        if grant is None:
            message = f"{waited}: all {pool.counts()['places']} places are taken; nothing was sent"
            raise TransportFailure("PoolTimeout", message, final=True)
        return grant

    def _use(self, connection: Connection, what: str) -> Lease:
        return _use(self.call, connection, self.attempt, what)

    # -- a new connection ------------------------------------------------------------------

    async def _dial(self, order: Sequence[Address]) -> Lease:
        """Turn a place in the pool into a connection; the place goes back if that fails."""
        if self.call.tried:
            order = sorted(order, key=self.call.tried.__contains__)
        if len(order) < 2:
            return await self._dial_in(order)
        in_use = self.engine.pool.in_use
        order = in_use.aim(order)
        try:
            return await self._dial_in(order)
        finally:
            in_use.aimed(order[0])

    async def _dial_in(self, order: Sequence[Address]) -> Lease:
        call, engine = self.call, self.engine
        call.report.attempt = self.attempt
        seating = self.seating
        try:
            if seating is not None:
                order = seating.dial(order)  # may raise Crowded
            won, request = await dial_again(call, functools.partial(self._request, order=order))
        except BaseException:
            if seating is not None:
                seating.dialled(None)
            engine.free_place(call.epoch, call.request.route)
            raise
        connection, *spare = (
            self._connection(stands.stream, stands.rtt, request.plan)
            for stands in (won, *won.spare)
        )
        engine.close(engine.pool.adopt(connection, call.now()))
        if seating is not None:
            seating.dialled(connection)
        if events.listening:
            opened(call, won)
        if call.service.departures:
            engine.retire_departed(call.service)
        for other in spare:
            if seating is None or seating.keeps(other):
                engine.offer(other)
            else:
                engine.close((other,))
        if call.generation != engine.generation:
            engine.retire(connection, "closed")
            raise self._closed()
        return self._use(connection, "new")

    def _connection(self, stream: Stream, rtt: float, plan: SocketPlan) -> Connection:
        """A new connection's books. How old it may get, and what the kernel may hold
        unacknowledged on it now that it stands, are this call's to say."""
        call, policy = self.call, self.call.policy
        age = policy.max_age * self.engine.rng.uniform(1 - AGE_JITTER, 1 + AGE_JITTER)
        connection = Connection(
            stream,
            stream.address,
            call.request.route,
            rtt,
            call.now() + age,
            plan.user_timeout,
            call.epoch,
            self.engine.session(stream, call.request.route),
            exchange=self.engine.settings.h1,
            tolerance=call.service.tolerance(stream.address),
            made=call.now(),
        )
        connection.limit(call.user_timeout)
        return connection

    def _request(self, now: float, order: Sequence[Address]) -> DialRequest:
        call, engine, policy = self.call, self.engine, self.call.policy
        name = call.service.target.name
        deadline = call.connect_time.deadline(now).earlier(call.deadline)
        return DialRequest(
            memory=call.service.memory,
            deadline=deadline.at,
            plan=engine.socket_plan(policy, call.user_timeout, deadline.remaining(now)),
            name=name,
            addresses=() if name else order,
            finish=engine.finish(call.request.route),
            max_open=policy.open_attempts,
            attempt_delay=policy.attempt_delay,
            watcher=_InOrder(call, order) if len(order) > 1 or call.tried else call.health,
            told=dial_teller(call.service.target.text),
        )


def _answers_probes(sample: Sample | None, suspect: bool) -> bool:
    """Whether somebody else's wait on a shared connection keeps it verified: keepalive probes
    every second there, and has been answered."""
    return sample is not None and not suspect and sample.silence <= 2 * SILENT


class _InOrder:
    """A service whose endpoints are dialled in the order of a call; what its name has new comes
    after those, what the call has tried last."""

    __slots__ = ("_call", "_order", "connected", "failed", "refused", "resolved", "silent")

    def __init__(self, call: CallContext, order: Sequence[Address]) -> None:
        service = call.health
        self._call = call
        self._order = {address: place for place, address in enumerate(order)}
        self.connected, self.failed = service.connected, service.failed
        self.refused = service.refused
        self.resolved, self.silent = service.resolved, service.silent

    def arrange(self, addresses: Sequence[Address], now: float) -> Sequence[Address]:
        """See `DialWatcher.arrange`."""
        tried, order = self._call.tried, self._order
        if not order:  # the name was never met: it is picked only now
            addresses = self._call.service.arrange(addresses, now)
        return sorted(addresses, key=lambda each: (each in tried, order.get(each, len(order))))
