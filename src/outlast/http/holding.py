"""What a transport holds of connections: for a snapshot, and where another needs the room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.http.connection import Connection
from outlast.net.address import Address
from outlast.service.circuits import Circuits
from outlast.service.holdings import Books, Holding

if TYPE_CHECKING:
    from outlast.http.engine import Engine

__all__ = ["BOOKS"]


def _held(engine: Engine) -> list[Holding]:
    """An engine's connections. Not under a lock."""
    idle, busy = engine.pool.look()
    return [
        Holding(engine.service(each.route.origin), each.address, rests)
        for those, rests in ((idle, True), (busy, False))
        for each in those
    ]


def _gives_up(engine: Engine, circuits: Circuits, address: Address) -> bool:
    """Close the idle connection to an endpoint that has rested longest, of those that count."""
    berths = engine.pool.berths

    def counts(connection: Connection) -> bool:
        berth = berths.get(connection)
        return berth is not None and berth.of(circuits)

    idle = engine.pool.give_up(address, counts)
    if idle is not None:
        engine.close((idle,))
    return idle is not None


BOOKS = Books(held=_held, give_up=_gives_up)
