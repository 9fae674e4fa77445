"""The background job of one target's active checks: all endpoints side by side, each in its time.

The first check of an endpoint is made at once; the machine (`core.check`) says when the next is
due, and what a row of them means: up at the first pass, and after `rise` of them when down; down
after `fall` failures. A change is an event (`CheckChanged`); what stands is told to the owner with
each check that bears it out. A check that hangs ends at its time-out, with a reset of its
connection.

Source: HAProxy 3.0, health checks (`inter`, `fastinter`, `rise`, `fall`); DESIGN section 7.
Refuses to hold anything against an endpoint that is this machine's own fault: descriptors run out,
no link, or a process that was held up past the time-out.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from threading import Lock
from typing import Protocol

from outlast import events
from outlast.core.check import Check
from outlast.core.health_plan import Evidence
from outlast.net.address import Address
from outlast.net.options import LocalRefusal
from outlast.net.run import Strands
from outlast.net.seam import WAKE, Network
from outlast.service.check_kinds import CheckKind, CheckWay, Outcome, Subject

__all__ = ["CheckJob", "CheckOwner", "CheckState"]

log = logging.getLogger("outlast")

HELD_UP = 0.25  # seconds past a time-out at which this process cannot have been running freely
_GONE = math.nan  # equal to no time at all


@dataclass(frozen=True, slots=True)
class CheckState:
    """What the checks say of an endpoint. `up` None: nothing yet. `ok`, `why` and `at` (on the
    network's clock): of the last check; `ok` None: it told nothing."""

    up: bool | None = None
    ok: bool | None = None
    why: str = ""
    at: float = -math.inf


class CheckOwner(Protocol):
    """Whose checks a job makes. It is held weakly."""

    network: Network
    target: str
    kind: CheckKind
    way: CheckWay

    def wanted(self, job: CheckJob, now: float) -> Sequence[Address] | None:
        """What `job` is to check; None if it is to end."""

    def tell(self, address: Address, up: bool, why: str, now: float, evidence: Evidence) -> None:
        """A check has shown that an endpoint is up or down."""

    @property
    def rests_at(self) -> float:
        """When to ask again, if no check is due before."""

    def over(self, job: CheckJob, *, failed: bool) -> None:
        """`job` has ended; whether by a mistake."""


class _Entry:
    """One endpoint under check. `when`: its check is due or, while one is under way, late."""

    __slots__ = ("begun", "check", "state", "subject", "when")

    def __init__(self, subject: Subject, check: Check) -> None:
        self.subject = subject
        self.check = check
        self.state = CheckState()
        self.begun = False  # a check is under way
        self.when = math.inf


class CheckJob:
    """The checks of a target from its first use to its rest."""

    def __init__(self, owner: CheckOwner) -> None:
        self._owner = weakref.ref(owner)
        self._network = owner.network
        self._target = owner.target
        self._kind = owner.kind
        self._plan = owner.kind.plan
        self._way = owner.way
        self._rng: Random = owner.network.rng(f"checks of {owner.target}")
        self._strands: Strands[Address, Outcome] = Strands(owner.network)
        self._members: Sequence[Address] = ()
        self._entries: dict[Address, _Entry] = {}
        self._times: list[tuple[float, int, _Entry]] = []  # a heap; what has moved is passed over
        self._numbers = itertools.count()  # of equal times the first comes first
        self._line: deque[_Entry] = deque()  # due, and more than may be checked at once
        self._lock = Lock()
        self._bell = owner.network.waiter()
        self._rung = False
        self._level = logging.ERROR  # of a check's own failure

    def ring(self) -> None:
        """Have it look at its owner, and at its members, now. Thread-safe."""
        with self._lock:
            self._rung = True
            bell = self._bell
        bell.wake()

    def state(self, address: Address) -> CheckState:
        """What the checks say of one endpoint. Thread-safe."""
        entry = self._entries.get(address)
        return CheckState() if entry is None else entry.state

    async def run(self) -> None:
        """Check until the owner wants no more."""
        failed = True
        try:
            while (until := self._turn()) is not None:
                ended = await self._strands.next(until, also=((self._bell, WAKE),))
                while ended is not None:
                    self._take(*ended)
                    # Others may have ended too: none is to be called late without a look at it.
                    ended = await self._strands.next(-math.inf) if self._overdue() else None
            failed = False
        finally:
            self._strands.close()
            owner = self._owner()
            if owner is not None:
                owner.over(self, failed=failed)

    def _turn(self) -> float | None:
        """All there is to do now; when there is more. None: it is over."""
        if self._rung:
            with self._lock:
                self._rung = False
                self._bell = self._network.waiter()
        owner, now = self._owner(), self._network.now()
        members = None if owner is None else owner.wanted(self, now)
        if owner is None or members is None:
            return None
        self._follow(members, now)
        self._sort_out(now)
        self._start(now)
        return min(self._next_time(), owner.rests_at)

    # -- who is checked --------------------------------------------------------------------

    def _follow(self, members: Sequence[Address], now: float) -> None:
        if members is self._members and isinstance(members, tuple):
            return
        self._members = members
        for gone in self._entries.keys() - set(members):
            self._entries.pop(gone).when = _GONE
            self._strands.cancel(gone)
        for address in members:
            if address not in self._entries:
                subject = Subject(self._network, self._way, address)
                entry = self._entries[address] = _Entry(subject, Check(self._plan))
                self._at(now, entry)

    # -- times -----------------------------------------------------------------------------

    def _at(self, when: float, entry: _Entry) -> None:
        entry.when = when
        heapq.heappush(self._times, (when, next(self._numbers), entry))

    def _next_time(self) -> float:
        """Of the first that has not moved."""
        times = self._times
        while times and times[0][0] != times[0][2].when:
            heapq.heappop(times)
        return times[0][0] if times else math.inf

    def _overdue(self) -> bool:
        return self._next_time() <= self._network.now()

    def _sort_out(self, now: float) -> None:
        """Checks whose time has come stand in line; those that are late end."""
        while self._next_time() <= now:
            entry = heapq.heappop(self._times)[2]
            if entry.begun:
                self._late(entry, now)
            else:
                entry.when = math.inf
                self._line.append(entry)

    def _start(self, now: float) -> None:
        while self._line and len(self._strands) < self._kind.at_once:
            entry = self._line.popleft()
            if entry.when is _GONE:
                continue
            entry.begun = True
            entry.check.begun(now)
            self._at(now + self._plan.timeout, entry)
            self._strands.start(entry.subject.address, self._kind.probe(entry.subject))

    # -- how checks end --------------------------------------------------------------------

    def _take(self, address: Address, result: Outcome | BaseException) -> None:
        entry, now = self._entries[address], self._network.now()
        if isinstance(result, LocalRefusal):
            result = Outcome(None, str(result.strerror or result))
        elif isinstance(result, OSError):
            met = Evidence.ANSWERS if entry.subject.connected else Evidence.DEATH
            result = Outcome(False, str(result.strerror or result), met)
        elif isinstance(result, BaseException):
            self._log(address, result)
            result = Outcome(None, f"the check itself failed: {result!r}")
        self._end(entry, result, now)

    def _log(self, address: Address, error: BaseException) -> None:
        """A mistake in the check; it would be met every time, and is told in full once."""
        text = "a check of %s (%s) has failed by itself; it tells nothing of the endpoint"
        level, self._level = self._level, logging.DEBUG
        log.log(level, text, address, self._target, exc_info=error)

    def _late(self, entry: _Entry, now: float) -> None:
        subject = entry.subject
        linked = subject.stream is None or subject.stream.linked()
        held_up = now - entry.when > HELD_UP
        self._strands.cancel(subject.address)
        if held_up:
            outcome = Outcome(None, f"this process was held up for {now - entry.when:.1f} s")
        elif not linked:
            outcome = Outcome(None, "this machine's own link is down")
        else:
            text = f"timed out after {self._plan.timeout:g} s, waiting for {subject.stage}"
            outcome = Outcome(False, text)
        self._end(entry, outcome, now)

    def _end(self, entry: _Entry, outcome: Outcome, now: float) -> None:
        """A check has ended: what it means, who hears of it, and when the next one is due."""
        subject, up, change = entry.subject, entry.state.up, None
        entry.begun = False
        subject.stream, subject.connected = None, False
        ok, why, evidence = outcome
        if ok is None:
            due = now + self._plan.fast_interval
        else:
            change = entry.check.ended(ok, now, self._rng)
            up = up if change is None else change
            due = entry.check.due_at
        entry.state = CheckState(up, ok, why, now)
        self._at(due, entry)
        if change is not None and events.wanted(events.CheckChanged):
            address = str(subject.address)
            told = events.CheckChanged(
                at=now, target=self._target, address=address, up=change, why=why
            )
            events.emit(told)
        owner = self._owner()
        if owner is not None and ok is not None and up is ok:
            owner.tell(subject.address, ok, why, now, evidence)
