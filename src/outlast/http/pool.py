"""The pool: idle connections per endpoint, places for new ones, and who waits for them.

Decides in constant time per request, however many connections there are: idle ones lie on a
stack per endpoint (the warmest is used first) and in one list by age (the coldest is given up
first); waiters stand in one queue, first come, first served. No I/O happens under the lock:
what must be closed is returned, and the caller closes it.

Nobody waits while a place is free or an idle connection could give way: whoever is to stand in
line is served at once if there is something after all, under the same lock.

Limits are httpx's: `max_connections` counts every connection and every dial under way,
`max_keepalive` the idle ones. A race counts as one, however many sockets it opens. Thread-safe.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from outlast.http.connection import Connection, Lease
from outlast.http.idle import Idle
from outlast.http.in_use import InUse
from outlast.http.message import Route
from outlast.http.tickets import PLACE, Bells, Grant, PoolLimits, Ticket, Want
from outlast.net.address import Address
from outlast.service.doors import Berth, Seat

__all__ = ["Pool"]


class Pool:
    """All connections of one transport."""

    def __init__(self, limits: PoolLimits) -> None:
        self._limits = limits
        self.in_use = InUse(limits.max_connections)
        self._lock = self.in_use.lock
        self._count = 0
        self._idle = Idle()
        self._due = -math.inf  # nothing that is idle expires before; there may be nothing
        self._queue: OrderedDict[Ticket, None] = OrderedDict()
        self._shared = self.in_use.shared
        self._expecting: dict[Route, OrderedDict[Ticket, None]] = {}  # behind a dial (HTTP/2)
        # Under circuit limits alone; here, so that an idle connection weighs nothing for it.
        self.seats: dict[Lease, Seat] = {}
        self.berths: dict[Connection, Berth] = {}
        self._bells = Bells()  # rung without the lock

    # -- taking ----------------------------------------------------------------------------

    def take(self, want: Want, now: float) -> tuple[Connection | Grant | None, list[Connection]]:
        """An idle connection, or a place for a new one; None if there is neither: then `queue`.

        Also returns what must be closed.
        """
        with self._lock:
            return self._take(want, now)

    def queue(self, ticket: Ticket, want: Want, now: float) -> list[Connection]:
        """Stand in line; the grant comes with the waiter's wake. Returns what must be closed."""
        with self._lock:
            grant, dead = self._take(want, now)
            if grant is None:
                self._line(want)[ticket] = None
            else:  # freed since `take`, when nobody stood in line
                self._grant(ticket, grant)
        self._bells.ring()
        return dead

    def hurry(self, ticket: Ticket) -> list[Connection]:
        """The first who waits for another's dial dials too, if there is a place. As `queue`."""
        dead: list[Connection] = []
        with self._lock:
            line = self._expecting.get(ticket.route)
            if line and next(iter(line)) is ticket and self._make_room(dead):
                del line[ticket]
                self._grant(ticket, PLACE)
        self._bells.ring()
        return dead

    def collect(self, ticket: Ticket, now: float) -> Connection | Grant | None:
        """Leave the line with what was granted, if there was anything."""
        with self._lock:
            grant = self._leave(ticket)
            self._advance(now)
        self._bells.ring()
        return grant

    def leave(self, ticket: Ticket, now: float) -> list[Connection]:
        """Leave the line, and give a grant back that nobody needs now. Returns what to close."""
        dead: list[Connection] = []
        with self._lock:
            grant = self._leave(ticket)
            if isinstance(grant, Connection):
                dead = self._end_lease(grant, reusable=True, now=now)
            elif grant is not None:
                self._end_dial(ticket.route)
            self._advance(now)
        self._bells.ring()
        return dead

    def replace(
        self, closed: Connection, now: float, *, another: bool = True
    ) -> tuple[Connection | Grant | None, list[Connection]]:
        """For an idle connection that was taken but is of no use: the next one to its endpoint if
        `another` will do, or the place that it had; None if others have begun to share it
        meanwhile, who end it. Also returns what else must be closed."""
        dead: list[Connection] = []
        with self._lock:
            if closed.leases > 1:
                return None, self._end_lease(closed, reusable=False, now=now)
            self.in_use.end(closed, reusable=False)
            closed.counted = False
            since = -math.inf if another else math.inf
            connection = self._pop(closed.route, closed.address, since, now, dead)
            if connection is not None:
                self._free_place()
        self._bells.ring()
        return connection or PLACE, dead

    def take_idle(self, address: Address) -> list[Connection]:
        """All idle connections to an endpoint, with their places; nobody shares them."""
        with self._lock:
            taken = self._idle.pop_all(address)
            for connection in taken:
                self.in_use.begin(connection)
                connection.claimed = True
        return taken

    # -- giving back -----------------------------------------------------------------------

    def adopt(self, connection: Connection, now: float) -> list[Connection]:
        """A place has become `connection`, in use. Who waited for this dial is served: by it, if
        it can be shared, else as its turn comes. Returns what must be closed."""
        dead: list[Connection] = []
        with self._lock:
            self.in_use.begin(connection)
            rest = OrderedDict[Ticket, None]()
            for ticket in self._expecting.pop(connection.route, None) or ():
                if ticket.takes(connection) and connection.shares(now):
                    self.in_use.begin(connection)
                    self._grant(ticket, connection)
                else:
                    rest[ticket] = None
            shared = connection.session is not None
            if rest and shared and not self._queue and self._make_room(dead):
                self._grant(rest.popitem(last=False)[0], PLACE)
                self._expecting[connection.route] = rest  # one more dial may do for all of them
            else:
                self._queue.update(rest)
            dead += self._advance(now)
        self._bells.ring()
        return dead

    def free_place(self, now: float, route: Route | None = None) -> None:
        """A place was not needed: the dial failed. `route`: what was dialled."""
        with self._lock:
            self._end_dial(route)
            self._advance(now)
        self._bells.ring()

    def release(self, connection: Connection, reusable: bool, now: float) -> bool:
        """A connection's request is over. False: the caller closes it.

        Others that must be closed are closed by whoever takes next.
        """
        with self._lock:
            last = self.in_use.end(connection, reusable)
            kept = not (last and self._settle(connection, reusable, now))
            if self._queue:
                self._advance(now)
        if self._bells:
            self._bells.ring()
        return kept

    def evict(self, connection: Connection) -> None:
        """A suspect connection in use gives its place to the first in line, if anybody waits."""
        with self._lock:
            if self._queue and self.in_use.disown(connection):
                self._free_place()
        self._bells.ring()

    def disown(self, connection: Connection) -> bool:
        """Take a suspect connection's place away from it; True if it had one.

        The place is the caller's: for the attempt that starts beside the suspect one.
        """
        with self._lock:
            return self.in_use.disown(connection)

    def serve_line(self, now: float) -> list[Connection]:
        """A shared connection takes more at once. Returns what must be closed."""
        with self._lock:
            dead = self._advance(now)
        self._bells.ring()
        return dead

    def offer(self, connection: Connection, now: float) -> bool:
        """Take a connection that nobody needs now; False if there is no room for it."""
        with self._lock:
            if self._count >= self._limits.max_connections:
                return False
            self._count += 1
            kept = not self._settle(connection, reusable=True, now=now)
        self._bells.ring()
        return kept

    def give_up(self, address: Address, wanted: Callable[[Connection], bool]) -> Connection | None:
        """Of the idle connections to an endpoint that are `wanted` the one that has rested longest;
        it has no place any more, and the caller closes it."""
        with self._lock:
            found = self._idle.coldest(address, wanted)
            if found is not None:
                self._idle.forget(found)
                self._free_place()
        self._bells.ring()
        return found

    def drain(
        self, wanted: Callable[[Connection], bool] | None = None
    ) -> tuple[list[Connection], list[Connection]]:
        """Give up all, or those `wanted`: the idle, and those in use, which will not be kept."""
        with self._lock:
            idle, busy = list(filter(wanted, self._idle)), list(filter(wanted, self.in_use.busy))
            for connection in idle:
                self._idle.forget(connection)
                self._free_place()
            for connection in busy:
                connection.expires = -math.inf
        self._bells.ring()
        return idle, busy

    def renew(self) -> None:
        """In the child of a fork: whoever held the lock is the parent's thread, and so are those
        who stand in line, and those who share connections."""
        self._lock = self.in_use.lock = Lock()
        for line in (self._queue, self._expecting, self._bells):
            line.clear()
        for session in filter(None, (each.session for each in (*self._idle, *self.in_use.busy))):
            session.renew()

    # -- for people and tests --------------------------------------------------------------

    def look(self) -> tuple[list[Connection], list[Connection]]:
        """The idle, and those in use."""
        with self._lock:
            return list(self._idle), self.in_use.busy

    @property
    def crowded(self) -> bool:
        """Whether anybody stands in line."""
        return bool(self._queue)

    def counts(self) -> dict[str, int]:
        """Places taken, idle connections, connections in use, callers in line."""
        with self._lock:
            idle, busy = self._idle.count, len(self.in_use.busy)
            waiting = len(self._queue) + sum(map(len, self._expecting.values()))
            return {"places": self._count, "idle": idle, "busy": busy, "waiting": waiting}

    # -- under the lock --------------------------------------------------------------------

    def _take(self, want: Want, now: float) -> tuple[Connection | Grant | None, list[Connection]]:
        dead = self._expired(now) if now >= self._due else []
        if self._queue:
            return None, dead
        full = self._count >= self._limits.max_connections
        for address in want.order if full else want.order[:1]:
            shared = self._shared.find(want.route, address, now) if want.multiplexed else None
            if shared is not None:
                self.in_use.begin(shared)
                return shared, dead
            connection = self._pop(want.route, address, now - want.idle_expiry, now, dead)
            if connection is not None:
                return connection, dead
        if want.multiplexed and want.route in self._expecting:
            return None, dead
        if not self._make_room(dead):
            return None, dead
        if want.multiplexed:
            self._expecting[want.route] = OrderedDict()
        return PLACE, dead

    def _make_room(self, dead: list[Connection]) -> bool:
        """Take a place; if there is none left the coldest idle connection gives way."""
        if self._count < self._limits.max_connections:
            self._count += 1
            return True
        if not self._idle.count:
            return False
        coldest = next(iter(self._idle))
        self._idle.forget(coldest)
        dead.append(coldest)
        return True

    def _advance(self, now: float) -> list[Connection]:
        """Serve those in line as long as there is something for the first. Returns what gave way.

        Whatever has changed may be of use to the first, or has made another the first.
        """
        dead: list[Connection] = []
        while self._queue:
            ticket = next(iter(self._queue))
            grant: Connection | Grant | None = self._shared.find_for(ticket, now)
            if isinstance(grant, Connection):
                self.in_use.begin(grant)
            elif self._make_room(dead):
                grant = PLACE
            else:
                break
            del self._queue[ticket]
            self._grant(ticket, grant)
        return dead

    def _line(self, want: Want) -> OrderedDict[Ticket, None]:
        """Where a caller stands: behind a dial that may serve it, or with all others."""
        if want.multiplexed and not self._queue:
            return self._expecting.get(want.route, self._queue)
        return self._queue

    # -- under the lock: connections that are shared ---------------------------------------

    def _end_lease(self, connection: Connection, reusable: bool, now: float) -> list[Connection]:
        """One exchange less on a connection. Returns it if it is to be closed."""
        if self.in_use.end(connection, reusable):
            return self._settle(connection, reusable, now)
        return []

    def _end_dial(self, route: Route | None) -> None:
        """A dial has failed: its place goes to the next who waited for its outcome, if any."""
        expecting = self._expecting.get(route) if route is not None else None
        if route is not None and not expecting:
            self._expecting.pop(route, None)
        if expecting:
            self._grant(expecting.popitem(last=False)[0], PLACE)
        else:
            self._free_place()

    def _pop(
        self, route: Route, address: Address, since: float, now: float, dead: list[Connection]
    ) -> Connection | None:
        """The warmest idle connection to an endpoint that has not been idle since `since`."""
        while (connection := self._idle.pop(route, address, since)) is not None:
            if now < connection.expires:
                self.in_use.begin(connection)
                return connection
            dead.append(connection)
            self._free_place()
        return None

    def _expired(self, now: float) -> list[Connection]:
        """Remove the idle that have expired; by the oldest of the others it is known how long there
        is nothing to be looked for, because whatever is laid down later expires later."""
        dead = self._idle.expired(now - self._limits.idle_expiry)
        for _ in dead:
            self._free_place()
        oldest = next(iter(self._idle), None)
        if oldest is not None:
            self._due = oldest.idle_since + self._limits.idle_expiry
        return dead

    def _settle(self, connection: Connection, reusable: bool, now: float) -> list[Connection]:
        """Give a connection to the next in line or lay it down; else return it for closing."""
        if not connection.counted:
            return [connection]
        fit = reusable and now < connection.expires
        if self._queue:
            ticket, _ = self._queue.popitem(last=False)
            if fit and ticket.takes(connection):
                self.in_use.begin(connection)
                self._grant(ticket, connection)
                return []
            self._grant(ticket, PLACE)
            return [connection]
        if fit and self._idle.count < self._limits.max_keepalive:
            self._idle.lay(connection, now)
            return []
        self._count -= 1
        return [connection]

    def _free_place(self) -> None:
        if self._queue:
            self._grant(self._queue.popitem(last=False)[0], PLACE)
        else:
            self._count -= 1

    def _leave(self, ticket: Ticket) -> Connection | Grant | None:
        self._queue.pop(ticket, None)
        if ticket.multiplexed and ticket.route in self._expecting:
            self._expecting[ticket.route].pop(ticket, None)
        grant, ticket.grant = ticket.grant, None
        return grant

    def _grant(self, ticket: Ticket, grant: Connection | Grant) -> None:
        ticket.grant = grant
        self._bells.append(ticket.waiter)
