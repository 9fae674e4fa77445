"""How an attempt keeps to the circuit limits of its target: first a seat, then a connection.

A seat is taken at the endpoint that is picked among those that are not full; where all are, the
request waits in line, within its pool timeout, or is refused at once. It stays seated until its
answer has ended. If the connection that it gets is another endpoint's, it moves there, and waits
there if it must, with the connection in hand.

Connections are counted from their dial, for all transports of the process. Where there is no room
for one more an idle one gives way, whosever it is: Envoy drains the idle pools of others so. Where
none is idle the request stands in line for one, in what is left of the same timeout, and holds
nothing meanwhile but its seat.

Used only where the target has such limits. Refuses to send anything without a seat.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast import events
from outlast.errors import TransportFailure
from outlast.http.announcing import pool_waited
from outlast.http.call_context import CallContext
from outlast.http.connection import Connection, Lease
from outlast.net.address import Address
from outlast.net.seam import WAKE, Wait
from outlast.service.circuits import Circuits
from outlast.service.doors import Berth, Full, Seat, Stand
from outlast.service.holdings import make_room

__all__ = ["ABANDONED", "Crowded", "Seating", "full"]

# Seconds between looks for places that garbage-collected answers held, and for a dial of one's own.
ABANDONED = 1.0


def full(told: Full) -> TransportFailure:
    """The failure of a request that nobody takes."""
    message = f"{told.address} is full: {told.why}; nothing was sent"
    return TransportFailure("PoolTimeout", message, final=True)


class Crowded(Exception):
    """No endpoint takes one more connection: stand in line for one."""


class Seating:
    """One attempt's seat, and the berth of its dial. One owner; not thread-safe."""

    __slots__ = (
        "_alone",
        "_attempt",
        "_berth",
        "_call",
        "_circuits",
        "_seat",
        "_stand",
        "_stood",
    )

    def __init__(self, call: CallContext, attempt: int, circuits: Circuits) -> None:
        self._call = call
        self._attempt = attempt
        self._circuits = circuits
        self._alone = not call.engine.multiplexed(call.request.route)
        self._seat: Seat | None = None
        self._berth: Berth | None = None  # of the dial under way
        self._stand: Stand | None = None  # in line for a connection
        self._stood = 0.0  # seconds in that line

    async def order(self) -> Sequence[Address]:
        """The endpoints for this attempt, the one first at which it has a seat now; none of them,
        and no seat, for a name that was never met. Raises TransportFailure."""
        call, service = self._call, self._call.service
        order = call.endpoints(self._circuits.busy(call.now()))
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
        self._step_out(granted=True)
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
        self._step_out(granted=False)

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
        if events.listening:
            pool_waited(call, call.now() - started, granted=seat.inside)
        if not seat.inside:
            message = f"{waited} at {seat.address}: {seat.why}; nothing was sent"
            raise TransportFailure("PoolTimeout", message, final=True)

    # -- in line for a connection ----------------------------------------------------------

    def crowded(self, order: Sequence[Address]) -> bool:
        """Whether others wait already for a connection to the endpoint where this one sits."""
        return bool(order) and self._circuits.crowded(order[0])

    async def stand(self, order: Sequence[Address]) -> None:
        """Wait until a connection may have come free, to the first of `order`; then look for it,
        and come again if it is not there. Raises TransportFailure."""
        call = self._call
        stand = self._stand
        if stand is None:
            entered = self._circuits.line_up(order[0], call.now(), alone=self._alone)
            if isinstance(entered, Full):
                raise full(entered)
            stand = self._stand = entered
        while (waiter := self._circuits.park(stand, call.engine.network.waiter)) is not None:
            started = call.now()
            until = call.pool_time.deadline(started).earlier(call.deadline).at
            if started >= until:
                message = f"{self._waited()} to {stand.address}: {stand.why}; nothing was sent"
                raise TransportFailure("PoolTimeout", message, final=True)
            try:
                await Wait(((waiter, WAKE),), min(until, started + ABANDONED))
            finally:
                self._stood += call.now() - started
                call.pool_time.spend(started, call.now())
            call.engine.tidy()
            if stand.first:
                stand.called = False
                return

    def _waited(self) -> str:
        return f"waited {self._stood:.3f} s for a connection"

    def _step_out(self, *, granted: bool) -> None:
        """It has a connection, or wants none any more."""
        stand, self._stand = self._stand, None
        if stand is not None:
            stand.leave()
            call, address = self._call, str(stand.address)
            call.report.add(
                call.now(), "pool", self._waited(), address=address, attempt=self._attempt
            )
            if events.listening:
                pool_waited(call, self._stood, granted=granted)

    # -- connections -----------------------------------------------------------------------

    def dial(self, order: Sequence[Address]) -> Sequence[Address]:
        """A dial begins: whom of `order` it may try. `dialled` follows. Raises Crowded."""
        if not order:
            return order
        self._berth = next(filter(None, map(self._room, order)), None)
        if self._berth is None:
            raise Crowded
        address = self._berth.address
        free = self._circuits.connectable(order)
        return [address, *(each for each in free if each != address)]

    def _room(self, address: Address) -> Berth | None:
        """Room for one more connection to an endpoint: some, or that of an idle one."""
        while isinstance(berth := self._circuits.connect(address, alone=self._alone), Full):
            if not make_room(self._call.engine.network, self._circuits, address):
                return None
        return berth

    def dialled(self, connection: Connection | None) -> None:
        """The dial has ended in a connection, or has failed."""
        berth, self._berth = self._berth, None
        if connection is not None:
            berth = berth or self._circuits.connected(connection.address, self._alone)
            berth.move(connection.address)
            self._call.engine.pool.berths[connection] = berth
            berth.stir()  # it may be one that others share
        elif berth is not None:
            berth.leave()

    def keeps(self, spare: Connection) -> bool:
        """Whether there is room for one more connection, that stands already."""
        berth = self._circuits.connect(spare.address, alone=self._alone)
        if isinstance(berth, Full):
            return False
        self._call.engine.pool.berths[spare] = berth
        return True
