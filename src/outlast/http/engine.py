"""What a transport stands on: its pool, its targets, its TLS, and the books of connections.

Thread-safe, and free of any event loop. Nothing here waits but a TLS handshake; closing never
does.
"""

from __future__ import annotations

import functools
import importlib
import math
import os
import ssl
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import TYPE_CHECKING

from outlast import events
from outlast.http.announcing import closed
from outlast.http.connection import Connection, Lease
from outlast.http.h1 import H1Exchange
from outlast.http.holding import BOOKS
from outlast.http.message import Route
from outlast.http.pool import Pool
from outlast.http.proxy import beyond
from outlast.http.terms import Terms, terms_of
from outlast.http.tickets import Grant, PoolLimits
from outlast.http.ways import DIRECTLY, Opening, Way
from outlast.net.address import Address
from outlast.net.options import SocketOption, SocketPlan
from outlast.net.seam import Network, Stream
from outlast.net.tls import TlsStream, handshake
from outlast.policy import Policy
from outlast.service.check_kinds import CheckWay
from outlast.service.holdings import join
from outlast.service.table import Service, service_of
from outlast.target import Origin, Target, target_of

if TYPE_CHECKING:
    from outlast.http.h2_session import H2Session

__all__ = ["Engine", "EngineSettings"]

H2 = "h2"  # the name by which ALPN knows HTTP/2 (RFC 9113 section 3.1)
MAX_ORIGINS = 1024  # met last whose services are kept, up to twice as many
CONNECT_GRACE = 1.0  # seconds; a user timeout must not end a connect before its own deadline


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What a transport was told. `context` makes the TLS context when it is first needed;
    `protocols` are those that ALPN offers, the preferred one first; `retries` counts connects."""

    targets: Mapping[Origin, Target]
    limits: PoolLimits
    context: Callable[[], ssl.SSLContext]
    protocols: tuple[str, ...]
    socket_options: tuple[SocketOption, ...]
    source: tuple[str, int] | None
    way: Way = DIRECTLY
    retries: int = 0
    h1: Callable[[Stream], H1Exchange] = H1Exchange  # makes the exchanges of HTTP/1.1


class Engine:
    """One transport's connections. Thread-safe."""

    def __init__(self, network: Network, settings: EngineSettings) -> None:
        self.network = network
        self.settings = settings
        self.offers_h2 = H2 in settings.protocols
        self.pool = Pool(settings.limits)
        self.rng: Random = network.rng("engine")
        self.generation = 0  # calls of an earlier one end when the transport is closed
        self.epoch = 0  # what an earlier one has handed out is another process's, since a fork
        self._inherited: list[Pool] = []
        self._abandoned: deque[Lease] = deque()  # by answers that were never closed
        if H2 in settings.protocols:
            # Here, not in a call: a child that is forked in the middle of an import can never
            # import the same, because a thread that it does not have holds the module's lock.
            importlib.import_module("outlast.http.h2")
        _engines.add(self)
        join(self, network, BOOKS)
        # Those met last, and those before: a request's own is found without a lock or an order.
        self._services: dict[Origin, Service] = {}
        self._older: dict[Origin, Service] = {}
        self._told: dict[Origin, Service] = {}  # of the transport's own targets
        self._departures: weakref.WeakKeyDictionary[Service, int] = weakref.WeakKeyDictionary()
        self.verified: dict[Address, float] = {}  # endpoints, lately; see `verifying`
        self._context: ssl.SSLContext | None = None
        self._plan = SocketPlan()  # the last connection's
        self._terms: Terms | None = None  # the last call's

    def service(self, origin: Origin) -> Service:
        """The shared knowledge of the origin's target."""
        return self._services.get(origin) or self._meet(origin)

    def begin(self, policy: Policy, origin: Origin) -> tuple[Terms, Service]:
        """A call begins: what its policy says, nearly always the same as of the last one, and the
        shared knowledge of its target."""
        if self._abandoned or self._inherited:
            self.tidy()
        terms = self._terms
        if terms is None or terms.policy is not policy:
            terms = self._terms = terms_of(policy, tells=self.network.tells)
        return terms, self._services.get(origin) or self._meet(origin)

    def _meet(self, origin: Origin) -> Service:
        """One that was not asked for lately. Two threads at once do no harm: what is forgotten
        here while it is in use is found again (`service_of`)."""
        told = self.settings.targets.get(origin)
        target = self.settings.way.target or told or target_of(origin.host, origin.port)
        service = self._older.get(origin) or service_of(target, self.network)
        if told is not None:
            self._told[origin] = service
        if service.settings.check is not None:
            service.check(self.network, self._check_way(origin))
        if len(self._services) >= MAX_ORIGINS:
            self._older, self._services = self._services, {}
        self._services[origin] = service
        return service

    def _check_way(self, origin: Origin) -> CheckWay:
        """How this transport's requests reach the endpoints of an origin."""
        plan = SocketPlan(extra=self.settings.socket_options, source=self.settings.source)
        authority = origin.host if origin.port in (80, 443) else f"{origin.host}:{origin.port}"
        trust = self.settings.context if origin.scheme == "https" else None
        return CheckWay(host=origin.host, authority=authority, trust=trust, plan=plan)

    def tidy(self) -> None:
        """Before a call: end what a fork has left, and what was dropped without being closed."""
        while self._inherited:
            for connection in chain(*self._inherited.pop().drain()):
                connection.close()
        while self._abandoned:
            self.discard(self._abandoned.popleft())

    def abandon(self, lease: Lease) -> None:
        """An answer was garbage-collected unfinished. No lock may be taken here."""
        self._abandoned.append(lease)

    def renew(self) -> None:
        """In the child of a fork: a pool of its own; the parent's connections are let go later,
        when they are not just about to be replaced by exec."""
        self._inherited.append(self.pool)
        self.pool.renew()
        self.pool = Pool(self.settings.limits)
        self.rng = self.network.rng("engine")
        self._abandoned.clear()
        self.epoch += 1
        self.generation += 1

    def free_place(self, epoch: int, route: Route | None = None) -> None:
        """A place in the pool of `epoch` was not needed."""
        if epoch == self.epoch:
            self.pool.free_place(self.network.now(), route)

    # -- connections -----------------------------------------------------------------------

    def socket_plan(self, policy: Policy, user_timeout: float, patience: float) -> SocketPlan:
        """The options of a new connection that may take `patience` seconds to come about.

        Every wait on it is watched, so a user timeout may stand; but a short one would also end
        a slow connect before its own time (linux-tcp facts 3.3).
        """
        limit = user_timeout
        if limit and patience >= limit:
            limit = 0.0 if patience == math.inf else math.ceil(patience + CONNECT_GRACE)
        options, source = self.settings.socket_options, self.settings.source
        plan, shared = SocketPlan(policy.keepalive, limit, extra=options, source=source), self._plan
        if plan == shared:  # connections that are made alike share it
            return shared
        self._plan = plan
        return plan

    def multiplexed(self, route: Route) -> bool:
        """Whether a new connection on this route may turn out to be shared: HTTP/2."""
        if not self.offers_h2 or self.settings.way.forwards(route):
            return False
        return route.origin.scheme == "https" or len(self.settings.protocols) == 1

    def session(self, stream: Stream, route: Route) -> H2Session | None:
        """The HTTP/2 session of a new connection, if that is what both sides speak. Where HTTP/2
        is all that the caller allows it is spoken to a server that has agreed to nothing too."""
        if not self.multiplexed(route):
            return None
        agreed = isinstance(stream, TlsStream) and stream.protocol == H2
        if route.origin.scheme == "https" and not agreed and len(self.settings.protocols) > 1:
            return None
        from outlast.http.h2_session import H2Session

        return H2Session(stream, self.network, functools.partial(_serve_line, weakref.ref(self)))

    def finish(self, route: Route) -> Opening | None:
        """What makes a connected stream one that a request can go out on; None for nothing."""
        opening = self.settings.way.opening(route)
        if route.origin.scheme != "https":
            return opening
        if self._context is None:  # now: else a handshake would seem to stall meanwhile
            self._context = self.settings.context()
        if opening is None:
            return functools.partial(self.secure, name=route.server_name)
        return functools.partial(self._tunnel, opening, route)

    async def _tunnel(self, opening: Opening, route: Route, stream: Stream) -> Stream:
        """TLS to an origin that a proxy leads to."""
        through = await opening(stream)
        try:
            return await self.secure(through, name=route.server_name)
        except OSError as error:
            raise beyond(error, f"{route.origin} through the proxy") from error

    async def secure(self, stream: Stream, *, name: str) -> TlsStream:
        """TLS over `stream`, verified for `name`."""
        if self._context is None:
            self._context = self.settings.context()
        protocols = self.settings.protocols
        return await handshake(stream, context=self._context, name=name, protocols=protocols)

    def offer(self, connection: Connection) -> None:
        """A loser of a race that is usable too: kept if there is room."""
        if connection.epoch != self.epoch or not self.pool.offer(connection, self.network.now()):
            connection.close()
            self.tell((connection,), "unwanted")
        elif self.pool.berths:
            self._stir(connection)

    def tell(self, connections: Sequence[Connection], reason: str = "") -> None:
        """Those connections have been closed."""
        for berth in filter(None, [self.pool.berths.pop(each, None) for each in connections]):
            berth.leave()
        if events.listening:
            closed(self, connections, reason)

    def release(self, lease: Lease, whole: bool = False) -> None:
        """A request is over: keep the connection if its exchange is complete, else close it.
        `whole`: all of the answer has come, so that it is the peer who wants no more."""
        seat = self.pool.seats.pop(lease, None)  # now: the next may have the same lease
        connection, reusable = lease.connection, lease.exchange.leave()
        # By position, here and in the pool: CPython calls nothing quickly that is called by name.
        if connection.epoch != self.epoch or not self.pool.release(
            connection, reusable, self.network.now()
        ):
            connection.close()
            self.tell((connection,), "" if reusable else "peer" if whole else "unfinished")
        elif self.pool.berths:
            self._stir(connection)
        if seat is not None:
            seat.leave(self.network.now())

    def keep(self, connection: Connection, *, reusable: bool) -> bool:
        """Give a connection back to the pool; False if it is to be closed."""
        if connection.epoch != self.epoch:
            return False
        kept = self.pool.release(connection, reusable=reusable, now=self.network.now())
        if kept and self.pool.berths:
            self._stir(connection)
        return kept

    def _stir(self, connection: Connection) -> None:
        """It is idle, or takes more: under circuit limits somebody may wait for that."""
        berth = self.pool.berths.get(connection)
        if berth is not None:
            berth.stir()

    def retire(self, connection: Connection, reason: str) -> None:
        """Close a connection in good order that is not wanted; those who share it hear of it.
        `reason`: as of `ConnectionClosed`."""
        connection.doom = connection.doom or reason
        connection.expires = -math.inf
        if self.keep(connection, reusable=False):
            connection.stream.shut()
        else:
            connection.close()
            self.tell((connection,))

    def replace(self, gone: Connection) -> Connection | Grant | None:
        """For an idle connection that the peer has closed: another one, or its place. None: ask
        the pool again, because others share it, and end it when they have heard of it."""
        grant, dead = self.pool.replace(gone, self.network.now())
        if grant is not None:
            gone.close()
            self.tell((gone,), "peer")
        self.close(dead)
        return grant

    def serve_line(self) -> None:
        """A shared connection takes more than before."""
        self.close(self.pool.serve_line(self.network.now()))

    def distrust(self, connection: Connection) -> Connection | Grant | None:
        """Abort a connection that was taken but is not trusted: its place; None as `replace`."""
        grant, _ = self.pool.replace(connection, self.network.now(), another=False)
        if grant is not None:
            connection.abort()
            self.tell((connection,), "suspect")
        return grant

    def put_back(self, connection: Connection) -> None:
        """A connection that was taken, and is not needed or was found to be alive."""
        if not self.keep(connection, reusable=True):
            connection.abort()
            self.tell((connection,))

    def discard(self, lease: Lease) -> None:
        """End an exchange that did not end well: its connection is aborted, unless others share
        it and it has not failed them."""
        seat, connection = self.pool.seats.pop(lease, None), lease.connection
        usable = connection.session is not None and lease.exchange.leave()
        if not self.keep(connection, reusable=usable):
            connection.abort()
            doubted = connection.suspected and connection.suspected == connection.requests
            self.tell((connection,), "suspect" if doubted else "unfinished")
        if seat is not None:
            seat.leave(self.network.now())

    def retire_departed(self, service: Service) -> None:
        """Endpoints may have left the target: connections to them serve no further request, so
        that load follows the endpoints."""
        if self._departures.get(service, 0) == service.departures:
            return
        self._departures[service] = service.departures
        idle, busy = self.pool.drain(
            lambda each: (
                not service.has(each.address) and self.service(each.route.origin) is service
            )
        )
        self._end(idle, busy, "departed")

    def drop(self, wanted: Callable[[Connection], bool] | None, reason: str, *, abort: bool) -> int:
        """Close connections, all or those `wanted`: the idle now; the busy when their requests are
        over, or now with `abort`, so that whoever waits on one hears of it. How many."""
        idle, busy = self.pool.drain(wanted)
        for connection in busy:
            connection.dropped = reason
        self._end(idle, busy, "dropped", abort=abort)
        return len(idle) + len(busy)

    def close(self, connections: Iterable[Connection] | None = None) -> None:
        """Close these; without an argument everything: the idle at once, the busy ones are shut,
        so that whoever waits on one hears of it."""
        if connections is None:
            self.generation += 1
            self._end(*self.pool.drain(), "closed", abort=True)
            return
        connections = tuple(connections)
        for connection in connections:
            connection.close()
        self.tell(connections)

    def _end(
        self,
        idle: Sequence[Connection],
        busy: Iterable[Connection],
        reason: str,
        *,
        abort: bool = False,
    ) -> None:
        """Close what is idle, and mark what is busy; with `abort` those are shut."""
        for connection in busy:
            connection.doom = connection.doom or reason
            if abort:
                connection.stream.shut()
        for connection in idle:
            connection.close()
        self.tell(idle, reason)


def _serve_line(engine: weakref.ref[Engine]) -> None:
    """A connection takes more at once. It does not keep its engine alive."""
    alive = engine()
    if alive is not None:
        alive.serve_line()


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def _renew_all() -> None:
    for engine in list(_engines):
        engine.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
