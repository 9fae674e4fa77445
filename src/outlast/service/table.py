"""The one table of a process: which target's knowledge is whose, and how long it is kept.

One `Service` per target text and network, shared by all who name it. Where a target comes with
settings they hold for all of them (`Target`). Thread-safe; nothing here waits or does I/O.
"""

from __future__ import annotations

import os
import weakref
from threading import Lock

from outlast.net.seam import Network
from outlast.service.service import Service
from outlast.target import Target

__all__ = ["Service", "service_of", "services_of"]

MAX_TARGETS = 1024  # that nobody holds, of 2 to 10 kB each; a crawler meets them without end


class _Table:
    """The services of one network. Those used last are kept; the others live as long as somebody
    holds them, and until then there is no second one of their target."""

    def __init__(self) -> None:
        self.alive: weakref.WeakValueDictionary[str, Service] = weakref.WeakValueDictionary()
        self._kept: dict[str, Service] = {}

    def get(self, target: Target, network: Network) -> Service:
        """The service of `target`. Under the lock."""
        service = self.alive.get(target.text)
        if service is None:
            made = Service(target, network.now(), network.rng(f"endpoints of {target.text}"))
            service = self.alive[target.text] = made
        elif target.settings is not None and service.told != target.settings:
            service.settle(target.settings, network.now())
        self._kept.pop(target.text, None)
        self._kept[target.text] = service  # to the end: what was used longest ago stands first
        if len(self._kept) > MAX_TARGETS:
            del self._kept[next(iter(self._kept))]
        return service


_tables: weakref.WeakKeyDictionary[Network, _Table] = weakref.WeakKeyDictionary()
_tables_lock = Lock()


def service_of(target: Target, network: Network) -> Service:
    """The one `Service` of `target` on `network` in this process, as long as it is in use."""
    with _tables_lock:
        table = _tables.get(network)
        if table is None:
            table = _tables[network] = _Table()
        return table.get(target, network)


def services_of(network: Network | None = None) -> list[Service]:
    """The services there are, of one network or of all."""
    with _tables_lock:
        tables = [_tables.get(network)] if network is not None else list(_tables.values())
        return [each for table in tables if table is not None for each in table.alive.values()]


def _renew_all() -> None:
    global _tables_lock  # noqa: PLW0603  the lock of the one table
    _tables_lock = Lock()
    for table in list(_tables.values()):
        for service in list(table.alive.values()):
            service.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
