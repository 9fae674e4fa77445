"""One pooled connection and its books; and a lease of it for one exchange."""

from __future__ import annotations

from dataclasses import dataclass

from outlast.http.exchange import Exchange
from outlast.http.h1 import H1Exchange
from outlast.http.message import Route
from outlast.net.address import Address
from outlast.net.seam import Stream

__all__ = ["Connection", "Lease"]


@dataclass(slots=True, eq=False)
class Connection:
    """A connection and its books; times on the network's clock. Compared by identity.

    `rtt`: seconds. `expires`: when it is too old for another request. `user_timeout`: what stands
    on the socket, in seconds; 0 for off. `counted`: whether it holds one of the pool's places; a
    suspect one does not any more.
    """

    stream: Stream
    address: Address
    route: Route
    rtt: float
    expires: float
    user_timeout: float
    h1: H1Exchange
    idle_since: float = 0.0
    counted: bool = True
    requests: int = 0

    def limit(self, seconds: float) -> None:
        """Have the kernel hold unacknowledged data no longer than this; 0 for no limit."""
        if seconds != self.user_timeout:
            self.user_timeout = seconds
            self.stream.set_user_timeout(seconds)

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
