"""Who holds connections to the endpoints of a target: for a look at them, and to make room.

Each transport has a pool of its own; a snapshot has the sums, and circuit limits hold for all of
them together, so that an idle connection of one gives way to a request of another. Whoever holds
connections joins with the functions that are asked; that keeps nobody alive. Thread-safe; refuses
to ask anybody under its lock.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, NamedTuple

from outlast.net.address import Address
from outlast.net.seam import Network
from outlast.service.circuits import Circuits
from outlast.service.service import Service

__all__ = ["Books", "Holding", "Sums", "holdings", "join", "make_room"]


class Holding(NamedTuple):
    """One connection."""

    service: Service
    address: Address
    idle: bool


Sums = dict[tuple[Service, Address], tuple[int, int]]  # open ones, and idle of them


class Books(NamedTuple):
    """What a holder is asked, itself the first argument. `held`: for its connections. `give_up`:
    to close an idle one to an endpoint that counts in these circuits; whether it had any."""

    held: Callable[[Any], Iterable[Holding]]
    give_up: Callable[[Any, Circuits, Address], bool]


_joined: weakref.WeakKeyDictionary[Any, tuple[Network, Books]] = weakref.WeakKeyDictionary()
_lock = Lock()


def join(holder: Any, network: Network, books: Books) -> None:
    """`holder` is asked for its connections on `network`, as long as it lives."""
    with _lock:
        _joined[holder] = network, books


def _asked(network: Network) -> list[tuple[Any, Books]]:
    with _lock:
        return [(each, books) for each, (where, books) in _joined.items() if where is network]


def make_room(network: Network, circuits: Circuits, address: Address) -> bool:
    """Have somebody close an idle connection to an endpoint; False if there is none."""
    return any(books.give_up(each, circuits, address) for each, books in _asked(network))


def holdings(network: Network) -> Sums | None:
    """The connections that there are on a network now; None if nobody counts any."""
    asked = _asked(network)
    if not asked:
        return None
    sums: Sums = {}
    for holder, books in asked:
        for service, address, rests in books.held(holder):
            held, idle = sums.get((service, address), (0, 0))
            sums[service, address] = held + 1, idle + rests
    return sums


def _renew() -> None:
    global _lock  # noqa: PLW0603  in the child of a fork it may be held by another thread
    _lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
