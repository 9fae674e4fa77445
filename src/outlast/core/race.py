"""A race: overlapping dials to the addresses of one target, the first usable connection wins.

RFC 8305 generalised. The addresses are dialled in order, each a delay after the one before, at
once after an error; when all have been tried the round begins again, *from a new socket*, since
a virtual address draws another backend for a new source port. A VIP is raced against itself.

The rules (DESIGN section 6):
- One dial to each address stays open to the deadline: the first, or the next one where that
  failed. A slow path must still connect.
- The others end after 1 s; at the cap the oldest of them gives way to the next.
- Two dials to one address that were not answered in the time of others have met a hole rather
  than a slow path: further ones follow after `later_delay`, if the plan has one.
- A dial from a port that leads nowhere (`core.ports`) does not count: the next starts at once.
- A dial that has connected and is in its handshake holds back further dials, until it stalls.
- Every dial but the race's first comes out of the target's bucket. Empty: 1 s apart, one extra
  dial at a time, and no second round after errors. Never an error by itself: each address is
  tried once unless another race has just been refused there (`core.refusals`), and an address
  that stays silent is dialled again. "Unreachable" does not shorten the second: the kernel says
  it of a silent neighbour to all races in the same instant, and they would all dial on in it.
- A name is looked up again while nothing has won, and after every address has failed. Where the
  answer does not come, or the server fails, the addresses of before stand in for it.

The machine knows addresses only as opaque, hashable values. It does no I/O: `step` says what to
do at `now`, the other methods tell it what happened. Not thread-safe; one race has one owner.
It refuses to judge an address by an abandoned dial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from outlast.core.classify import ConnectFault
from outlast.core.race_steps import Abandon, Lost, Pause, Resolve, Start, Step

__all__ = [
    "Abandon",
    "Bucket",
    "Lost",
    "Pause",
    "Race",
    "RacePlan",
    "Resolve",
    "Start",
    "Step",
    "interleave",
]

A = TypeVar("A", bound=Hashable)

REDIAL_LIFE = 1.0  # seconds a later dial may stay unanswered; the kernel repeats its SYN after 1 s
SLOW_OR_HOLE = 2  # unanswered dials to one address after which it is a hole rather than slow
REDIAL_GAP = 1.0  # seconds between extra dials when the bucket is empty
MAX_PASSED = 8  # dials passed over in a row: no storm where most ports lead nowhere
MAX_REFUSALS = 8  # answered failures of one address in one race; 2^-8 for a VIP half gone
MORE_REFUSALS = 24  # where a dial was won lately; (3/4)^24 = 1e-3 for a VIP three quarters gone
LOOKUP_AGAIN = 1.0  # seconds without a winner before the name is looked up once more; doubles
LOOKUP_HELD = 0.25  # seconds without an answer, until the addresses of before are dialled
LOOKUP_RETRY = 0.5  # seconds between look-ups of a name that has no address at the moment


class Bucket(Protocol):
    """Where extra dials come from: a `RedialBucket`, or one behind a lock."""

    def take(self, now: float) -> bool:
        """Take one; False if there is none."""

    def won(self, taken: int, now: float) -> None:
        """Give back what a won race took."""


@dataclass(frozen=True, slots=True)
class RacePlan:
    """The figures of one race; all in seconds. ValueError for those of a race without pauses."""

    delay: float
    patience: float  # with a handshake, before another dial races it
    deadline: float  # a point in time
    max_open: int = 4  # open dials; more only where many addresses keep one each
    lookups: bool = True  # False for addresses that no name stands behind
    known: bool = False  # the name has had an address before: an empty answer may be a gap
    later_delay: float | None = None  # to an address that has left two unanswered; None: `delay`
    lately: bool = False  # a dial was won lately: an address may be a VIP that is partly gone

    def __post_init__(self) -> None:
        if not self.delay > 0:
            raise ValueError(f"race: delay {self.delay!r} must be above 0 seconds, such as 0.25")
        if not self.patience >= 0:
            raise ValueError(f"race: patience {self.patience!r} must be 0 seconds or more")
        if self.later_delay is not None and not self.later_delay > 0:
            raise ValueError(f"race: later_delay {self.later_delay!r} must be more than 0 seconds")
        if self.max_open < 1:
            raise ValueError(f"race: max_open {self.max_open!r} must be 1 or more, such as 4")


@dataclass(slots=True)
class _Dial(Generic[A]):
    address: A
    started: float
    stays: bool  # to the deadline
    connected: float = math.inf

    @property
    def passing(self) -> bool:
        """Whether it ends after `REDIAL_LIFE`, or gives way before."""
        return not self.stays and self.connected == math.inf


@dataclass(slots=True)
class _Address:
    dials: int = 0
    told: int = 0  # dials that connected, or failed otherwise than by silence
    faults: int = 0
    closed: bool = False  # the same dial would meet the same answer


@dataclass(slots=True)
class _Lookup:
    pending: bool = False
    asked: float = -math.inf
    due: float = math.inf  # the next one; infinite while one is pending, or if there is none
    gap: float = LOOKUP_AGAIN
    failed: bool = False
    fresh: bool = False  # the last answer is younger than the last error


@dataclass(slots=True)
class _Pace:
    last: float = -math.inf  # start of the last dial
    hurry: bool = True  # an error, or nothing started yet: the next dial need not wait
    unreachable: bool = False  # that error was the kernel's word on a silent neighbour
    taken: int = 0  # from the bucket
    paid: bool = False  # the next dial has been taken from the bucket
    passed: int = 0  # dials passed over since one had to wait for its turn
    started: int = 0


class Race(Generic[A]):
    """One race. Call `step` until it says `Pause` or `Lost`, carry out, tell, call again."""

    def __init__(
        self,
        plan: RacePlan,
        bucket: Bucket,
        addresses: Iterable[A] = (),
        refused: Callable[[A, float], bool] = lambda *_: False,
        spare: Iterable[A] = (),
    ) -> None:
        self.plan = plan
        self._bucket = bucket
        self._refused = refused  # `Refusals.lately`: whether others were told no there just now
        self._spare = tuple(spare)  # what the name's last answer was
        self._addresses: dict[A, _Address] = {}
        self._open: dict[int, _Dial[A]] = {}
        self._pace = _Pace()
        self._lookup = _Lookup(due=-math.inf if plan.lookups else math.inf)
        self._add(addresses)

    # -- what happened ---------------------------------------------------------------------

    def resolved(self, addresses: Sequence[A], now: float) -> None:
        """The name has these addresses now, in order of preference."""
        lookup = self._lookup
        lookup.pending = False
        if not addresses:
            self.lookup_failed(now, passing=False)
            return
        lookup.failed = False
        lookup.fresh = True
        lookup.due = now + lookup.gap
        lookup.gap *= 2
        self._add(addresses)

    def lookup_failed(self, now: float, *, passing: bool) -> None:
        """The look-up gave nothing. `passing`: the server may answer later (EAI_AGAIN)."""
        lookup = self._lookup
        lookup.pending = False
        lookup.failed = True
        lookup.fresh = True
        if passing and not self._addresses:
            self._add(self._spare)
        if passing or self.plan.known or self._addresses:
            lookup.due = now + LOOKUP_RETRY

    def connected(self, dial: int, now: float) -> None:
        """`dial` has its TCP connection; its handshake begins."""
        mine = self._open.get(dial)
        if mine is not None and mine.connected == math.inf:
            mine.connected = now
            self._addresses[mine.address].told += 1

    def won(self, dial: int, now: float) -> list[int]:
        """`dial` is usable. Returns the dials still open, which have lost."""
        self._open.pop(dial, None)
        losers = list(self._open)
        self._open.clear()
        self._bucket.won(self._pace.taken, now)
        return losers

    def failed(self, dial: int, fault: ConnectFault) -> None:
        """`dial` ended with an error: nothing was sent, the next one starts at once."""
        lost = self._open.pop(dial, None)
        if lost is None:
            return
        entry = self._addresses[lost.address]
        entry.faults += 1
        if lost.connected == math.inf and fault is not ConnectFault.SILENT:
            entry.told += 1
        most = MORE_REFUSALS if self.plan.lately and lost.connected == math.inf else MAX_REFUSALS
        entry.closed |= not fault.worth_another_port or entry.faults >= most
        self._pace.hurry = True
        self._pace.unreachable = fault is ConnectFault.UNREACHABLE
        self._lookup.fresh = False

    def passed_over(self, dial: int) -> bool:
        """`dial` came from a port that leads nowhere. True: give it up; False: it stays."""
        passed = self._pace.passed < MAX_PASSED
        if passed:
            self._pace.passed += 1
            self._pace.hurry = True
            self._addresses[self._open.pop(dial).address].dials -= 1
        return passed

    # -- what to do ------------------------------------------------------------------------

    def step(self, now: float) -> Step[A]:
        """The next thing to do at `now`."""
        if now >= self.plan.deadline:
            return self._end()
        expired = self._expired(now)
        if expired is not None:
            return self._abandon(expired, "unanswered for 1 s")
        if now >= self._lookup.due:
            return self._resolve(now)
        if now >= self._held_until():
            self._add(self._spare)
        address = self._candidate()
        if address is None:
            return self._spent(now)
        due = self._due(address)
        if now < due:
            return Pause(min(due, self._next_event()))
        return self._begin(address, now)

    def _begin(self, address: A, now: float) -> Step[A]:
        full = self._full()
        yields = self._oldest_passing() if full else None
        if full and yields is None and self._addresses[address].dials:
            return Pause(self._next_event())  # every address is tried once, room or not
        if not self._paid(now):
            wait = self._poor(now)
            if wait is not None:
                return wait
        if yields is not None:
            return self._abandon(yields, "gave way to a newer dial")
        return self._start(address, now)

    def _paid(self, now: float) -> bool:
        """Whether the next dial has been paid for: the first is free, others cost one each."""
        pace = self._pace
        if pace.started and not pace.paid and self._bucket.take(now):
            pace.paid = True
            pace.taken += 1
        return pace.paid or not pace.started

    def _poor(self, now: float) -> Step[A] | None:
        """What the empty bucket asks for instead of the dial; None: it may start all the same."""
        due = self._pace.last + REDIAL_GAP
        if not self._open:
            worth = self._worth_a_look(now)
            if worth is None:
                return self._spent(now)
            if not self._pace.unreachable or now >= due:
                return self._start(worth, now)
        return Pause(min(due, self._next_event())) if now < due else None

    def _start(self, address: A, now: float) -> Start[A]:
        entry, pace = self._addresses[address], self._pace
        dial = pace.started
        stays = not any(d.stays and d.address == address for d in self._open.values())
        self._open[dial] = _Dial(address, now, stays)
        why = self._reason(entry)
        entry.dials += 1
        pace.started += 1
        pace.last = now
        pace.passed = pace.passed if pace.hurry else 0
        pace.hurry = pace.paid = pace.unreachable = False
        return Start(dial, address, why)

    def _reason(self, entry: _Address) -> str:
        if self._pace.started == 0:
            return "first dial"
        if self._pace.hurry:
            return "after an error"
        return "next address" if entry.dials == 0 else "same address, new local port"

    def _abandon(self, dial: int, why: str) -> Abandon:
        del self._open[dial]
        return Abandon(dial, why)

    def _resolve(self, now: float) -> Resolve:
        self._lookup.pending = True
        self._lookup.asked = now
        self._lookup.due = math.inf
        return Resolve()

    def _end(self) -> Step[A]:
        for dial in self._open:
            return self._abandon(dial, "deadline")
        return Lost(timed_out=True)

    def _spent(self, now: float) -> Step[A]:
        """No address is worth another dial, or there is none."""
        lookup = self._lookup
        if self._open or lookup.pending:
            return Pause(self._next_event())
        if not self.plan.lookups:
            return Lost(timed_out=False)
        if lookup.failed and lookup.due < math.inf:
            return Pause(self._next_event())
        if not lookup.fresh:
            return self._resolve(now)
        return Lost(timed_out=False)

    # -- reckoning -------------------------------------------------------------------------

    def _add(self, addresses: Iterable[A]) -> None:
        for address in addresses:
            self._addresses.setdefault(address, _Address())

    def _candidate(self) -> A | None:
        """The address that has been dialled least, in order; None if all are spent."""
        best: A | None = None
        fewest = math.inf
        for address, entry in self._addresses.items():
            if not entry.closed and entry.dials < fewest:
                best, fewest = address, entry.dials
        return best

    def _worth_a_look(self, now: float) -> A | None:
        """The first address that neither this race nor, just now, another was told no by."""
        for address, entry in self._addresses.items():
            if not (entry.dials or entry.closed or self._refused(address, now)):
                return address
        return None

    def _due(self, address: A) -> float:
        """When the next dial, to `address`, may start."""
        if self._pace.hurry:
            return -math.inf
        entry, delay = self._addresses[address], self.plan.delay
        if self.plan.later_delay is not None and entry.dials - entry.told >= SLOW_OR_HOLE:
            delay = self.plan.later_delay
        due = self._pace.last + delay
        for dial in self._open.values():
            if dial.connected < math.inf:
                due = max(due, dial.connected + self.plan.patience)
        return due

    def _full(self) -> bool:
        """Whether the next dial finds no room of its own."""
        stay = sum(dial.stays for dial in self._open.values())
        return len(self._open) >= max(self.plan.max_open, stay + 1 if stay > 1 else 0)

    def _oldest_passing(self) -> int | None:
        return next((number for number, dial in self._open.items() if dial.passing), None)

    def _expired(self, now: float) -> int | None:
        oldest = self._oldest_passing()
        if oldest is None or now < self._open[oldest].started + REDIAL_LIFE:
            return None
        return oldest

    def _next_event(self) -> float:
        """The deadline, a look-up, or the end of a passing dial; whichever comes first."""
        oldest = self._oldest_passing()
        ends = math.inf if oldest is None else self._open[oldest].started + REDIAL_LIFE
        return min(self.plan.deadline, self._lookup.due, self._held_until(), ends)

    def _held_until(self) -> float:
        """When the addresses of before stand in for an answer; infinite if they need not."""
        lookup = self._lookup
        held = bool(self._spare) and lookup.pending and not self._addresses
        return lookup.asked + LOOKUP_HELD if held else math.inf


def interleave(addresses: Iterable[A], family: Callable[[A], Hashable]) -> list[A]:
    """RFC 8305 section 4: alternate between families, keeping each family's own order."""
    queues: dict[Hashable, list[A]] = {}
    for address in dict.fromkeys(addresses):
        queues.setdefault(family(address), []).append(address)
    mixed: list[A] = []
    rank = 0
    while len(mixed) < sum(map(len, queues.values())):
        mixed.extend(queue[rank] for queue in queues.values() if rank < len(queue))
        rank += 1
    return mixed
