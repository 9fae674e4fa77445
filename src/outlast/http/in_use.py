"""The connections in use: their exchanges, what each endpoint holds, which ones may be shared.

The books are the pool's: `begin`, `end` and `disown` are called under its lock, which is this
one's; the other methods take it.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from outlast.http.connection import Connection
from outlast.http.sharing import Shared
from outlast.net.address import Address

__all__ = ["InUse"]

MOST_SHARE = 0.5  # of all places, that one endpoint holds while its target has others


class InUse:
    """See above. `places`: of the pool.

    One connection stands apart from the books, so that whoever asks for one thing after another has
    nothing written down for it.
    """

    __slots__ = ("_alone", "_busy", "_held", "_most", "lock", "shared")

    def __init__(self, places: float) -> None:
        self.lock = Lock()
        self._alone: Connection | None = None
        self._busy: dict[Connection, None] = {}  # the others
        self._held: dict[Address, int] = {}  # places, of those and of dials under way
        self.shared = Shared()  # HTTP/2: those that have room for more
        self._most = max(1.0, places * MOST_SHARE)

    # -- under the lock --------------------------------------------------------------------

    @property
    def busy(self) -> list[Connection]:
        """All of them."""
        return [*([] if self._alone is None else [self._alone]), *self._busy]

    def held(self, address: Address) -> int:
        """Places that an endpoint holds."""
        alone, count = self._alone, self._held.get(address, 0)
        return count + (alone is not None and alone.counted and alone.address == address)

    def begin(self, connection: Connection) -> None:
        """One exchange more on a connection."""
        connection.leases += 1
        if connection.leases == 1:
            if self._alone is None:
                self._alone = connection
            else:
                self._busy[connection] = None
                self._held[connection.address] = self._held.get(connection.address, 0) + 1
        if connection.session is not None:
            self.shared.add(connection)

    def end(self, connection: Connection, reusable: bool) -> bool:
        """One exchange less; whether it was the last."""
        connection.leases -= 1
        last = not connection.leases
        if last:
            connection.claimed = False
            if connection is self._alone:
                self._alone = None
            else:
                del self._busy[connection]
                if connection.counted:
                    self._let_go(connection.address)
        if connection.session is not None and (last or not reusable):
            self.shared.drop(connection)
        return last

    def disown(self, connection: Connection) -> bool:
        """It has no place any more, and nobody begins beside those under way; whether it had."""
        counted, connection.counted = connection.counted, False
        if counted and connection.leases and connection is not self._alone:
            self._let_go(connection.address)
        self.shared.drop(connection)
        return counted

    def _let_go(self, address: Address) -> None:
        left = self._held[address] - 1
        if left:
            self._held[address] = left
        else:
            del self._held[address]

    def _spread(self, order: Sequence[Address]) -> Sequence[Address]:
        most = self._most
        if self.held(order[0]) < most:  # as nearly always; the others are put in order only now
            return order
        return sorted(order, key=lambda each: self.held(each) >= most)

    # -- for callers -----------------------------------------------------------------------

    def claim(self, connection: Connection) -> bool:
        """Have nobody share a connection that was taken, until its exchange has ended or `claimed`
        is lifted; False if somebody does."""
        with self.lock:
            connection.claimed = connection.leases == 1
            return connection.claimed

    def spread(self, order: Sequence[Address]) -> Sequence[Address]:
        """A target's endpoints; those that hold their share of the places come last."""
        with self.lock:
            return self._spread(order)

    def aim(self, order: Sequence[Address]) -> Sequence[Address]:
        """The same for a dial, which counts for the first of them until it is over: `aimed`."""
        with self.lock:
            order = self._spread(order)
            self._held[order[0]] = self._held.get(order[0], 0) + 1
            return order

    def aimed(self, address: Address) -> None:
        """A dial is over."""
        with self.lock:
            self._let_go(address)
