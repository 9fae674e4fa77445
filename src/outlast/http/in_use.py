"""The connections in use: their exchanges, what each endpoint holds, which ones may be shared.

Books only, for the pool, under its lock.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast.http.connection import Connection
from outlast.http.sharing import Shared
from outlast.net.address import Address

__all__ = ["InUse"]

MOST_SHARE = 0.5  # of all places, that one endpoint holds while its target has others


class InUse:
    """See above. Not thread-safe."""

    __slots__ = ("_held", "busy", "shared")

    def __init__(self) -> None:
        self.busy: dict[Connection, None] = {}
        self.shared = Shared()  # HTTP/2: those that have room for more
        self._held: dict[Address, int] = {}  # places

    def begin(self, connection: Connection) -> None:
        """One exchange more on a connection."""
        connection.leases += 1
        if connection.leases == 1:
            self.busy[connection] = None
            self.hold(connection.address)
        if connection.session is not None:
            self.shared.add(connection)

    def end(self, connection: Connection, *, reusable: bool) -> bool:
        """One exchange less; whether it was the last."""
        connection.leases -= 1
        last = not connection.leases
        if last:
            del self.busy[connection]
            if connection.counted:
                self.let_go(connection.address)
        if connection.session is not None and (last or not reusable):
            self.shared.drop(connection)
        return last

    def disown(self, connection: Connection) -> bool:
        """It has no place any more, and nobody begins beside those under way; whether it had."""
        counted, connection.counted = connection.counted, False
        if counted and connection.leases:
            self.let_go(connection.address)
        self.shared.drop(connection)
        return counted

    def spread(self, order: Sequence[Address], places: float) -> Sequence[Address]:
        """A target's endpoints; those that hold their share of all `places` come last."""
        most = max(1.0, places * MOST_SHARE)
        for each in order:
            if self._held.get(each, 0) >= most:
                return sorted(order, key=lambda each: self._held.get(each, 0) >= most)
        return order

    def hold(self, address: Address) -> None:
        """One more place is this endpoint's."""
        self._held[address] = self._held.get(address, 0) + 1

    def let_go(self, address: Address) -> None:
        """One less."""
        left = self._held[address] - 1
        if left:
            self._held[address] = left
        else:
            del self._held[address]
