"""What a transport holds of connections, and for which target: for a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.service.holdings import Holding

if TYPE_CHECKING:
    from outlast.http.engine import Engine

__all__ = ["held"]


def held(engine: Engine) -> list[Holding]:
    """An engine's connections. Not under a lock."""
    idle, busy = engine.pool.look()
    return [
        Holding(engine.service(each.route.origin), each.address, rests)
        for those, rests in ((idle, True), (busy, False))
        for each in those
    ]
