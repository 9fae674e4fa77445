"""The seam's second implementation: a simulated host's sockets, clock and resolver.

All waiting is the simulation's; a network is one host's view of it. Dials are named after whoever
dials and how often it has (`w1/dial-2`), which is what their chance is keyed by.

Source: the promises of `outlast.net.seam.Network`. Refuses Unix sockets: there is no file system.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random

from outlast.net.address import UNIX, Address, literal
from outlast.net.options import LocalRefusal, SocketPlan
from outlast.net.seam import Lookup, Waiter
from outlast.testing.simnet.dns import Answer, Zone
from outlast.testing.simnet.draws import Draws
from outlast.testing.simnet.host import Host
from outlast.testing.simnet.simulation import Simulation
from outlast.testing.simnet.stream import SimStream, options_of
from outlast.testing.simnet.transcript import DIALS

__all__ = ["EPOCH", "SimNetwork"]

# Unix time at which every simulation begins: 2030-01-01 00:00 UTC, whatever the day is outside.
EPOCH = 1_893_456_000.0


class KeyedRandom(Random):
    """Draws keyed by (seed, name, who draws, how often it has): never by the order of all draws."""

    def __new__(cls, *_args: object) -> KeyedRandom:
        """Python 3.10 would take the arguments for a seed."""
        return super().__new__(cls)

    def __init__(self, draws: Draws, name: str, worker: Callable[[], str]) -> None:
        self._draws = draws
        self._name = name
        self._worker = worker
        self._counts: dict[str, int] = {}
        super().__init__(0)

    def random(self) -> float:
        """A number in [0, 1)."""
        worker = self._worker()
        count = self._counts.get(worker, 0)
        self._counts[worker] = count + 1
        return self._draws.uniform(f"{self._name}/{worker}", count)


class SimNetwork:
    """One simulated host's network; see `Network`."""

    tells = True

    def __init__(self, simulation: Simulation, host: Host, zone: Zone, draws: Draws) -> None:
        self._simulation = simulation
        self._host = host
        self._zone = zone
        self._draws = draws
        self._dials: dict[str, int] = {}
        self._asked: dict[tuple[str, int], list[tuple[Lookup, Waiter]]] = {}
        self._names: dict[str, int] = {}
        self.now = simulation.clock.now
        self.wait = simulation.wait
        self.wait_async = simulation.wait_async
        self.waiter = simulation.waiter
        self.spawn = simulation.spawn
        self.do = simulation.do

    def turn(self) -> None:
        """Make sure that this thread has the turn, while a run is on."""
        turns = self._simulation.turns
        if turns.running:
            turns.enter()

    @property
    def linked(self) -> bool:
        """Whether the host's own link is up."""
        return self._host.link.plugged

    def wall_clock(self) -> float:
        """See `Network.wall_clock`: it begins in 2030."""
        return EPOCH + self.now()

    def rng(self, name: str) -> Random:
        """See `Network.rng`: keyed by the seed, the name, and whoever draws."""
        count = self._names[name] = self._names.get(name, 0) + 1
        where = f"rng/{self._host.name}/{name}/{count}"
        return KeyedRandom(self._draws, where, self._simulation.worker)

    # -- names -----------------------------------------------------------------------------

    def lookup(self, host: str, port: int, waiter: Waiter) -> Lookup:
        """See `Network.lookup`."""
        address = literal(host, port)
        if address is not None:
            waiter.wake()
            return Lookup(addresses=[address])
        self.turn()
        self.tell(self._simulation.worker(), f"looks up {host}")
        lookup, key = Lookup(), (host, port)
        asked = self._asked.get(key)
        if asked is not None:
            asked.append((lookup, waiter))
        else:
            self._asked[key] = [(lookup, waiter)]
            self._zone.lookup(host, lambda answer: self._answered(key, answer))
        return lookup

    def _answered(self, key: tuple[str, int], answer: Answer) -> None:
        told = answer.error if answer.error is not None else ", ".join(answer.addresses)
        self.tell("dns", f"{key[0]}: {told}")
        found = [literal(each, key[1]) for each in answer.addresses]
        for lookup, waiter in self._asked.pop(key, ()):
            lookup.error = answer.error
            if answer.error is None:
                lookup.addresses = [address for address in found if address is not None]
            waiter.wake()

    def tell(self, who: str, what: str) -> None:
        """A line for the trace."""
        trace = self._host.fabric.trace
        if trace is not None:
            trace(who, what)

    # -- dials -----------------------------------------------------------------------------

    def dial(self, address: Address, plan: SocketPlan) -> SimStream:
        """See `Network.dial`."""
        self.turn()
        if address.family == UNIX:
            text = f"connect to {address}: a simulated host has no Unix sockets"
            raise LocalRefusal(errno.EAFNOSUPPORT, text)
        options = options_of(plan, self._host)
        worker = self._simulation.worker()
        count = self._dials[worker] = self._dials.get(worker, 0) + 1
        label = f"{worker}/dial-{count}"
        self.tell(label, f"{DIALS} {address}")
        try:
            sock = self._host.connect(address.pair, options, label=label, source=plan.source)
        except OSError as error:
            self.tell(label, f"ends: {errno.errorcode.get(error.errno or 0, error)}")
            raise _named(error, address, plan) from None
        return SimStream(self, sock, address, plan)


def _named(error: OSError, address: Address, plan: SocketPlan) -> OSError:
    """The kernel's error, with what it is about."""
    code = error.errno or 0
    why = os.strerror(code)
    if plan.source is not None and code in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
        return LocalRefusal(code, f"local address {plan.source[0]}:{plan.source[1]}: {why}")
    return OSError(code, f"connect to {address}: {why}")
