"""What pool tests are made of: connections without a network, and waiters that say when."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, cast

from outlast.http.connection import Connection
from outlast.http.message import Route
from outlast.http.pool import Pool
from outlast.http.tickets import PLACE, PoolLimits, Ticket, Want
from outlast.net.address import Address
from outlast.target import Origin

A, B, C = (Address(socket.AF_INET, (f"10.0.0.{n}", 80)) for n in (1, 2, 3))
ORDERS, BILLS = (
    Route(Origin("http", name, 80), name) for name in ("orders.shop.svc", "bills.shop.svc")
)
ENDLESS = float("inf")


class NoStream:
    """A pool has no business with a stream: any use of it is an error."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the pool has used .{name} of {self.name}")


class Bell:
    """A waiter that notes its wake, and must not be woken under the pool's lock."""

    def __init__(self, pool: Pool, then: Callable[[], None] = lambda: None) -> None:
        self.pool = pool
        self.rung = 0
        self.then = then

    def wake(self) -> None:
        assert not self.pool._lock.locked(), "woken under the lock"
        self.rung += 1
        self.then()


def connection(
    address: Address = A, route: Route = ORDERS, *, expires: float = ENDLESS, name: str = "a stream"
) -> Connection:
    return Connection(
        stream=cast(Any, NoStream(name)),
        address=address,
        route=route,
        rtt=0.001,
        expires=expires,
        user_timeout=0.0,
    )


def make_pool(
    connections: float = ENDLESS, keepalive: float = ENDLESS, expiry: float = ENDLESS
) -> Pool:
    return Pool(PoolLimits(connections, keepalive, expiry))


def want(*order: Address, route: Route = ORDERS, idle_expiry: float = ENDLESS) -> Want:
    return Want(route, order, idle_expiry)


def ticket(
    pool: Pool, route: Route = ORDERS, refuse: frozenset[Address] | None = frozenset()
) -> Ticket:
    return Ticket(route, refuse, Bell(pool))


def busy(pool: Pool, made: Connection, now: float = 0.0) -> Connection:
    """A new connection in use, on a place of its own."""
    grant, dead = pool.take(want(route=made.route), now)
    assert grant is PLACE
    assert dead == []
    assert pool.adopt(made, now) == []
    return made


def idle(pool: Pool, made: Connection, now: float = 0.0) -> Connection:
    """A new connection that lies idle since `now`."""
    assert pool.release(busy(pool, made, now), reusable=True, now=now)
    return made
