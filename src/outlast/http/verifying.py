"""Whether the peers of idle connections are still there, once something speaks against one.

All idle connections to the endpoint are probed together, in the background (DESIGN section 6);
those that do not answer are aborted. Refuses to ask again within a second: what was heard from
since is trusted as if it had been probed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from outlast.core.probe import Probed
from outlast.http.connection import Connection
from outlast.net.address import Address
from outlast.net.probe import probe

if TYPE_CHECKING:
    from outlast.http.engine import Engine

__all__ = ["verify"]

AGAIN = 1.0  # seconds


def verify(engine: Engine, address: Address, since: float) -> None:
    """There is evidence against an endpoint, that began at `since`: ask all that is idle there."""
    now = engine.network.now()
    if now < engine.verified.get(address, -math.inf) + AGAIN:
        return
    engine.verified = {a: at for a, at in engine.verified.items() if now < at + AGAIN}
    engine.verified[address] = now
    doubted = []
    for connection in engine.pool.take_idle(address):
        state = connection.state()
        if state is not None and state.silence < now - since:  # it has answered meanwhile
            engine.put_back(connection)
        else:
            doubted.append(connection)
    if not doubted:
        return
    try:
        engine.network.spawn(functools.partial(_probe, engine, doubted))
    except RuntimeError:  # the system gives no thread: nobody can wait for an answer
        _end(engine, doubted)


async def _probe(engine: Engine, doubted: Sequence[Connection]) -> None:
    alive = []
    try:
        found = await probe(engine.network, [each.stream for each in doubted])
        alive = [each for each, how in zip(doubted, found, strict=True) if how is Probed.ALIVE]
    finally:
        for connection in alive:
            engine.put_back(connection)
        _end(engine, (each for each in doubted if each not in alive))


def _end(engine: Engine, connections: Iterable[Connection]) -> None:
    for connection in connections:
        if not engine.keep(connection, reusable=False):
            connection.abort()
            engine.tell((connection,), "suspect")
