"""The idle connections: a stack for each endpoint, the warmest on top, and one list by age.

Books only, for the pool, under its lock. Each step of a request takes constant time, however many
there are.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

from outlast.http.connection import Connection
from outlast.http.message import Route
from outlast.net.address import Address

__all__ = ["Idle"]


class Idle:
    """See above. Not thread-safe."""

    __slots__ = ("by_age", "stacks")

    def __init__(self) -> None:
        self.stacks: dict[tuple[Route, Address], deque[Connection]] = {}
        # Ordered: the first of a plain dict is found by walking over what was deleted before it.
        self.by_age: OrderedDict[Connection, None] = OrderedDict()

    def lay(self, connection: Connection, now: float) -> None:
        """It is idle from now on."""
        connection.idle_since = now
        key = (connection.route, connection.address)
        stack = self.stacks.get(key)
        if stack is None:
            stack = self.stacks[key] = deque()
        stack.append(connection)
        self.by_age[connection] = None

    def pop(self, route: Route, address: Address, since: float) -> Connection | None:
        """The warmest to an endpoint, unless it has been idle since `since`."""
        key = (route, address)
        stack = self.stacks.get(key)
        if not stack or stack[-1].idle_since <= since:
            return None
        connection = stack.pop()
        del self.by_age[connection]
        if not stack:
            del self.stacks[key]
        return connection

    def pop_all(self, address: Address) -> list[Connection]:
        """All to an endpoint, whatever the route."""
        taken: list[Connection] = []
        for key in [key for key in self.stacks if key[1] == address]:
            taken += self.stacks.pop(key)
        for connection in taken:
            del self.by_age[connection]
        return taken

    def coldest(self, address: Address, wanted: Callable[[Connection], bool]) -> Connection | None:
        """Of those to an endpoint that are `wanted` the one that has rested longest."""
        stacks = [stack for (_, to), stack in self.stacks.items() if to == address]
        found = [next(filter(wanted, stack), None) for stack in stacks]
        rested = filter(None, found)
        return min(rested, key=lambda connection: connection.idle_since, default=None)

    def forget(self, connection: Connection) -> None:
        """Remove one that is the coldest of its stack."""
        del self.by_age[connection]
        key = (connection.route, connection.address)
        stack = self.stacks[key]
        stack.remove(connection)  # it lies at the front: constant time
        if not stack:
            del self.stacks[key]

    def expired(self, limit: float) -> list[Connection]:
        """Remove those that have been idle since `limit` or longer."""
        dead: list[Connection] = []
        for connection in self.by_age:
            if connection.idle_since > limit:
                break
            dead.append(connection)
        for connection in dead:
            self.forget(connection)
        return dead
