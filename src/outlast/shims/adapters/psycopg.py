"""psycopg 3, sync and async: connection classes that libpq makes over a socket of this library's.

libpq dials in C and takes no socket. But it dials without blocking, and tells the descriptor: so it
is given the address of a connection that stands already, begins its own dial there, and before it
has sent a byte that connection is put under its descriptor (dup2). From then on all is libpq's:
TLS against `host`, authentication, cancelling. A server that takes the connection and hangs up
without a byte is left for another, within the connect's deadline.

Hook: `_connect_gen`, the step in which psycopg has libpq connect; and the connections' `connect`.
Left to psycopg as it is: Unix sockets, connection services, and a second connection that libpq
opens by itself when a server refuses the first one's encryption (`sslmode=prefer` or `allow`); that
one is watched too. Where sockets are no descriptors (Windows) libpq itself dials the endpoint that
has just answered here. Refuses nothing else.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import psycopg
import psycopg.errors
from psycopg import pq

from outlast.policy import Policy
from outlast.shims.adapters.dialler import Dialler, peer_of
from outlast.shims.adapters.libpq import Host, hosts_of
from outlast.target import Target

if TYPE_CHECKING:
    import socket

R_co = TypeVar("R_co", covariant=True)  # a row, as psycopg has it

__all__ = ["OutlastAsyncConnection", "OutlastConnection"]

TRIES = 3  # servers that hang up at once, one after the other
LEAST = 2  # seconds; psycopg's own least connect_timeout
DESCRIPTORS = os.name == "posix"  # whether sockets are
PEEK = 2  # MSG_PEEK, alike on every platform
READ, WRITE = 1, 2  # psycopg.waiting.Wait


class _Offer:
    """A connection that stands, on its way to libpq. `answered`: whether the server has spoken."""

    def __init__(self, sock: socket.socket, host: Host, dialler: Dialler) -> None:
        self.sock = sock
        self.host = host
        self.dialler = dialler
        self.answered = False

    def place(self, descriptor: int) -> None:
        """Put it under libpq's descriptor, whose own dial ends by that."""
        if DESCRIPTORS:
            os.dup2(self.sock.fileno(), descriptor, inheritable=False)
            self.watch(descriptor)

    def watch(self, descriptor: int) -> None:
        """Have libpq's descriptor watched; keepalive that the caller has set stands."""
        self.dialler.adopt(descriptor, keepalive=not self.host.options)

    def listen(self) -> None:
        """Something is to be read, perhaps."""
        try:
            self.answered = self.answered or bool(self.sock.recv(1, PEEK))
        except OSError:  # nothing, or its end: libpq will meet it
            return


_offered: ContextVar[_Offer | None] = ContextVar("outlast_offered", default=None)


def _over(offer: _Offer, conninfo: str) -> Generator[Any, Any, pq.abc.PGconn]:
    """Have libpq connect over what is offered; yields what psycopg is to wait for."""
    made = pq.PGconn.connect_start(conninfo.encode())
    if made.status == pq.ConnStatus.BAD:
        raise _failed(made)
    offer.place(made.socket)
    while True:
        status = made.connect_poll()
        if status == pq.PollingStatus.OK:
            offer.watch(made.socket)  # known already, unless libpq has dialled anew
            made.nonblocking = 1
            return made
        if status == pq.PollingStatus.FAILED:
            raise _failed(made)
        wanted = READ if status == pq.PollingStatus.READING else WRITE
        while not (yield made.socket, wanted):
            pass
        if wanted == READ:
            offer.listen()


def _failed(made: pq.abc.PGconn) -> psycopg.OperationalError:
    text = f"connection failed: {made.get_error_message()}"
    return psycopg.OperationalError(text, pgconn=psycopg.errors.finish_pgconn(made))


class _Plan:
    """One connect: hosts in libpq's order, and one deadline for all of them."""

    def __init__(
        self,
        conninfo: str,
        kwargs: dict[str, Any],
        targets: Mapping[str, str | Target] | None,
        policy: Policy | None,
    ) -> None:
        self.dialler = Dialler(targets, policy)
        params = psycopg.conninfo.conninfo_to_dict(conninfo, **kwargs)
        self.hosts = hosts_of(params)
        given = str(params.get("connect_timeout") or os.environ.get("PGCONNECT_TIMEOUT") or 0)
        limit = float(given) if given.replace(".", "", 1).isdigit() else 0.0
        self._limit = max(LEAST, limit) if limit else None  # libpq: 0 is for ever; and at least 2
        self._deadline = 0.0
        self._again = False
        self.error: psycopg.Error | None = None

    def steps(self) -> Iterator[Host]:
        """The hosts to try, each within a deadline of its own as libpq has it, and again while
        servers hang up without a word."""
        for host in self.hosts:
            limit = self._limit or self.dialler.policy.connect_timeout
            self._deadline = self.dialler.now() + limit
            for _ in range(TRIES):
                self._again = False
                yield host
                if not self._again or self.left() <= 0:
                    break

    def left(self) -> float:
        """Seconds to the deadline."""
        return max(0.0, self._deadline - self.dialler.now())

    def dialled(self, host: Host) -> dict[str, Any]:
        """The arguments of a dial."""
        return {
            "host": host.dialled,
            "port": host.port,
            "limit": self.left(),
            "options": host.options,
            "watched": False,  # libpq's descriptor is
        }

    def refused(self, error: OSError) -> None:
        """A dial has failed."""
        kind = psycopg.OperationalError
        if isinstance(error, TimeoutError):
            kind = psycopg.errors.ConnectionTimeout
        self.error = kind(f"connection failed: {error}")
        self.error.__cause__ = error
        vars(self.error)["report"] = vars(error).get("report")

    def arguments(self, host: Host, sock: socket.socket) -> dict[str, Any]:
        """What psycopg is told in place of what the caller has said of hosts."""
        where = peer_of(sock)
        told: dict[str, Any] = dict(host.told)
        if where is not None:
            told.update(hostaddr=where.host, port=where.port)
        if self._limit is not None:
            told["connect_timeout"] = max(LEAST, math.ceil(self.left()))
        return told

    @contextmanager
    def offer(self, sock: socket.socket, host: Host) -> Iterator[None]:
        """Hold a connection out to the next connect of this task; keep the error that ends it."""
        made = _Offer(sock, host, self.dialler)
        token = _offered.set(made)
        try:
            yield
        except psycopg.OperationalError as error:
            self.error = error
            self._again = not (made.answered or isinstance(error, psycopg.errors.ConnectionTimeout))
            where = peer_of(sock)
            if self._again and where is not None:
                self.dialler.blame(where, host.dialled, host.port)
        finally:
            _offered.reset(token)
            sock.close()  # libpq's descriptor stays


class _Handed:
    """What both kinds of connection share."""

    @classmethod
    def _connect_gen(cls, conninfo: str = "", **kwargs: Any) -> Generator[Any, Any, Any]:
        offer = _offered.get()
        if offer is None:
            inner: Callable[..., Any] = super()._connect_gen  # type: ignore[misc]  # psycopg's
            return (yield from inner(conninfo, **kwargs))
        made: Callable[..., Any] = cls
        return made((yield from _over(offer, conninfo)))


class OutlastConnection(_Handed, psycopg.Connection[R_co], Generic[R_co]):
    """`psycopg.Connection` that outlives its endpoints: `OutlastConnection.connect(...)`, or
    `ConnectionPool(connection_class=OutlastConnection, kwargs={"targets": ...})`."""

    @classmethod
    def connect(  # type: ignore[override]  # psycopg types each of its arguments
        cls,
        conninfo: str = "",
        *,
        targets: Mapping[str, str | Target] | None = None,
        policy: Policy | None = None,
        **kwargs: Any,
    ) -> OutlastConnection[Any]:
        """Connect as `psycopg.connect`, whose arguments it takes, and:

        targets: "host:port" to the target that stands behind it; see `outlast.Target`.
        policy: an `outlast.Policy`; its socket fields are used.

        `connect_timeout` bounds everything; without it the policy's does what comes before libpq.
        Raises psycopg's exceptions, with `.report` where no connection stood. Thread-safe.
        """
        plan = _Plan(conninfo, kwargs, targets, policy)
        if not plan.hosts:
            return super().connect(conninfo, **kwargs)
        for host in plan.steps():
            try:
                sock = plan.dialler.dial(**plan.dialled(host))
            except OSError as error:
                plan.refused(error)
                continue
            with plan.offer(sock, host):
                return super().connect(conninfo, **{**kwargs, **plan.arguments(host, sock)})
        raise plan.error or psycopg.OperationalError("connection failed: no host is named")


class OutlastAsyncConnection(_Handed, psycopg.AsyncConnection[R_co], Generic[R_co]):
    """`psycopg.AsyncConnection`, likewise. A cancelled connect leaves no socket behind."""

    @classmethod
    async def connect(  # type: ignore[override]  # psycopg types each of its arguments
        cls,
        conninfo: str = "",
        *,
        targets: Mapping[str, str | Target] | None = None,
        policy: Policy | None = None,
        **kwargs: Any,
    ) -> OutlastAsyncConnection[Any]:
        """See `OutlastConnection.connect`."""
        plan = _Plan(conninfo, kwargs, targets, policy)
        if not plan.hosts:
            return await super().connect(conninfo, **kwargs)
        for host in plan.steps():
            try:
                sock = await plan.dialler.dial_async(**plan.dialled(host))
            except OSError as error:
                plan.refused(error)
                continue
            with plan.offer(sock, host):
                return await super().connect(conninfo, **{**kwargs, **plan.arguments(host, sock)})
        raise plan.error or psycopg.OperationalError("connection failed: no host is named")
