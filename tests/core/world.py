"""A small world for races: a table says how each dial ends, a clock jumps from event to event.

Times are virtual and exact to the microsecond. A `Scenario` carries one race out as a driver
would and writes down what it did; several may share a clock and a bucket.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from outlast.core.budget import RedialBucket
from outlast.core.classify import ConnectFault
from outlast.core.race import (
    MAX_PASSED,
    Abandon,
    Bucket,
    Lost,
    Pause,
    Race,
    RacePlan,
    Resolve,
    Start,
)

MOST_AT_ONCE = 100  # lines of one trail at one moment

Trail = list[tuple[float, str]]


class Clock:
    """Runs what is due, in order; time stands still while it does."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, moment: float, action: Callable[[], None]) -> None:
        if moment < math.inf:
            heapq.heappush(self._queue, (moment, next(self._order), action))

    def run(self) -> None:
        while self._queue:
            moment, _, action = heapq.heappop(self._queue)
            assert moment >= self.now
            self.now = moment
            action()


@dataclass(frozen=True, slots=True)
class Path:
    """What a dial meets: `after` seconds it is connected, or ends with `fault`.

    A connected dial is usable `handshake` seconds later, or ends then with `broken`. `nowhere`: its
    local port is known to lead nowhere.
    """

    after: float = math.inf
    fault: ConnectFault | None = None
    handshake: float = 0.0
    broken: ConnectFault | None = None
    nowhere: bool = False


SILENT = Path()
NOWHERE = Path(nowhere=True)
REFUSED = Path(0.0, ConnectFault.REFUSED)
ANSWERS = Path(0.001)


@dataclass(frozen=True, slots=True)
class NoAddress:
    """A look-up that gives nothing; `passing`: the server may answer later."""

    passing: bool = False


class Bottomless:
    """A bucket for tests that are not about the bucket."""

    def take(self, now: float) -> bool:
        return True

    def won(self, taken: int, now: float) -> None:
        """Nothing to give back."""


class Empty(Bottomless):
    """A bucket that was empty before and stays so."""

    def take(self, now: float) -> bool:
        return False


class Counted:
    """A bucket that counts what is taken and what comes back."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.taken = 0
        self.returned = 0

    def take(self, now: float) -> bool:
        granted = self.bucket.take(now)
        self.taken += granted
        return granted

    def won(self, taken: int, now: float) -> None:
        self.returned += taken
        self.bucket.won(taken, now)


class Limited(Bottomless):
    """A bucket with so many dials and no more."""

    def __init__(self, dials: int) -> None:
        self.left = dials

    def take(self, now: float) -> bool:
        self.left -= 1
        return self.left >= 0


class Scenario:
    """One race: `table` maps an address to its path, or to one path per dial (the last stays).

    `answers`: what the look-ups give, one after the other (the last stays), each `lookup_takes`
    seconds after it was asked for.
    """

    def __init__(
        self,
        table: Mapping[str, Path | Sequence[Path]],
        plan: RacePlan,
        *,
        addresses: Sequence[str] | None = None,
        answers: Sequence[Sequence[str] | NoAddress] = (),
        lookup_takes: float = 0.0,
        bucket: Bucket | None = None,
        clock: Clock | None = None,
        refused: Callable[[str, float], bool] = lambda *_: False,
        spare: Sequence[str] = (),
    ) -> None:
        self.table = table
        self.answers = list(answers)
        self.lookup_takes = lookup_takes
        self.clock = Clock() if clock is None else clock
        given = () if plan.lookups else tuple(table)
        self.race = Race(
            plan,
            Bottomless() if bucket is None else bucket,
            given if addresses is None else addresses,
            refused,
            spare,
        )
        self.trail: Trail = []
        self.open: dict[int, str] = {}
        self.most_open = 0
        self.dials = 0
        self.ended: str | None = None
        self.ended_at = math.nan
        self._per_address: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._turn = 0
        self.clock.at(self.clock.now, self._step)

    # -- what the tests read ---------------------------------------------------------------

    def only(self, *words: str) -> Trail:
        """The lines of the trail that begin with one of `words`."""
        return [line for line in self.trail if line[1].split()[0] in words]

    def dialled(self) -> list[float]:
        """When each dial began."""
        return [moment for moment, _ in self.only("dial")]

    # -- carrying out ----------------------------------------------------------------------

    def run(self) -> Scenario:
        self.clock.run()
        assert self.ended is not None
        assert not self.open
        return self

    def _note(self, text: str) -> None:
        """A busy loop shows as a trail that grows while time stands still."""
        moment = round(self.clock.now, 6)
        self.trail.append((moment, text))
        assert self.trail[-MOST_AT_ONCE:][0][0] < moment or len(self.trail) < MOST_AT_ONCE

    def _step(self) -> None:
        """Obey until the machine pauses; it may not keep us busy."""
        self._turn += 1
        for _ in range(len(self.open) + 6 + MAX_PASSED):
            step = self.race.step(self.clock.now)
            if isinstance(step, Pause):
                assert step.until > self.clock.now
                self.clock.at(step.until, functools.partial(self._wake, self._turn))
                return
            if isinstance(step, Lost):
                self._end("lost, timed out" if step.timed_out else "lost")
                return
            if isinstance(step, Start):
                self._dial(step)
            elif isinstance(step, Abandon):
                self._note(f"drop {self._names[step.dial]}")
                del self.open[step.dial]
            else:
                self._look_up(step)
        raise AssertionError(f"the race does not pause: {self.trail[-10:]}")

    def _wake(self, turn: int) -> None:
        if turn == self._turn and self.ended is None:
            self._step()

    def _end(self, how: str) -> None:
        self._note(how)
        self.ended, self.ended_at = how, round(self.clock.now, 6)

    def _dial(self, step: Start[str]) -> None:
        address = step.address
        nth = self._per_address.get(address, 0)
        self._per_address[address] = nth + 1
        assert step.dial == self.dials
        self.dials += 1
        self._names[step.dial] = f"{address}#{nth}"
        self._note(f"dial {address}#{nth}")
        self.open[step.dial] = address
        self.most_open = max(self.most_open, len(self.open))
        paths = self.table[address]
        path = paths if isinstance(paths, Path) else paths[min(nth, len(paths) - 1)]
        if path.nowhere and self.race.passed_over(step.dial):
            self._note(f"pass {address}#{nth}")
            del self.open[step.dial]
            return
        self.clock.at(self.clock.now + path.after, lambda: self._met(step.dial, path))

    def _met(self, dial: int, path: Path) -> None:
        if dial not in self.open:
            return
        if path.fault is not None:
            self._failed(dial, path.fault)
        elif path.handshake or path.broken:
            self.race.connected(dial, self.clock.now)
            self.clock.at(self.clock.now + path.handshake, lambda: self._shaken(dial, path))
            self._step()
        else:
            self._won(dial)

    def _shaken(self, dial: int, path: Path) -> None:
        if dial not in self.open:
            return
        if path.broken is not None:
            self._failed(dial, path.broken)
        else:
            self._won(dial)

    def _failed(self, dial: int, fault: ConnectFault) -> None:
        self._note(f"fail {self._names[dial]}")
        del self.open[dial]
        self.race.failed(dial, fault)
        self._step()

    def _won(self, dial: int) -> None:
        losers = self.race.won(dial, self.clock.now)
        del self.open[dial]
        assert sorted(losers) == sorted(self.open)
        self.open.clear()
        self._end(f"won {self._names[dial]}")

    def _look_up(self, step: Resolve) -> None:
        self._note("look up")
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        self.clock.at(self.clock.now + self.lookup_takes, lambda: self._looked_up(answer))

    def _looked_up(self, answer: Sequence[str] | NoAddress) -> None:
        if self.ended is not None:
            return
        if isinstance(answer, NoAddress):
            self.race.lookup_failed(self.clock.now, passing=answer.passing)
        else:
            self.race.resolved(answer, self.clock.now)
        self._step()


def plan(
    *,
    delay: float = 0.25,
    patience: float = 0.5,
    deadline: float = 5.0,
    max_open: int = 4,
    lookups: bool = False,
    known: bool = False,
    later_delay: float | None = None,
    lately: bool = False,
) -> RacePlan:
    """A plan for addresses without a name, unless said otherwise."""
    return RacePlan(delay, patience, deadline, max_open, lookups, known, later_delay, lately)


def race(table: Mapping[str, Path | Sequence[Path]], bucket: Bucket | None = None) -> Scenario:
    """The usual race of the table's addresses, run to its end."""
    return Scenario(table, plan(), bucket=bucket).run()


def drained(now: float = 0.0) -> RedialBucket:
    """A target's bucket from which everything has been taken."""
    bucket = RedialBucket(now)
    while bucket.take(now):
        pass
    return bucket
