"""The pool: idle connections per endpoint, places for new ones, and who waits for them.

Decides in constant time per request, however many connections there are: idle ones lie on a
stack per endpoint (the warmest is used first) and in one list by age (the coldest is given up
first); waiters stand in one queue, first come, first served. No I/O happens under the lock:
what must be closed is returned, and the caller closes it.

Limits are httpx's: `max_connections` counts every connection and every dial under way,
`max_keepalive` the idle ones. A race counts as one, however many sockets it opens. Thread-safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from threading import Lock

from outlast.http.connection import Connection
from outlast.net.address import Address
from outlast.net.seam import Waiter
from outlast.target import Origin

__all__ = ["PLACE", "Grant", "Pool", "PoolLimits", "Ticket"]


class Grant(Enum):
    """A grant that is no connection."""

    PLACE = "a place for a new connection"


PLACE = Grant.PLACE


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Counts, and seconds after which an idle connection is given up."""

    max_connections: float
    max_keepalive: float
    idle_expiry: float


@dataclass(slots=True, eq=False)
class Ticket:
    """A stand in the queue. `grant` stands once `waiter` was woken."""

    origin: Origin
    refuse: frozenset[Address] | None  # endpoints not to be served from; None: no idle ones at all
    waiter: Waiter
    grant: Connection | Grant | None = None
    left: bool = False

    def takes(self, connection: Connection) -> bool:
        """Whether this connection would do."""
        if self.refuse is None or connection.origin != self.origin:
            return False
        return connection.address not in self.refuse


class Pool:
    """All connections of one transport."""

    def __init__(self, limits: PoolLimits) -> None:
        self._limits = limits
        self._lock = Lock()
        self._count = 0
        self._stacks: dict[tuple[Origin, Address], deque[Connection]] = {}
        self._by_age: dict[Connection, None] = {}
        self._queue: deque[Ticket] = deque()
        self._busy: dict[Connection, None] = {}
        self._bells: list[Waiter] = []  # of whoever was granted something, rung without the lock

    # -- taking ----------------------------------------------------------------------------

    def take(
        self, origin: Origin, order: Sequence[Address], now: float
    ) -> tuple[Connection | Grant | None, list[Connection]]:
        """An idle connection to the first endpoint of `order`, or a place for a new one.

        None if there is neither: then `queue`. Also returns what must be closed. An empty
        `order` asks for a place only.
        """
        with self._lock:
            dead = self._expired(now)
            if self._waiting():
                return None, dead
            if order:
                connection = self._pop(origin, order[0])
                if connection is not None:
                    return connection, dead
            if self._count < self._limits.max_connections:
                self._count += 1
                return PLACE, dead
            for coldest in self._by_age:
                self._forget(coldest)
                dead.append(coldest)
                return PLACE, dead
            return None, dead

    def queue(self, ticket: Ticket) -> None:
        """Stand in line; the grant comes with the waiter's wake."""
        with self._lock:
            self._queue.append(ticket)

    def leave(self, ticket: Ticket, now: float) -> list[Connection]:
        """Leave the line, or give back a grant that came too late. Returns what to close."""
        with self._lock:
            ticket.left = True
            grant, ticket.grant = ticket.grant, None
            if grant is None:
                return []
            if isinstance(grant, Connection):
                del self._busy[grant]
                dead = self._settle(grant, reusable=True, now=now)
            else:
                dead = []
                self._free_place()
        self._ring()
        return dead

    # -- giving back -----------------------------------------------------------------------

    def adopt(self, connection: Connection) -> None:
        """A place has become `connection`, in use."""
        with self._lock:
            self._busy[connection] = None

    def free_place(self) -> None:
        """A place was not needed: the dial failed."""
        with self._lock:
            self._free_place()
        self._ring()

    def release(self, connection: Connection, *, reusable: bool, now: float) -> bool:
        """A connection's request is over. False: the caller closes it.

        Others that must be closed are closed by whoever takes next.
        """
        with self._lock:
            self._busy.pop(connection, None)
            kept = not self._settle(connection, reusable=reusable, now=now)
        self._ring()
        return kept

    def disown(self, connection: Connection) -> bool:
        """Take a suspect connection's place away from it; True if it had one.

        The place is the caller's: for the attempt that starts beside the suspect one.
        """
        with self._lock:
            counted, connection.counted = connection.counted, False
            return counted

    def offer(self, connection: Connection, now: float) -> bool:
        """Take a connection that nobody needs now; False if there is no room for it."""
        with self._lock:
            if self._count >= self._limits.max_connections:
                return False
            self._count += 1
            kept = not self._settle(connection, reusable=True, now=now)
        self._ring()
        return kept

    def drain(self) -> tuple[list[Connection], list[Connection]]:
        """Give up everything: the idle connections, and those in use."""
        with self._lock:
            idle, busy = list(self._by_age), list(self._busy)
            for connection in idle:
                self._forget(connection)
                self._free_place()
        self._ring()
        return idle, busy

    # -- for people and tests --------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """Places taken, idle connections, connections in use, callers in line."""
        with self._lock:
            waiting = sum(not ticket.left for ticket in self._queue)
            idle, busy = len(self._by_age), len(self._busy)
            return {"places": self._count, "idle": idle, "busy": busy, "waiting": waiting}

    # -- under the lock --------------------------------------------------------------------

    def _waiting(self) -> bool:
        while self._queue and self._queue[0].left:
            self._queue.popleft()
        return bool(self._queue)

    def _pop(self, origin: Origin, address: Address) -> Connection | None:
        stack = self._stacks.get((origin, address))
        if not stack:
            return None
        connection = stack.pop()
        del self._by_age[connection]
        if not stack:
            del self._stacks[origin, address]
        self._busy[connection] = None
        return connection

    def _push(self, connection: Connection, now: float) -> None:
        connection.idle_since = now
        key = (connection.origin, connection.address)
        self._stacks.setdefault(key, deque()).append(connection)
        self._by_age[connection] = None

    def _forget(self, connection: Connection) -> None:
        """Remove an idle connection that is the coldest of its stack."""
        del self._by_age[connection]
        key = (connection.origin, connection.address)
        stack = self._stacks[key]
        stack.remove(connection)  # it lies at the front: constant time
        if not stack:
            del self._stacks[key]

    def _expired(self, now: float) -> list[Connection]:
        limit = now - self._limits.idle_expiry
        dead: list[Connection] = []
        for connection in self._by_age:
            if connection.idle_since > limit:
                break
            dead.append(connection)
        for connection in dead:
            self._forget(connection)
            self._free_place()
        return dead

    def _settle(self, connection: Connection, *, reusable: bool, now: float) -> list[Connection]:
        """Give a connection to the next in line or lay it down; else return it for closing."""
        if not connection.counted:
            return [connection]
        fit = reusable and now < connection.expires
        if self._waiting():
            ticket = self._queue.popleft()
            if fit and ticket.takes(connection):
                self._busy[connection] = None
                self._grant(ticket, connection)
                return []
            self._grant(ticket, PLACE)
            return [connection]
        if fit and len(self._by_age) < self._limits.max_keepalive:
            self._push(connection, now)
            return []
        self._count -= 1
        return [connection]

    def _free_place(self) -> None:
        if self._waiting():
            self._grant(self._queue.popleft(), PLACE)
        else:
            self._count -= 1

    def _grant(self, ticket: Ticket, grant: Connection | Grant) -> None:
        ticket.grant = grant
        self._bells.append(ticket.waiter)

    # -- without the lock ------------------------------------------------------------------

    def _ring(self) -> None:
        """Wake whoever was granted something: a wake may write to a descriptor."""
        while self._bells:
            try:
                bell = self._bells.pop()
            except IndexError:  # another thread was faster
                return
            bell.wake()
