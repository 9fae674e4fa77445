"""What a process knows of one target: its endpoints, its dials, its budgets.

One `Service` per target and process, shared by every transport and by the dialler, sync and
async. Endpoints that failed, or were silent three times in a row, are tried last for a while;
none is ever removed for that (DESIGN section 6: out is last, not gone). Thread-safe; nothing
here waits or does I/O.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from threading import Lock

from outlast.core.budget import RetryBudget
from outlast.core.tolerance import Tolerance
from outlast.net.address import Address
from outlast.net.dial import DialMemory
from outlast.net.seam import Network
from outlast.target import Target

__all__ = ["Service", "service_of"]

SILENCES = 3  # connect failures in a row before an endpoint is tried last (DESIGN section 6)
MAX_TARGETS = 1024  # that nobody holds, of 2 to 10 kB each; a crawler meets them without end
SHUN = 5.0  # seconds that it stays last; the first step of the ejection time


@dataclass(slots=True)
class _Endpoint:
    silences: int = 0
    shunned_until: float = 0.0
    suspect: bool = False


class Service:
    """One target's shared knowledge. Thread-safe."""

    def __init__(self, target: Target, now: float) -> None:
        self.target = target
        self.memory = DialMemory(now)
        self._lock = Lock()
        self._budget = RetryBudget()
        self._endpoints: dict[Address, _Endpoint] = {}
        self._tolerances: dict[Address, Tolerance] = {}
        self._order: tuple[Address, ...] = target.addresses
        self.departures = 0  # how often an endpoint has left the target
        self._turn = Random(target.text).randrange(1 << 16)

    # -- endpoints -------------------------------------------------------------------------

    def order(self, now: float) -> Sequence[Address]:
        """The endpoints known now, the next one to use first; nothing for a name never met.

        Each call takes a turn (round robin): ask once per attempt.
        """
        self._turn += 1  # two threads that get the same turn do no harm
        return self._order if len(self._order) < 2 else self.arrange(self._order, now)

    def has(self, address: Address) -> bool:
        """Whether an endpoint is one of the target's now."""
        return address in self._order

    def arrange(self, addresses: Sequence[Address], now: float) -> Sequence[Address]:
        """`addresses` in this turn's order, the shunned ones last.

        Turns go round within a family; which family comes first is the resolver's word (RFC 6724).
        """
        if len(addresses) < 2:
            return addresses
        families = list(dict.fromkeys(address.family for address in addresses))
        turn = self._turn % len(addresses)
        rotated = [*addresses[turn:], *addresses[:turn]]
        with self._lock:
            rotated.sort(key=lambda a: (self._shunned(a, now), families.index(a.family)))
        return rotated

    def _shunned(self, address: Address, now: float) -> bool:
        entry = self._endpoints.get(address)
        return entry is not None and entry.shunned_until > now

    def resolved(self, addresses: Sequence[Address]) -> None:
        """The name has these addresses now."""
        with self._lock:
            if not set(self._order) <= set(addresses):
                self.departures += 1
            self._order = tuple(addresses)
            for gone in self._endpoints.keys() - set(addresses):
                del self._endpoints[gone]
            for gone in self._tolerances.keys() - set(addresses):
                del self._tolerances[gone]

    # -- evidence --------------------------------------------------------------------------

    def answered(self, address: Address) -> None:
        """An endpoint has answered: what was held against it is forgotten."""
        if self._endpoints:
            with self._lock:
                self._endpoints.pop(address, None)

    def silent(self, address: Address, now: float) -> None:
        """An endpoint did not answer a dial while another did."""
        with self._lock:
            entry = self._endpoints.setdefault(address, _Endpoint())
            entry.silences += 1
            if entry.silences >= SILENCES:
                entry.shunned_until = now + SHUN

    def failed(self, address: Address, now: float) -> None:
        """An endpoint has failed: it is tried last for a while."""
        with self._lock:
            self._endpoints.setdefault(address, _Endpoint()).shunned_until = now + SHUN

    def suspect(self, address: Address, now: float) -> None:
        """A connection to an endpoint has kernel evidence against it: until the endpoint answers
        no idle connection to it is trusted without a probe, and it is tried last for a while."""
        with self._lock:
            entry = self._endpoints.setdefault(address, _Endpoint())
            entry.suspect = True
            entry.shunned_until = now + SHUN

    def is_suspect(self, address: Address) -> bool:
        """Whether an endpoint is suspect now."""
        entry = self._endpoints.get(address)
        return entry is not None and entry.suspect

    def tolerance(self, address: Address) -> Tolerance:
        """What the network towards an endpoint has taught; all its connections share it."""
        with self._lock:
            return self._tolerances.setdefault(address, Tolerance())

    def renew(self) -> None:
        """In the child of a fork: what was learnt stays, locks that others held do not."""
        self._lock = Lock()
        self.memory.renew()

    # -- budget ----------------------------------------------------------------------------

    def request(self, now: float) -> None:
        """Count one call."""
        with self._lock:
            self._budget.request(now)

    def take(self, now: float) -> bool:
        """See `core.call.Budget`."""
        with self._lock:
            return self._budget.take(now)


class _Table:
    """The services of one network. Those used last are kept; the others live as long as somebody
    holds them, and until then there is no second one of their target."""

    def __init__(self) -> None:
        self.alive: weakref.WeakValueDictionary[str, Service] = weakref.WeakValueDictionary()
        self._kept: dict[str, Service] = {}

    def get(self, target: Target, now: float) -> Service:
        """The service of `target`. Under the lock."""
        service = self.alive.get(target.text)
        if service is None:
            service = self.alive[target.text] = Service(target, now)
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
        return table.get(target, network.now())


def _renew_all() -> None:
    global _tables_lock  # noqa: PLW0603  the lock of the one table
    _tables_lock = Lock()
    for table in list(_tables.values()):
        for service in list(table.alive.values()):
            service.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
