"""Who holds connections to the endpoints of a target, and how many: for a look at them.

Each transport has a pool of its own; a snapshot has the sums. Whoever holds connections joins with
a function that counts them; that keeps nobody alive. Thread-safe; refuses to count under its lock.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, NamedTuple

from outlast.net.address import Address
from outlast.net.seam import Network
from outlast.service.service import Service

__all__ = ["Holding", "Sums", "holdings", "join"]


class Holding(NamedTuple):
    """One connection."""

    service: Service
    address: Address
    idle: bool


Sums = dict[tuple[Service, Address], tuple[int, int]]  # open ones, and idle of them

_joined: weakref.WeakKeyDictionary[Any, tuple[Network, Callable[[Any], Iterable[Holding]]]] = (
    weakref.WeakKeyDictionary()
)
_lock = Lock()


def join(holder: Any, network: Network, count: Callable[[Any], Iterable[Holding]]) -> None:
    """`count(holder)` is asked for its connections on `network`, as long as `holder` lives."""
    with _lock:
        _joined[holder] = network, count


def holdings(network: Network) -> Sums | None:
    """The connections that there are on a network now; None if nobody counts any."""
    with _lock:
        asked = [(each, count) for each, (where, count) in _joined.items() if where is network]
    if not asked:
        return None
    sums: Sums = {}
    for holder, count in asked:
        for service, address, rests in count(holder):
            held, idle = sums.get((service, address), (0, 0))
            sums[service, address] = held + 1, idle + rests
    return sums


def _renew() -> None:
    global _lock  # noqa: PLW0603  in the child of a fork it may be held by another thread
    _lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
