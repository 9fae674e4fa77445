"""What is counted at one endpoint under circuit limits, and what its users hold of it.

A `Seat` is a request in flight or in line for that, a `Berth` an open connection or a dial, a
`Stand` a request in line for a connection. Whoever holds one leaves, once; a second time does
nothing. Books only: `service.circuits` keeps them under its lock, and wakes who waits.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from outlast.core.circuit import Circuit, CircuitLimits
from outlast.net.address import Address
from outlast.net.seam import Waiter

if TYPE_CHECKING:
    from outlast.service.circuits import Circuits

__all__ = ["Berth", "Counts", "Door", "Full", "Seat", "Stand"]


@dataclass(frozen=True, slots=True)
class Full:
    """Nobody takes it: who would have had to, and why not. `limit` is the name of the one that is
    reached, `most` its figure."""

    address: Address
    why: str
    limit: str
    most: int


class Counts(NamedTuple):
    """One endpoint's, for a look at it. `waiting`: in either line. `full`: as `Circuit.why`."""

    in_flight: int
    waiting: int
    connections: int
    limit: int | None
    full: str


class Door:
    """The counts of one endpoint, and its lines."""

    __slots__ = ("address", "circuit", "line", "stands", "told")

    def __init__(self, address: Address, limits: CircuitLimits, *, alone: bool) -> None:
        self.address = address
        self.circuit = Circuit(limits, alone=alone)
        self.line: deque[Seat] = deque()  # for a seat
        self.stands: deque[Stand] = deque()  # for a connection
        self.told = False  # that it is full

    @property
    def unused(self) -> bool:
        """Whether nothing is counted."""
        circuit = self.circuit
        return not (circuit.in_flight or circuit.waiting or circuit.connections or circuit.queued)

    def full(self) -> Full:
        """In the words of who is refused."""
        limit, most = self.circuit.reached() or ("", 0)
        return Full(self.address, self.circuit.why(), limit, most)

    def counts(self) -> Counts:
        """See `Counts`."""
        circuit = self.circuit
        return Counts(
            circuit.in_flight,
            circuit.waiting + circuit.queued,
            circuit.connections,
            circuit.limit,
            circuit.why(),
        )


class Seat:
    """One request at one endpoint: in flight (`inside`), or in line. Whoever holds it leaves, once;
    a second time does nothing. `waiter`: woken when it is let in; None if it never waited."""

    __slots__ = ("_circuits", "_door", "address", "inside", "refused", "seconds", "waiter")

    def __init__(self, circuits: Circuits, door: Door, waiter: Waiter | None) -> None:
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

    def __init__(self, circuits: Circuits, door: Door) -> None:
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

    def of(self, circuits: Circuits) -> bool:
        """Whether it counts there."""
        return self._circuits is circuits

    def stir(self) -> None:
        """The connection is idle now, or takes more: whoever waits for one may look at it."""
        if self._circuits is not None and self._door.stands:
            self._circuits.stir(self._door)

    def leave(self) -> None:
        """The connection is closed, or the dial has failed."""
        circuits, self._circuits = self._circuits, None
        if circuits is not None:
            circuits.disconnected(self._door)


class Stand:
    """One request in line for a connection to an endpoint. Whoever holds it leaves, once; a second
    time does nothing."""

    __slots__ = ("_circuits", "_door", "address", "called", "waiter")

    def __init__(self, circuits: Circuits, door: Door) -> None:
        self._circuits: Circuits | None = circuits
        self._door = door
        self.address = door.address
        self.called = not door.stands  # one may have come free since it has looked last
        self.waiter: Waiter | None = None

    @property
    def why(self) -> str:
        """What it waits for, in words."""
        return self._door.circuit.why()

    @property
    def first(self) -> bool:
        """Whether it is its turn to look."""
        return self._door.stands[0] is self

    def leave(self) -> None:
        """It has a connection, or wants none any more: the next in line may look."""
        circuits, self._circuits = self._circuits, None
        if circuits is not None:
            circuits.step_out(self, self._door)
