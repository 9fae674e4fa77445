"""One pooled connection and its books; and a lease of it for one exchange."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outlast.core.liveness import Sample
from outlast.core.tolerance import Tolerance
from outlast.http.exchange import Exchange
from outlast.http.h1 import H1Exchange
from outlast.http.message import Route
from outlast.net.address import Address
from outlast.net.options import Keepalive
from outlast.net.probe import hurried
from outlast.net.seam import Stream

if TYPE_CHECKING:
    from outlast.http.h2_session import H2Session

__all__ = ["Connection", "Lease"]


@dataclass(slots=True, eq=False)
class Connection:
    """A connection and its books; times on the network's clock. Compared by identity.

    `rtt`: seconds. `expires`: when it is too old for another request. `user_timeout`: what stands
    on the socket, in seconds; 0 for off. `counted`: whether it holds one of the pool's places; a
    suspect one does not any more. `epoch`: the engine's, when it was made. `session`: of HTTP/2,
    which several exchanges share; `leases` counts them, under the pool's lock. `claimed`: nobody
    may share it for now, because its first one waits on it by itself. `asked`: when the last call
    on it began; what it answered has come since, however late it was read. `exchange`: what makes
    that of an HTTP/1.1 connection.
    """

    stream: Stream
    address: Address
    route: Route
    rtt: float
    expires: float
    user_timeout: float
    epoch: int = 0
    session: H2Session | None = None
    leases: int = 0
    exchange: Callable[[Stream], H1Exchange] = H1Exchange
    h1: Lease | None = None  # an HTTP/1.1 connection has one exchange, made ready each time
    idle_since: float = 0.0
    asked: float = 0.0
    counted: bool = True
    claimed: bool = False
    requests: int = 0
    name: str = ""  # the endpoint, in words
    tolerance: Tolerance = field(default_factory=Tolerance)  # the endpoint's
    dropped: str = ""  # why, by the caller
    made: float = 0.0
    doom: str = ""  # why it is to be closed: a reason of the event `ConnectionClosed`
    suspected: int = 0  # the request, by its number, that has found evidence against the peer
    hurried: int = 0  # waits that have keepalive hurried; HTTP/2 has several

    def __post_init__(self) -> None:
        self.name = _in_words(self.address)

    def limit(self, seconds: float) -> None:
        """Have the kernel hold unacknowledged data no longer than this; 0 for no limit."""
        if seconds != self.user_timeout:
            self.user_timeout = seconds
            self.stream.set_user_timeout(seconds)

    def close(self) -> None:
        """Close it in good order. It and its lease refer to each other no more."""
        self.h1 = None
        self.stream.close()

    def abort(self) -> None:
        """Close it at once, with a reset."""
        self.h1 = None
        self.stream.abort()

    # -- as `net.observe` sees it ----------------------------------------------------------

    def state(self) -> Sample | None:
        """See `Stream.state`."""
        return self.stream.state()

    def linked(self) -> bool:
        """See `Stream.linked`."""
        return self.stream.linked()

    @property
    def keepalive(self) -> Keepalive | None:
        """See `Stream.keepalive`."""
        return self.stream.keepalive

    def set_keepalive(self, keepalive: Keepalive) -> None:
        """See `Stream.set_keepalive`: hurried while any wait wants it so."""
        planned = self.stream.keepalive
        if planned is None or hurried(planned) == planned:  # it probes every second anyway
            return
        before = self.hurried
        self.hurried += -1 if keepalive == planned else 1
        if not before or not self.hurried:
            self.stream.set_keepalive(keepalive)

    def lease(self) -> Lease:
        """The connection for one more exchange."""
        self.requests += 1
        if self.session is not None:
            from outlast.http.h2 import H2Exchange

            return Lease(self, H2Exchange(self.session, self.route.origin.scheme))
        if self.h1 is None:
            self.h1 = Lease(self, self.exchange(self.stream))
        return self.h1

    def quiet(self) -> bool:
        """Whether an idle connection is as it was left."""
        if self.session is not None:
            return self.session.quiet()
        return self.stream.quiet()

    def shares(self, now: float) -> bool:
        """Whether one more exchange may begin beside those under way."""
        session = self.session
        if session is None or not session.usable or not self.counted or self.claimed:
            return False
        return now < self.expires and self.leases < session.capacity


@functools.lru_cache(maxsize=1024)  # connections to one endpoint share its name
def _in_words(address: Address) -> str:
    return str(address)


@dataclass(slots=True, eq=False)
class Lease:
    """A connection in use for one exchange."""

    connection: Connection
    exchange: Exchange

    @property
    def address(self) -> Address:
        """The endpoint."""
        return self.connection.address
