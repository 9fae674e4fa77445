"""Who may run: one thread at a time, in a fixed order, while virtual time stands still.

A `Party` is a thread of the simulation: the one that began the run (maybe with an event loop in
it), those that `launch` makes, and plain threads that touch the network. One of them has the turn.
A party that waits passes it to the next in line; when all wait, whoever waited last carries the
timeline on until somebody may go on. So no two parties ever change the simulation at once, and the
order depends on nothing but the program. Plain threads join in the order the system runs them in.

Refuses to go on where it cannot: see `stall`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from threading import get_ident

from outlast.testing.simnet.outsiders import Outsiders, discharge, enlist
from outlast.testing.simnet.stall import SimOver, SimStalled, place_of
from outlast.testing.simnet.timeline import Timeline

__all__ = ["Party", "Turns"]

SPINS = 100  # rounds of a loop at one instant; what it has to do itself takes a few


class Party:
    """One thread of the simulation. `inbox`: what an event loop runs when it has the turn."""

    __slots__ = (
        *("ending", "gate", "ident", "inbox", "name", "outside", "parked", "plain", "polls"),
        *("thread", "woken"),
    )

    def __init__(self, name: str, thread: threading.Thread, *, plain: bool = False) -> None:
        self.name = name
        self.thread = thread
        self.plain = plain  # not made by `launch`: it joined, and may go without a word
        self.ident = thread.ident or 0
        self.gate = threading.Lock()
        self.gate.acquire()
        self.woken = False
        self.parked = False
        self.ending = False
        self.polls = False  # other threads may have something for it that only it can find
        self.outside = False  # it waits for others in real time, and another has its turn
        self.inbox: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"<Party {self.name}>"


class Turns:
    """The threads of one simulation, and whose turn it is.

    `enter` may be called from any thread, `post` too; everything else by whoever has the turn.
    `patience`: real seconds for what ought to take none.
    """

    def __init__(self, timeline: Timeline, patience: float) -> None:
        self.timeline = timeline
        self.patience = patience
        self.horizon: int | None = None  # microseconds; the run's end, come what may
        self.holder: Party | None = None
        self.first: Party | None = None
        self.failure: SimStalled | None = None
        self.parties: dict[int, Party] = {}
        self.claims: deque[Party] = deque()  # plain threads, and those that lost their turn
        self.lock = threading.Lock()  # over claims, and over who has the turn
        self.on_claim: Callable[[], None] = _nothing
        self.events = 0
        self.passes = 0  # how often the turn was passed on
        self.describe: Callable[[], Iterator[str]] = lambda: iter(())
        self._breaths = 0  # since somebody rested
        self._line: deque[Party] = deque()
        self._posted: deque[Callable[[], object]] = deque()
        self._rang = threading.Event()  # somebody outside has posted or claimed
        self._watch = 0
        self.outsiders = Outsiders(patience)
        self.plain = 0  # how many plain threads have joined

    # -- the run ---------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether a run is on."""
        return self.first is not None

    def begin(self, name: str, watch: int = 0) -> Party:
        """Make this thread the first party, which has the turn. `watch`: who watches the run."""
        thread = threading.current_thread()
        self._watch = watch
        enlist(watch)
        self.outsiders.begin()
        self.failure = None
        self.plain = 0
        self.holder = self.first = party = Party(name, thread)
        self.parties = {}
        self._enter_book(party)
        return party

    def _enter_book(self, party: Party) -> None:
        self.parties[party.ident] = party
        enlist(party.ident)

    def end(self) -> list[str]:
        """End the run; the names of simulated threads that were still there, and were ended."""
        first = self.first
        assert first is not None
        self._take_back(first)
        others = [party for party in self.parties.values() if party is not first]
        left = [party for party in others if not party.plain and party.thread.is_alive()]
        for party in left:
            party.ending = True
            self._hand(party)
            first.gate.acquire(timeout=self.patience)
            self._take_back(first)
        with self.lock:
            self.first = self.holder = None
            waiting = [*self.claims, *self.parties.values()]
            self.claims.clear()
            self.parties = {}
        for ident in (self._watch, *(party.ident for party in waiting)):
            discharge(ident)
        self._line.clear()
        for party in waiting:
            party.ending = True
            _open(party.gate)
        return [party.name for party in left]

    def _take_back(self, first: Party) -> None:
        with self.lock:
            self.holder = first
        first.gate.acquire(blocking=False)
        first.woken = first.outside = False

    # -- whose turn ------------------------------------------------------------------------

    def enter(self) -> Party:
        """Make sure that this thread has the turn; it may have to wait for it in real time.

        Raises RuntimeError when no run is on, SimStalled when the run cannot go on.
        """
        holder = self.holder
        if holder is not None and holder.ident == get_ident():
            return holder
        return self._claim()

    @property
    def mine(self) -> bool:
        """Whether this thread has the turn."""
        holder = self.holder
        return holder is not None and holder.ident == get_ident()

    @property
    def unheld(self) -> bool:
        """Whether nobody has the turn: it was taken from whoever did nothing with it."""
        return self.holder is None

    def _claim(self) -> Party:
        with self.lock:
            if self.first is None:
                raise RuntimeError(
                    "this SimNet is not running; right: `with net.running():` around sync code, "
                    "`net.run(main)` for async code"
                )
            party = self.parties.get(get_ident())
            if party is None or party.thread is not threading.current_thread():
                party = self._adopt()
            self._check(party)
            if self.holder is None:
                self.holder = party
                party.outside = False
                return party
            self.claims.append(party)
        self._rang.set()
        self.on_claim()
        party.gate.acquire()
        party.outside = False
        self._check(party)
        return party

    def _adopt(self) -> Party:
        self.plain += 1
        party = Party(f"plain-{self.plain}", threading.current_thread(), plain=True)
        self._enter_book(party)
        return party

    def wake(self, party: Party) -> None:
        """Let a party that waits go on when its turn comes."""
        if not party.woken:
            party.woken = True
            self._line.append(party)

    def post(self, action: Callable[[], object]) -> None:
        """Have `action` run as soon as somebody passes the turn. Thread-safe; never blocks."""
        self._posted.append(action)
        self._rang.set()

    def park(self, party: Party, until: int | None) -> None:
        """Wait until somebody wakes `party` or the time has come; others have their turns."""
        self._check(party)
        self.outsiders.ran()
        self._breaths = 0
        timer = None
        if until is not None:
            timer = self.timeline.at(until, lambda: self.wake(party), "wait")
        party.parked = True
        try:
            while True:
                passed = self._pass(party)
                if self.failure is not None or party.ending:
                    self._check(party)
                if not passed:
                    self._advance()
                elif party.woken or party.polls:  # else it was given the turn to carry time on
                    break
        finally:
            self._unpark(party)
            if timer is not None:
                timer.cancel()

    def _unpark(self, party: Party) -> None:
        """It goes on; whoever gave it the turn, it is not in line for another one."""
        party.parked = party.woken = False
        if self._line and party in self._line:
            self._line.remove(party)

    def breathe(self, party: Party) -> None:
        """Let others have a turn at this instant.

        What else is due now happens when this one rests, as it does for threads: one thing at a
        time. One that does not rest for many rounds may be waiting for it.
        """
        self._breaths += 1
        if self._breaths > SPINS and self.timeline.next_at() == self.timeline.now:
            self._run_next()
        if self._line or self._posted or self.claims:
            self.wake(party)
            party.parked = True
            try:
                while not self._pass(party):
                    self._check(party)
            finally:
                self._unpark(party)
            self._check(party)

    def launch(self, work: Callable[[], object], name: str) -> Party:
        """Start a thread that has its first turn after those who are in line."""
        thread = threading.Thread(target=lambda: self._live(party, work), name=name, daemon=True)
        party = Party(name, thread)
        thread.start()
        party.ident = thread.ident or 0
        self._enter_book(party)
        self.wake(party)
        return party

    def _live(self, party: Party, work: Callable[[], object]) -> None:
        party.gate.acquire()
        party.woken = False
        try:
            if not party.ending:
                work()
        except (SimOver, SimStalled):
            return  # the run has ended; whoever began it is told
        finally:
            self._leave(party)

    def _leave(self, party: Party) -> None:
        """The thread ends: whoever is next goes on."""
        with self.lock:
            self.parties.pop(party.ident, None)
            discharge(party.ident)
            if self.holder is not party or self.first is None:
                return
        if party.ending:
            self._hand(self.first)
            return
        while not self._pass(party):
            self._advance()

    # -- passing it on ---------------------------------------------------------------------

    def _pass(self, party: Party) -> bool:
        """Let the next in line go, and wait for the next turn; False if nobody is in line."""
        self._admit()
        if not self._line:
            return False
        other = self._line.popleft()
        if other is not party:
            self._hand(other)
            if party.ident in self.parties:
                party.gate.acquire()
        return True

    def _hand(self, party: Party) -> None:
        with self.lock:
            self.holder = party
        self.passes += 1
        _open(party.gate)

    def next_after(self, victim: Party) -> Party | None:
        """Who is to have the turn when `victim` does nothing with it. Call with the lock."""
        for line in (self._line, self.claims):
            for one in tuple(line):
                if one is not victim:
                    line.remove(one)
                    return one
        parked = [one for one in self.parties.values() if one.parked and one is not victim]
        return parked[0] if parked else None

    def _admit(self) -> None:
        """Take in what came from outside."""
        if self._posted or self.claims:
            self._rang.clear()
            while self._posted:
                self._posted.popleft()()
            with self.lock:
                self._line.extend(self.claims)
                self.claims.clear()

    def _check(self, party: Party) -> None:
        if self.failure is not None:
            if party is self.first:
                raise self.failure.anew()
            raise SimOver
        if party.ending:
            raise SimOver

    # -- time ------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Everybody waits: let the next thing happen."""
        when = self.timeline.next_at()
        if when is None or when > self.timeline.now:
            if self.outsiders.may_work(len(self.parties), self.plain):
                if self._heed(forever=when is None):
                    return
            if when is None:
                self._stall("everybody waits, and nothing is going to happen")
                return
            if self.horizon is not None and when > self.horizon:
                self._stall("the longest time that a run may take has passed; everybody waits")
                return
        self._run_next()

    def _run_next(self) -> None:
        self.events += 1
        self.timeline.run_next()

    def _heed(self, *, forever: bool) -> bool:
        """Wait for threads outside that work; whether one of them has said something."""
        inside = {one.ident for one in self.parties.values() if not one.outside}
        heard, moved = self.outsiders.wait(inside, self.parties, self._heard, forever=forever)
        if heard:
            self._rang.clear()
            return True
        names = self.outsiders.names()
        if names:
            self._stall(f"{names}: busy, asleep or waiting in real time, for {self.patience:g} s")
            return True
        polling = [one for one in self.parties.values() if one.polls] if moved else []
        for party in polling:
            self.wake(party)
        return bool(polling)

    def _heard(self, seconds: float) -> bool:
        return self._rang.wait(seconds) or bool(self._posted or self.claims)

    def _stall(self, why: str) -> None:
        """Give up: the first party is told, and where everybody stands."""
        self.failure = SimStalled(self.told(why))
        first = self.first
        if first is not None and first is not self.holder and not first.woken:
            first.woken = True
            self._line.appendleft(first)

    def told(self, why: str, places: Mapping[Party, str] | None = None) -> str:
        """`why`, and where everybody stands; `places`: where that is known already."""
        lines = [f"{why} (at {self.timeline.now / 1e6:.6f} s of virtual time)"]
        for party in list(self.parties.values()):
            place = (places or {}).get(party) or place_of(party.ident)[1]
            lines += [f"  {party.name} stands at {place}"]
        lines += [f"  {line}" for line in self.describe()]
        return "\n".join(lines)


def _open(gate: threading.Lock) -> None:
    """Let whoever waits at a gate through, or be the next to; once."""
    try:
        gate.release()
    except RuntimeError:  # it stands open
        return


def _nothing() -> None:
    return
