"""Circuit limits of a target's endpoints: who is in flight, who waits, who has a connection.

`core.circuit` counts and decides, for each endpoint; here its counts are kept under one lock, and
those who wait are woken. A place that falls free goes to who has waited longest, who is in flight
from that moment on, awake or not: one that is cancelled then gives it on. An endpoint of which
nothing is counted is forgotten, unless it has found a limit of its own.

On HTTP/1.1 a request has a connection for itself, so that a limit on connections limits the
requests in flight too, and they wait in line for it. Where a seat is no promise of a connection
(HTTP/2, or another transport has them all) there is a second line, for connections: the first of
it is called whenever one may have come free, and looks for itself. Requests that are refused, and
endpoints that are passed over because they are full, are told as events: those once, until a place
is free again.

Thread-safe; nothing here waits, and no event is told, nobody woken, under the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from threading import Lock

from outlast import events
from outlast.core.circuit import Circuit, CircuitLimits, Entry
from outlast.net.address import Address
from outlast.net.seam import Waiter
from outlast.service.doors import Berth, Counts, Door, Full, Seat, Stand

__all__ = ["Circuits"]


class Circuits:
    """All of one target."""

    def __init__(self, target: str, limits: CircuitLimits) -> None:
        self._target = target
        self._limits = limits
        self._lock = Lock()
        self._doors: dict[Address, Door] = {}
        self._busy: set[Address] = set()

    def renew(self) -> None:
        """In the child of a fork: what is in flight is the parent's."""
        self._lock = Lock()
        self._doors = {}
        self._busy = set()

    def forget(self, addresses: Iterable[Address]) -> None:
        """They have left the target; those still in use are forgotten when they are not."""
        with self._lock:
            for address in addresses:
                door = self._doors.get(address)
                if door is not None and door.unused:
                    del self._doors[address]

    # -- requests --------------------------------------------------------------------------

    def busy(self, now: float) -> Collection[Address]:
        """The endpoints at which a request would have to wait: better ask another."""
        if not self._busy:
            return ()
        with self._lock:
            busy = frozenset(self._busy)
            doors = [door for door in map(self._doors.get, busy) if door and not door.told]
            for door in doors:
                door.told = True
            news = [door.full() for door in doors]
        for full in news:
            self._tell(full, now)
        return busy

    def enter(
        self, order: Sequence[Address], waiter: Callable[[], Waiter], now: float, *, alone: bool
    ) -> Seat | Full:
        """A request comes. The first of `order` that takes it at once, else the first where it may
        wait. `alone`: it has a connection for itself."""
        with self._lock:
            door = self._chosen(order, alone)
            entry = door.circuit.enter()
            self._note(door)
            if entry is not Entry.FULL:
                seat = Seat(self, door, None if entry is Entry.IN else waiter())
                if entry is Entry.WAIT:
                    door.line.append(seat)
                return seat
            full = door.full()
        self._tell(full, now)
        return full

    def _chosen(self, order: Sequence[Address], alone: bool) -> Door:
        first: Door | None = None
        for address in order:
            door = self._door(address, alone)
            if not door.circuit.busy:
                return door
            if first is None or (first.circuit.full and not door.circuit.full):
                first = door
        assert first is not None  # there are some
        return first

    def leave(self, seat: Seat, door: Door, now: float) -> None:
        """See `Seat.leave`."""
        with self._lock:
            if seat.inside:
                count = door.circuit.leave(now, seat.seconds, refused=seat.refused)
            else:
                door.circuit.quit()
                door.line.remove(seat)
                count = 0
            let_in = [door.line.popleft() for _ in range(count)]
            for each in let_in:
                each.inside = True
            self._note(door)
        for each in let_in:
            assert each.waiter is not None
            each.waiter.wake()

    # -- connections -----------------------------------------------------------------------

    def connect(self, address: Address, *, alone: bool) -> Berth | Full:
        """A dial begins, or a connection is kept, if the endpoint takes one more."""
        with self._lock:
            door = self._door(address, alone)
            return Berth(self, door) if door.circuit.dialling() else door.full()

    def line_up(self, address: Address, now: float, *, alone: bool) -> Stand | Full:
        """A request that has a seat waits for a connection to an endpoint."""
        with self._lock:
            door = self._door(address, alone)
            stand = Stand(self, door)
            in_line = door.circuit.line_up()
            if in_line:
                door.stands.append(stand)
            full = door.full()
        if not in_line or stand.called:
            self._tell(full, now)
        return stand if in_line else full

    def crowded(self, address: Address) -> bool:
        """Whether anybody waits for a connection to an endpoint."""
        door = self._doors.get(address)
        return door is not None and bool(door.stands)

    def park(self, stand: Stand, waiter: Callable[[], Waiter]) -> Waiter | None:
        """What it waits on until it is called; None if it was, since this was asked last."""
        with self._lock:
            called, stand.called = stand.called, False
            stand.waiter = None if called else waiter()
            return stand.waiter

    def stir(self, door: Door) -> None:
        """See `Berth.stir`."""
        with self._lock:
            waiter = self._call(door)
        if waiter is not None:
            waiter.wake()

    def step_out(self, stand: Stand, door: Door) -> None:
        """See `Stand.leave`."""
        with self._lock:
            door.stands.remove(stand)
            door.circuit.step_out()
            waiter = self._call(door)
            self._note(door)
        if waiter is not None:
            waiter.wake()

    def connectable(self, order: Sequence[Address]) -> Sequence[Address]:
        """Those of `order` to which one more connection may be opened."""
        with self._lock:
            doors = self._doors
            return [each for each in order if each not in doors or doors[each].circuit.connectable]

    def connected(self, address: Address, alone: bool) -> Berth:
        """A connection stands whose endpoint was not known before: it counts in any case."""
        with self._lock:
            door = self._door(address, alone)
            door.circuit.connections += 1
            return Berth(self, door)

    def move(self, door: Door, address: Address) -> Door:
        """See `Berth.move`."""
        with self._lock:
            to = self._door(address, door.circuit.alone)
            to.circuit.connections += 1
            waiter = self._disconnected(door)
        if waiter is not None:
            waiter.wake()
        return to

    def disconnected(self, door: Door) -> None:
        """See `Berth.leave`."""
        with self._lock:
            waiter = self._disconnected(door)
        if waiter is not None:
            waiter.wake()

    # -- for a look at it ------------------------------------------------------------------

    def look(self) -> Callable[[Address], Counts]:
        """What stands at each endpoint now."""
        with self._lock:
            counted = {address: door.counts() for address, door in self._doors.items()}
        nothing = Counts(0, 0, 0, Circuit(self._limits).limit, "")
        return lambda address: counted.get(address, nothing)

    # -- under the lock --------------------------------------------------------------------

    def _door(self, address: Address, alone: bool) -> Door:
        """Where HTTP/1.1 and HTTP/2 are both spoken to an endpoint, a seat is not a connection."""
        door = self._doors.get(address)
        if door is None:
            door = self._doors[address] = Door(address, self._limits, alone=alone)
        if door.circuit.alone and not alone:
            door.circuit.alone = False
            if not door.circuit.busy:
                self._free(door)
        return door

    def _disconnected(self, door: Door) -> Waiter | None:
        door.circuit.disconnected()
        self._note(door)
        return self._call(door)

    @staticmethod
    def _call(door: Door) -> Waiter | None:
        """The first who waits for a connection may look. Returns whom to wake."""
        if not door.stands:
            return None
        door.stands[0].called = True
        return door.stands[0].waiter

    def _note(self, door: Door) -> None:
        """Its counts have changed."""
        if self._doors.get(door.address) is not door:  # of before a fork
            return
        if door.circuit.busy:
            self._busy.add(door.address)
            return
        self._free(door)
        if door.unused and self._limits.adaptive is None:
            del self._doors[door.address]

    def _free(self, door: Door) -> None:
        self._busy.discard(door.address)
        door.told = False

    # -- without the lock ------------------------------------------------------------------

    def _tell(self, full: Full, now: float) -> None:
        if events.wanted(events.CircuitOpen):
            events.emit(
                events.CircuitOpen(
                    at=now,
                    target=self._target,
                    address=str(full.address),
                    limit=full.limit,
                    most=full.most,
                )
            )
