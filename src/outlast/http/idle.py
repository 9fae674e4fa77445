"""The idle connections: a stack for each endpoint, the warmest on top, and one list by age.

Books only, for the pool, under its lock. Each step of a request takes constant time, however many
there are. The one that was laid down last lies apart from the books until another one comes: who
asks for one thing after another is served by it, and nothing is written down to be struck out.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from outlast.http.connection import Connection
from outlast.http.message import Route
from outlast.net.address import Address

__all__ = ["Idle"]


class Idle:
    """See above. `count`: how many there are. Not thread-safe."""

    __slots__ = ("_by_age", "_latest", "_stacks", "count")

    def __init__(self) -> None:
        self.count = 0
        self._latest: Connection | None = None
        self._stacks: dict[tuple[Route, Address], deque[Connection]] = {}
        # Ordered: the first of a plain dict is found by walking over what was deleted before it.
        self._by_age: OrderedDict[Connection, None] = OrderedDict()

    def __iter__(self) -> Iterator[Connection]:
        """All, the coldest first."""
        self._file()
        return iter(self._by_age)

    def lay(self, connection: Connection, now: float) -> None:
        """It is idle from now on."""
        connection.idle_since = now
        self.count += 1
        if self._latest is not None:
            self._file()
        self._latest = connection

    def _file(self) -> None:
        """Write the latest down with the others."""
        connection, self._latest = self._latest, None
        if connection is not None:
            key = (connection.route, connection.address)
            stack = self._stacks.get(key)
            if stack is None:
                stack = self._stacks[key] = deque()
            stack.append(connection)
            self._by_age[connection] = None

    def pop(self, route: Route, address: Address, since: float) -> Connection | None:
        """The warmest to an endpoint, unless it has been idle since `since`."""
        latest = self._latest
        if latest is not None and latest.address == address and latest.route == route:
            if latest.idle_since <= since:
                return None
            self._latest = None
            self.count -= 1
            return latest
        key = (route, address)
        stack = self._stacks.get(key)
        if not stack or stack[-1].idle_since <= since:
            return None
        connection = stack.pop()
        del self._by_age[connection]
        self.count -= 1
        if not stack:
            del self._stacks[key]
        return connection

    def pop_all(self, address: Address) -> list[Connection]:
        """All to an endpoint, whatever the route."""
        self._file()
        taken: list[Connection] = []
        for key in [key for key in self._stacks if key[1] == address]:
            taken += self._stacks.pop(key)
        for connection in taken:
            del self._by_age[connection]
        self.count -= len(taken)
        return taken

    def coldest(self, address: Address, wanted: Callable[[Connection], bool]) -> Connection | None:
        """Of those to an endpoint that are `wanted` the one that has rested longest."""
        self._file()
        stacks = [stack for (_, to), stack in self._stacks.items() if to == address]
        found = [next(filter(wanted, stack), None) for stack in stacks]
        rested = filter(None, found)
        return min(rested, key=lambda connection: connection.idle_since, default=None)

    def forget(self, connection: Connection) -> None:
        """Remove one that is the coldest of its stack."""
        self._file()
        del self._by_age[connection]
        self.count -= 1
        key = (connection.route, connection.address)
        stack = self._stacks[key]
        stack.remove(connection)  # it lies at the front: constant time
        if not stack:
            del self._stacks[key]

    def expired(self, limit: float) -> list[Connection]:
        """Remove those that have been idle since `limit` or longer."""
        dead: list[Connection] = []
        for connection in self:
            if connection.idle_since > limit:
                break
            dead.append(connection)
        for connection in dead:
            self.forget(connection)
        return dead
