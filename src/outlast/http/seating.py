"""How an attempt keeps to the circuit limits of its target: first a seat, then a connection.

A seat is taken at the endpoint that is picked among those that are not full; where all are, the
request waits in line, within its pool timeout, or is refused at once. It stays seated until its
answer has ended. If the connection that it gets is another endpoint's, it moves there, and waits
there if it must, with the connection in hand. Connections are counted from their dial.

Used only where the target has such limits. Refuses to send anything without a seat.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast.errors import TransportFailure
from outlast.http.call_context import CallContext
from outlast.http.connection import Connection, Lease
from outlast.net.address import Address
from outlast.net.seam import WAKE, Wait
from outlast.service.circuits import Berth, Circuits, Full, Seat

__all__ = ["ABANDONED", "Seating", "full"]

# Seconds between looks for places that garbage-collected answers held, and for a dial of one's own.
ABANDONED = 1.0


def full(told: Full) -> TransportFailure:
    """The failure of a request that nobody takes."""
    message = f"{told.address} is full: {told.why}; nothing was sent"
    return TransportFailure("PoolTimeout", message, final=True)


class Seating:
    """One attempt's seat, and the berth of its dial. One owner; not thread-safe."""

    __slots__ = ("_alone", "_attempt", "_berth", "_call", "_circuits", "_seat")

    def __init__(self, call: CallContext, attempt: int, circuits: Circuits) -> None:
        self._call = call
        self._attempt = attempt
        self._circuits = circuits
        self._alone = not call.engine.multiplexed(call.request.route)
        self._seat: Seat | None = None
        self._berth: Berth | None = None  # of the dial under way

    async def order(self) -> Sequence[Address]:
        """The endpoints for this attempt, the one first at which it has a seat now; none of them,
        and no seat, for a name that was never met. Raises TransportFailure."""
        call, service = self._call, self._call.service
        busy = self._circuits.busy(call.now())
        order = service.order(call.now(), avoid=call.tried.union(busy) if busy else call.tried)
        if not order:
            return order
        seat = await self._enter(order)
        if seat.address == order[0]:
            return order
        service.untried(order, call.now())
        return [seat.address, *(each for each in order if each != seat.address)]

    async def seated(self, lease: Lease) -> Lease:
        """The lease, with a seat at its endpoint. Raises TransportFailure."""
        seat = self._seat
        if seat is None or seat.address != lease.address:
            self.leave()
            seat = await self._enter((lease.address,))
        self._seat = None  # the lease's from here on
        self._call.engine.pool.seats[lease] = seat
        return lease

    def leave(self) -> None:
        """There will be no lease."""
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.leave(self._call.now())

    async def _enter(self, order: Sequence[Address]) -> Seat:
        call = self._call
        waiter = call.engine.network.waiter
        entered = self._circuits.enter(order, waiter, call.now(), alone=self._alone)
        if isinstance(entered, Full):
            raise full(entered)
        self._seat = entered
        if not entered.inside:
            await self._wait(entered)
        return entered

    async def _wait(self, seat: Seat) -> None:
        """Stand in line."""
        call, started = self._call, self._call.now()
        assert seat.waiter is not None
        until = call.pool_time.deadline(started).earlier(call.deadline).at
        try:
            while not seat.inside and (now := call.now()) < until:
                await Wait(((seat.waiter, WAKE),), min(until, now + ABANDONED))
                call.engine.tidy()
        finally:
            call.pool_time.spend(started, call.now())
        waited = f"waited {call.now() - started:.3f} s in line"
        call.report.add(
            call.now(), "pool", waited, address=str(seat.address), attempt=self._attempt
        )
        if not seat.inside:
            message = f"{waited} at {seat.address}: {seat.why}; nothing was sent"
            raise TransportFailure("PoolTimeout", message, final=True)

    # -- connections -----------------------------------------------------------------------

    def dial(self, order: Sequence[Address]) -> Sequence[Address]:
        """A dial begins: whom of `order` it may try. `dialled` follows. Raises TransportFailure."""
        if not order:
            return order
        berth = self._circuits.connect(order, self._call.now(), alone=self._alone)
        if isinstance(berth, Full):
            raise full(berth)
        self._berth = berth
        free = self._circuits.connectable(order)
        return [berth.address, *(each for each in free if each != berth.address)]

    def dialled(self, connection: Connection | None) -> None:
        """The dial has ended in a connection, or has failed."""
        berth, self._berth = self._berth, None
        if connection is not None:
            berth = berth or self._circuits.connected(connection.address, self._alone)
            berth.move(connection.address)
            self._call.engine.pool.berths[connection] = berth
        elif berth is not None:
            berth.leave()

    def keeps(self, spare: Connection) -> bool:
        """Whether there is room for one more connection, that stands already."""
        now = self._call.now()
        berth = self._circuits.connect((spare.address,), now, alone=self._alone)
        if isinstance(berth, Full):
            return False
        self._call.engine.pool.berths[spare] = berth
        return True
