"""What a process knows of one target: its endpoints, whom a request goes to, its budgets.

One `Service` per target and process, shared by every transport and by the dialler, sync and
async. Who is picked, and who is tried last, is `core.roster`'s and `core.health`'s to decide; here
they are told what was met, under one lock, and what they decide becomes events. None is ever
removed but by discovery (DESIGN section 6: out is last, not gone).

A target of one address, as a VIP is, has nobody to choose: while it is well nothing is counted for
it. Thread-safe; nothing here waits or does I/O, and no event is told under the lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from random import Random
from threading import Lock
from typing import TypeVar

from outlast.core.budget import BudgetPlan, RetryBudget
from outlast.core.call_steps import Repeat
from outlast.core.classify import answer_fault
from outlast.core.health import Ejected, Evidence, Fault, Health, Returned, Rule, Standing
from outlast.core.nodes import NodeEvidence
from outlast.core.roster import Endpoint, Member, Roster
from outlast.core.tolerance import Tolerance
from outlast.events import emit
from outlast.net.address import Address
from outlast.net.dial import DialMemory
from outlast.net.seam import Network
from outlast.service.announce import Panic, announce, announce_members, exhausted, held_back
from outlast.service.check_kinds import CheckWay
from outlast.service.checks import ActiveChecks
from outlast.service.circuits import Circuits
from outlast.service.dry_run import only_counting
from outlast.service.news import BadNews
from outlast.service.order import Order
from outlast.service.response_times import ResponseTimes
from outlast.service.turn import Turn
from outlast.target import Target, TargetSettings

__all__ = ["Service"]

T = TypeVar("T")
log = logging.getLogger("outlast")

DEFAULTS = TargetSettings()
TOO_MANY = 429  # not ill, but asked for too much (RFC 6585)


class Service(BadNews):
    """One target's shared knowledge. Thread-safe."""

    def __init__(self, target: Target, now: float, rng: Random) -> None:
        self.target = target
        self.memory = DialMemory(now)
        self._lock = Lock()
        self._rng = rng
        self._budget = RetryBudget()
        self._tolerances: dict[Address, Tolerance] = {}
        self._doubted: set[Address] = set()
        self.attentive = False  # whether a good answer is news: there is a choice, or trouble
        self.calls = 0
        self.departures = 0  # how often an endpoint has left the target
        self._times: ResponseTimes | None = None
        self.circuits: Circuits | None
        self.held_back: dict[Repeat, int] = {}  # by dry runs: repeats that were not made
        self.told = target.settings  # None: by default
        self.checks: ActiveChecks | None = None
        self.dry_checks: frozenset[Rule] = frozenset()  # the one rule of checks, if it only counts
        self._panic = Panic(target.text)
        self._settle(target.settings or DEFAULTS, target.members, now)

    def settle(self, settings: TargetSettings, now: float) -> None:
        """Use the endpoints so from now on. What was known of their health is forgotten."""
        if self.told is not None:
            log.warning(
                "%s is told to be used as %s; it was %s", self.target.text, settings, self.told
            )
        with self._lock:
            self.told = settings
            checks, self.checks = self.checks, None
            self._settle(settings, [endpoint.member for endpoint in self._roster], now)
            panic = self._panic.look(self._roster, now)
        if panic is not None:
            emit(panic)
        if checks is not None:
            checks.stop()

    def _settle(
        self, settings: TargetSettings, members: Sequence[Member[Address]], now: float
    ) -> None:
        self.settings = settings
        self._nodes: NodeEvidence[Address] = NodeEvidence()
        self._roster: Roster[Address] = Roster(
            settings.balance, settings.health, self._rng, zone=settings.zone
        )
        self._roster.resolved(members, now)
        limits, self.circuits = settings.circuit, None
        self.paced = limits is not None or settings.health.latency is not None  # every call
        if limits is not None:
            self.circuits = Circuits(self.target.text, limits)
        self._know([member.key for member in members])

    def check(self, network: Network, way: CheckWay) -> None:
        """Begin active checks, if the settings want them and they are not made yet. `way`: how the
        target's users reach it; that of the first one is taken."""
        kind = self.settings.check
        if kind is None or self.checks is not None:
            return
        name, members = self.target.text, self.addresses
        self.checks = ActiveChecks(network, name, kind, members, self.checked, way=way)

    def addresses(self) -> Sequence[Address]:
        """The endpoints there are now, in no order of use."""
        return self._addresses

    def _know(self, addresses: Sequence[Address]) -> None:
        self._addresses = tuple(addresses)
        self.chooses = len(addresses) > 1  # else nobody is chosen, and nothing counted
        self.attentive = self.attentive or self.chooses

    def renew(self) -> None:
        """In the child of a fork: what was learnt stays, locks that others held do not."""
        self._lock = Lock()
        self.memory.renew()
        for each in (self._times, self.circuits):
            if each is not None:
                each.renew()

    # -- endpoints -------------------------------------------------------------------------

    def order(
        self,
        now: float,
        avoid: Collection[Address] = (),
        hashed: bytes | None = None,
        repeatable: bool = True,
    ) -> Sequence[Address]:
        """The endpoints known now, the one that is picked first; nothing for a name never met.

        Ask once per attempt: each is a pick. `avoid`: those that come after all others. `hashed`:
        by what consistent hashing picks. `repeatable`: what may not be repeated is nobody's trial
        who is out for bad answers.
        """
        if not self.chooses:
            return self._addresses
        with self._lock:
            return self._order(now, avoid, hashed, repeatable)

    def _order(
        self, now: float, avoid: Collection[Address], hashed: bytes | None, repeatable: bool
    ) -> Order:
        pick = self._roster.pick(now, self._rng, avoid=avoid, hashed=hashed)
        assert pick is not None  # there are some
        if pick.trial and not repeatable and pick.endpoint.key not in avoid:
            health = pick.endpoint.health
            if health.evidence is Evidence.ANSWERS:
                health.untried(now)
                self._roster.changed(pick.endpoint)
                return self._order(now, {*avoid, pick.endpoint.key}, hashed, repeatable)
        first = pick.endpoint
        trial = first if pick.trial else None
        return Order(first.key, len(self._roster), lambda: self._others(first, now), trial)

    def _others(self, first: Endpoint[Address], now: float) -> Sequence[Address]:
        with self._lock:
            return self._roster.order(now, self._rng, first.key)

    def untried(self, order: Sequence[Address], now: float) -> None:
        """An attempt with this order has ended, and if its first endpoint was on trial and nothing
        was heard of it, the next trial is due."""
        trial = order.trial if isinstance(order, Order) else None
        if trial is not None:
            with self._lock:
                trial.health.untried(now)
                self._roster.changed(trial)

    def has(self, address: Address) -> bool:
        """Whether an endpoint is one of the target's now."""
        return address in self._addresses

    def arrange(self, addresses: Sequence[Address], now: float) -> Sequence[Address]:
        """The addresses of the target's name in the order in which to dial; unknown ones last."""
        if len(addresses) < 2 or not self.chooses:
            return addresses
        asked = dict.fromkeys(addresses)
        order = self.order(now)
        self.untried(order, now)  # whoever dials so has no trial in mind
        known = [each for each in order if each in asked]
        return list(dict.fromkeys((*known, *asked)))

    def resolved(self, addresses: Sequence[Address], now: float) -> None:
        """The name has these addresses now. Which family comes first is the resolver's word
        (RFC 6724): the other ones are a spare, as endpoints of a lower priority are."""
        if self.target.name is None or tuple(addresses) == self._addresses:
            return
        families = list(dict.fromkeys(address.family for address in addresses))
        members = [Member(each, priority=families.index(each.family)) for each in addresses]
        with self._lock:
            joined, left = self._roster.resolved(members, now)
            self.departures += bool(left)
            self._know([endpoint.key for endpoint in self._roster])
            for gone in self._tolerances.keys() - set(addresses):
                del self._tolerances[gone]
            self._doubted.intersection_update(addresses)
            panic = self._panic.look(self._roster, now)
        if self.circuits is not None:
            self.circuits.forget(left)
        if self.checks is not None and (joined or left):
            self.checks.changed()
        announce_members(self.target.text, joined, left, now)
        if panic is not None:
            emit(panic)

    # -- requests --------------------------------------------------------------------------

    def begin(self, address: Address, now: float) -> Turn | None:
        """A request is on its way to an endpoint; None where nobody counts. Every turn is ended."""
        with self._lock:
            endpoint = self._roster.get(address)
            if endpoint is None:
                return None
            endpoint.load.begin(now)
            return Turn(self, endpoint, now)

    def end(self, turn: Turn, status: int | None, retry_after: float, now: float) -> None:
        """It was answered with `status`; None: it failed, which is told apart from this."""
        fault = None if status is None else answer_fault(status)
        failed = status is None or fault is not None or status == TOO_MANY
        endpoint = turn.endpoint
        with self._lock:
            endpoint.load.end(now, now - turn.began, failed=failed, retry_after=retry_after)

    def quit(self, turn: Turn, now: float, *, late: bool = False) -> None:
        """It ended without a word about the endpoint; `late`: but that it takes longer than so."""
        with self._lock:
            if late:
                turn.endpoint.load.end(now, now - turn.began)
            else:
                turn.endpoint.load.quit()
            if turn.trial:
                turn.endpoint.health.untried(now)
                self._roster.changed(turn.endpoint)

    # -- evidence --------------------------------------------------------------------------

    def connected(self, address: Address, now: float) -> None:
        """A dial has won, or a probe was answered."""
        self._doubted.discard(address)
        if self.attentive:
            self._hear(address, now, lambda health: health.connected(now), good=True)

    def answered(self, address: Address, status: int, now: float) -> None:
        """An endpoint has answered a request."""
        self.spoke(address)
        fault = answer_fault(status)
        if fault is not None:
            self.fault(address, fault, now)
        elif self.attentive:
            self._hear(address, now, lambda health: health.succeeded(now), good=True)

    def spoke(self, address: Address) -> None:
        """An endpoint is not suspect any more."""
        if self._doubted:
            self._doubted.discard(address)

    def suspect(self, address: Address, now: float, dry: frozenset[Rule] = frozenset()) -> None:
        """A connection to an endpoint has kernel evidence against it: until the endpoint answers
        no idle connection to it is trusted without a probe, and it is tried last."""
        self._doubted.add(address)
        self.fault(address, Fault.SUSPECT, now, dry)

    def is_suspect(self, address: Address) -> bool:
        """Whether an endpoint is suspect now."""
        return address in self._doubted

    def checked(self, address: Address, up: bool, why: str, now: float, evidence: Evidence) -> None:
        """What an active check says of an endpoint; see `core.health.Health.checked`."""

        def tell(health: Health) -> Ejected | Returned | None:
            if self.checks is None:  # they were just ended: nobody would let it in again
                return None
            return health.checked(up, now, self._rng, evidence=evidence, why=why)

        self._hear(address, now, only_counting(self.dry_checks, tell))

    def tolerance(self, address: Address) -> Tolerance:
        """What the network towards an endpoint has taught; all its connections share it."""
        with self._lock:
            return self._tolerances.setdefault(address, Tolerance())

    def fault(
        self,
        address: Address,
        fault: Fault,
        now: float,
        dry: frozenset[Rule] = frozenset(),
        *,
        reached: bool = False,
    ) -> None:
        """Something speaks against an endpoint. `dry`: rules that only count it. `reached`: its
        node was, and so speaks for it."""
        self.attentive = True
        told = only_counting(dry, lambda health: health.failed(fault, now, self._rng))
        self._hear(address, now, told)
        if not reached and fault in (Fault.CONNECT, Fault.SILENT):
            self._blame_node(address, now, dry)

    def _blame_node(self, address: Address, now: float, dry: frozenset[Rule]) -> None:
        """Two endpoints of a node that fail together tell of the others there."""
        with self._lock:
            endpoint = self._roster.get(address)
            node = "" if endpoint is None else endpoint.member.node
            if not node or not self._nodes.failed(node, address, now):
                return
            others = [each.key for each in self._roster if each.member.node == node]
        why = f"two endpoints of node {node} failed to connect together"
        told = only_counting(
            dry, lambda health: health.eject(Rule.NODE, Evidence.DEATH, why, now, self._rng)
        )
        for other in others:
            if other != address:
                self._hear(other, now, told)

    def _hear(
        self,
        address: Address,
        now: float,
        tell: Callable[[Health], Ejected | Returned | None],
        *,
        good: bool = False,
    ) -> None:
        with self._lock:
            endpoint = self._roster.get(address)
            if endpoint is None:
                return
            health = endpoint.health
            before = health.standing, health.evidence, health.until
            change = tell(health)
            panic = None
            if before != (health.standing, health.evidence, health.until):
                self._roster.changed(endpoint)
                panic = self._panic.look(self._roster, now)
            if good:
                self._nodes.answered(endpoint.member.node, now)
            if good and health.standing is Standing.IN:
                self.attentive = self.chooses
        if change is not None:
            announce(self.target.text, address, change, now)
        if panic is not None:
            emit(panic)

    # -- for a look at it ------------------------------------------------------------------

    def look(self, at: Callable[[Roster[Address]], T]) -> T:
        """What `at` makes of the endpoints, which nothing changes meanwhile."""
        with self._lock:
            return at(self._roster)

    def repeats_left(self, now: float) -> float:
        """Repeats that the retry budget would still grant."""
        with self._lock:
            return self._budget.left(now)

    # -- budget ----------------------------------------------------------------------------

    def request(self, now: float) -> None:
        """Count one call."""
        with self._lock:
            self.calls += 1
            self._budget.request(now)

    def take(self, now: float, plan: BudgetPlan | None = None) -> bool:
        """Grant one repeat, by the call's own figures; see `RetryBudget.take`."""
        with self._lock:
            granted = self._budget.take(now, plan)
        if not granted:
            exhausted(self.target.text, "retries", now)
        return granted

    def hold_back(self, rule: Repeat, now: float) -> None:
        """Count a repeat that a dry run has kept from being made."""
        with self._lock:
            self.held_back[rule] = self.held_back.get(rule, 0) + 1
        held_back(self.target.text, rule, now)

    def response_times(self) -> ResponseTimes:
        """What its answers take, of calls that have a deadline or a hedge."""
        times = self._times
        if times is None:
            with self._lock:
                times = self._times = self._times or ResponseTimes()
        return times
