"""Connections in use that more exchanges may share (HTTP/2), per route and endpoint.

Books only, for the pool, under its lock. HTTP/1.1 connections are never here.
"""

from __future__ import annotations

from outlast.http.connection import Connection
from outlast.http.message import Route
from outlast.http.tickets import Ticket
from outlast.net.address import Address

__all__ = ["Shared"]


class Shared:
    """See above. Not thread-safe."""

    __slots__ = ("_routes",)

    def __init__(self) -> None:
        self._routes: dict[Route, dict[Address, dict[Connection, None]]] = {}

    def add(self, connection: Connection) -> None:
        """An exchange has begun on `connection`; more may, if it has a session."""
        if connection.session is not None:
            endpoints = self._routes.setdefault(connection.route, {})
            endpoints.setdefault(connection.address, {})[connection] = None

    def drop(self, connection: Connection) -> None:
        """No new exchange may begin beside those under way."""
        endpoints = self._routes.get(connection.route, {})
        beside = endpoints.get(connection.address, {})
        if connection in beside:
            del beside[connection]
            if not beside:
                del endpoints[connection.address]
            if not endpoints:
                del self._routes[connection.route]

    def find(self, route: Route, address: Address, now: float) -> Connection | None:
        """A connection to this endpoint with room for one more exchange."""
        for connection in self._routes.get(route, {}).get(address, ()):
            if connection.shares(now):
                return connection
        return None

    def find_for(self, ticket: Ticket, now: float) -> Connection | None:
        """A connection with room that would do for somebody in line."""
        if ticket.refuse is None:
            return None
        for address in self._routes.get(ticket.route, ()):
            if address not in ticket.refuse:
                connection = self.find(ticket.route, address, now)
                if connection is not None:
                    return connection
        return None
