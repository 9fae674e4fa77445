"""One pooled connection and its books; and a lease of it for one exchange."""

from __future__ import annotations

from dataclasses import dataclass

from outlast.http.exchange import Exchange
from outlast.http.h1 import H1Exchange
from outlast.net.address import Address
from outlast.net.seam import Stream
from outlast.target import Origin

__all__ = ["Connection", "Lease"]


@dataclass(slots=True, eq=False)
class Connection:
    """A connection and its books; times on the network's clock. Compared by identity.

    `rtt`: seconds. `expires`: when it is too old for another request. `counted`: whether it
    holds one of the pool's places; a suspect one does not any more.
    """

    stream: Stream
    address: Address
    origin: Origin
    rtt: float
    expires: float
    h1: H1Exchange
    idle_since: float = 0.0
    counted: bool = True
    requests: int = 0

    def lease(self) -> Lease:
        """The connection for one more exchange."""
        self.requests += 1
        return Lease(self, self.h1)


@dataclass(slots=True, eq=False)
class Lease:
    """A connection in use for one exchange."""

    connection: Connection
    exchange: Exchange

    @property
    def address(self) -> Address:
        """The endpoint."""
        return self.connection.address
