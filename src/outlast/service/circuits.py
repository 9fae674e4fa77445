"""Circuit limits of a target's endpoints: who is in flight, who waits, who has a connection.

`core.circuit` counts and decides, for each endpoint; here its counts are kept under one lock, and
those who wait are woken. A place that falls free goes to who has waited longest, who is in flight
from that moment on, awake or not: one that is cancelled then gives it on. An endpoint of which
nothing is counted is forgotten, unless it has found a limit of its own.

On HTTP/1.1 a request has a connection for itself, so that a limit on connections limits the
requests in flight too, and they wait in line for it. Requests that are refused, and endpoints that
are passed over because they are full, are told as events: those once, until a place is free again.

Thread-safe; nothing here waits, and no event is told, nobody woken, under the lock.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock

from outlast import events
from outlast.core.circuit import Circuit, CircuitLimits, Entry
from outlast.net.address import Address
from outlast.net.seam import Waiter

__all__ = ["Berth", "Circuits", "Full", "Seat"]


@dataclass(frozen=True, slots=True)
class Full:
    """Nobody takes it: who would have had to, and why not."""

    address: Address
    why: str


class _Door:
    """One endpoint's."""

    __slots__ = ("address", "circuit", "line", "told")

    def __init__(self, address: Address, limits: CircuitLimits) -> None:
        self.address = address
        self.circuit = Circuit(limits)
        self.line: deque[Seat] = deque()
        self.told = False  # that it is full

    @property
    def unused(self) -> bool:
        circuit = self.circuit
        return not (circuit.in_flight or circuit.waiting or circuit.connections)


class Seat:
    """One request at one endpoint: in flight (`inside`), or in line. Whoever holds it leaves, once;
    a second time does nothing. `waiter`: woken when it is let in; None if it never waited."""

    __slots__ = ("_circuits", "_door", "address", "inside", "refused", "seconds", "waiter")

    def __init__(self, circuits: Circuits, door: _Door, waiter: Waiter | None) -> None:
        self._circuits: Circuits | None = circuits
        self._door = door
        self.address = door.address
        self.waiter = waiter
        self.inside = waiter is None
        self.seconds: float | None = None  # from its first byte to its response's head
        self.refused = False  # by an answer or a silence that means too much work

    @property
    def why(self) -> str:
        """What it waits for, in words."""
        return self._door.circuit.why()

    def leave(self, now: float) -> None:
        """The request is over, or is not wanted any more."""
        circuits, self._circuits = self._circuits, None
        if circuits is not None:
            circuits.leave(self, self._door, now)


class Berth:
    """One connection that counts at an endpoint, or the dial of it. As `Seat`."""

    __slots__ = ("_circuits", "_door")

    def __init__(self, circuits: Circuits, door: _Door) -> None:
        self._circuits: Circuits | None = circuits
        self._door = door

    @property
    def address(self) -> Address:
        """The endpoint."""
        return self._door.address

    def move(self, address: Address) -> None:
        """Another endpoint than the first has won the race: it counts there. There may be one too
        many of them then."""
        if self._circuits is not None and address != self._door.address:
            self._door = self._circuits.move(self._door, address)

    def leave(self) -> None:
        """The connection is closed, or the dial has failed."""
        circuits, self._circuits = self._circuits, None
        if circuits is not None:
            circuits.disconnected(self._door)


class Circuits:
    """All of one target."""

    def __init__(self, target: str, limits: CircuitLimits) -> None:
        self._target = target
        self._limits = limits
        self._lock = Lock()
        self._doors: dict[Address, _Door] = {}
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
            news = [door for door in map(self._doors.get, busy) if door and not door.told]
            for door in news:
                door.told = True
        for door in news:
            self._tell(door, now)
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
            full = Full(door.address, door.circuit.why())
        self._tell(door, now)
        return full

    def _chosen(self, order: Sequence[Address], alone: bool) -> _Door:
        first: _Door | None = None
        for address in order:
            door = self._door(address, alone)
            if not door.circuit.busy:
                return door
            if first is None or (first.circuit.full and not door.circuit.full):
                first = door
        assert first is not None  # there are some
        return first

    def leave(self, seat: Seat, door: _Door, now: float) -> None:
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

    def connect(self, order: Sequence[Address], now: float, *, alone: bool) -> Berth | Full:
        """A dial begins, to the first of `order` that takes one more; `disconnected` follows."""
        with self._lock:
            doors = [self._door(address, alone) for address in order]
            for door in doors:
                if door.circuit.dialling():
                    return Berth(self, door)
            full = Full(doors[0].address, doors[0].circuit.why())
        self._tell(doors[0], now)
        return full

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

    def move(self, door: _Door, address: Address) -> _Door:
        """See `Berth.move`."""
        with self._lock:
            to = self._door(address, alone=False)
            to.circuit.connections += 1
            door.circuit.disconnected()
            self._note(door)
            return to

    def disconnected(self, door: _Door) -> None:
        """See `Berth.leave`."""
        with self._lock:
            door.circuit.disconnected()
            self._note(door)

    # -- under the lock --------------------------------------------------------------------

    def _door(self, address: Address, alone: bool) -> _Door:
        door = self._doors.get(address)
        if door is None:
            door = self._doors[address] = _Door(address, self._limits_of(alone))
        return door

    def _limits_of(self, alone: bool) -> CircuitLimits:
        limits = self._limits
        if not alone or limits.connections is None:
            return limits
        if limits.in_flight is not None and limits.in_flight <= limits.connections:
            return limits
        return dataclasses.replace(limits, in_flight=limits.connections)

    def _note(self, door: _Door) -> None:
        """Its counts have changed."""
        if self._doors.get(door.address) is not door:  # of before a fork
            return
        if door.circuit.busy:
            self._busy.add(door.address)
            return
        self._busy.discard(door.address)
        door.told = False
        if door.unused and self._limits.adaptive is None:
            del self._doors[door.address]

    # -- without the lock ------------------------------------------------------------------

    def _tell(self, door: _Door, now: float) -> None:
        if not events.wanted(events.CircuitOpen):
            return
        limits, circuit = self._limits, door.circuit
        limit = circuit.limit
        if not circuit.busy or limit is None:
            what, most = "connections", limits.connections or 0
        elif circuit.full and limits.waiting:
            what, most = "waiting", limits.waiting
        elif limit == limits.in_flight:
            what, most = "in_flight", limit
        else:
            what, most = ("adaptive" if limits.adaptive else "connections"), limit
        where = str(door.address)
        events.emit(
            events.CircuitOpen(at=now, target=self._target, address=where, limit=what, most=most)
        )
