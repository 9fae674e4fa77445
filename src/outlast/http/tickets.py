"""What a call asks of the pool, what it may be given, and how it is woken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from outlast.http.connection import Connection
from outlast.http.message import Route
from outlast.net.address import Address
from outlast.net.seam import Waiter

__all__ = ["PLACE", "Bells", "Grant", "PoolLimits", "Ticket", "Want"]


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


@dataclass(slots=True)
class Want:
    """What a call can use: an idle connection to one of `order`, not idle for `idle_expiry`
    seconds; the first endpoint if there is a choice. An empty `order`: a place only."""

    route: Route
    order: Sequence[Address]
    idle_expiry: float = math.inf
    multiplexed: bool = False  # the dial may end in a connection that many share: one is enough


@dataclass(slots=True, eq=False)
class Ticket:
    """A stand in the queue. `grant` stands once `waiter` was woken."""

    route: Route
    refuse: frozenset[Address] | None  # endpoints not to be served from; None: no idle ones at all
    waiter: Waiter
    multiplexed: bool = False
    grant: Connection | Grant | None = None

    def takes(self, connection: Connection) -> bool:
        """Whether this connection would do."""
        if self.refuse is None or connection.route != self.route:
            return False
        return connection.address not in self.refuse


class Bells(list[Waiter]):
    """Of whoever was granted something."""

    __slots__ = ()

    def ring(self) -> None:
        """Wake them all. Not under the pool's lock: a wake may write to a descriptor."""
        while self:
            try:
                bell = self.pop()
            except IndexError:  # another thread was faster
                return
            bell.wake()
