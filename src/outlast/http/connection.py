"""One pooled connection: a stream, its exchange, and what is known of its age and trust."""

from __future__ import annotations

from dataclasses import dataclass

from outlast.http.h1 import H1Exchange
from outlast.net.address import Address
from outlast.net.seam import Stream
from outlast.target import Origin

__all__ = ["Connection"]


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
    exchange: H1Exchange
    idle_since: float = 0.0
    counted: bool = True
    requests: int = 0
