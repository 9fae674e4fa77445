"""Who serves the next request: all endpoints of one target, by priority, zone, health and load.

`pick` goes from the outside in: the level (`core.priority`), a trial that is due, then the
strategy's choice (`core.balance`) among those that are open (`core.level`). Where that finds
nobody, out is last, not gone (DESIGN section 6), in this order: who is in elsewhere; a trial that
is due; who is out on answers; one that was to be avoided; the dead, by turns with who answered
last.

A pick looks at two endpoints, or as many as are to be avoided, at any number of endpoints; a
change of one endpoint's health moves one entry. Only `resolved` goes through all of them, and the
first consistent hash after it builds its table.

Pure: told `now`, given its random generator. Not thread-safe: one lock per target covers it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Generic

from outlast.core.balance import Balance, ConsistentHash, choice_of, table_of
from outlast.core.cells import SLACK, by_rank
from outlast.core.choice import Choice
from outlast.core.endpoint import Cell, Endpoint, K, Member, Pick, Why
from outlast.core.hashing import Table, digest, find
from outlast.core.health import HealthPlan, Standing
from outlast.core.level import Group, Level
from outlast.core.order import dial_order
from outlast.core.priority import spread

__all__ = ["Endpoint", "Member", "Pick", "Roster", "Why"]

WHOLE = float(1 << 64)  # of the numbers that stand for keys


class Roster(Generic[K]):
    """The endpoints of one target.

    `plan`: what ejects and returns them. `zone`: our own, whose endpoints are preferred; "": none
    is. `panic`: the share of a level below which those out on answers serve again; 0.0: never.
    ValueError where it is not a share.
    """

    def __init__(
        self,
        balance: Balance,
        plan: HealthPlan,
        rng: Random,
        *,
        zone: str = "",
        panic: float = 0.5,
    ) -> None:
        if not 0.0 <= panic <= 1.0:
            raise ValueError(f"panic {panic!r}: the share of a level, from 0.0 to 1.0, such as 0.5")
        self._balance = balance
        self._plan = plan
        self._rng = rng
        self._zone = zone
        self._threshold = panic
        self._choice: Choice[K] = choice_of(balance)
        self._endpoints: dict[K, Endpoint[K]] = {}
        self._levels: list[Level[K]] = []  # by priority
        self._by_priority: dict[int, Level[K]] = {}
        self._due: list[tuple[float, int, Endpoint[K]]] = []  # when trials come; stale ones too
        self._tickets = count()
        self._stale = True  # endpoints have moved since the levels were reviewed
        self._sole: Level[K] | None = None  # the level that gets everything, if one does
        self._ripe = False  # whether a trial is due in a level that is in use
        self._ripened = -inf  # when that was last looked at
        self._turn = 0  # picks where all were dead

    def __len__(self) -> int:
        return len(self._endpoints)

    def __iter__(self) -> Iterator[Endpoint[K]]:
        return iter(self._endpoints.values())

    def get(self, key: K) -> Endpoint[K] | None:
        """The endpoint of that key; None where the target has none."""
        return self._endpoints.get(key)

    @property
    def panic(self) -> bool:
        """Whether so few are in that those out on answers serve again."""
        if self._stale:
            self._review()
        return any(level.share.panic for level in self._levels)

    # -- who there is ----------------------------------------------------------------------

    def resolved(
        self, members: Sequence[Member[K]], now: float
    ) -> tuple[tuple[K, ...], tuple[K, ...]]:
        """The target has these endpoints now; returns the keys that joined and those that left.

        What is known of those that stay is kept, and is true of the others no more. Of two members
        with one key the first counts.
        """
        fresh: dict[K, Member[K]] = {}
        for member in members:
            fresh.setdefault(member.key, member)
        left = tuple(key for key in self._endpoints if key not in fresh)
        joined = tuple(key for key in fresh if key not in self._endpoints)
        for key in left:
            self._leave(self._endpoints[key])
        known = self._endpoints
        self._endpoints = {}
        for position, (key, member) in enumerate(fresh.items()):
            endpoint = known.get(key)
            if endpoint is None:
                endpoint = Endpoint(member, self._plan, position)
                self._join(endpoint)
            elif endpoint.member != member or endpoint.position != position:
                self._renamed(endpoint, member, position)
            self._endpoints[key] = endpoint
        self._levels = sorted(
            (level for level in self._levels if len(level)), key=lambda level: level.priority
        )
        self._by_priority = {level.priority: level for level in self._levels}
        self._ripen(now)
        self._stale = True
        return joined, left

    def _join(self, endpoint: Endpoint[K]) -> None:
        priority = endpoint.member.priority
        level = self._by_priority.get(priority)
        if level is None:
            level = self._by_priority[priority] = Level(priority, self._choice, self._zone)
            self._levels.append(level)
        level.join(endpoint, self._rng)
        endpoint.due_at = -inf  # whatever was put down may have been taken off already
        self._expect(endpoint)

    def _leave(self, endpoint: Endpoint[K]) -> None:
        self._by_priority[endpoint.member.priority].leave(endpoint)

    def _renamed(self, endpoint: Endpoint[K], member: Member[K], position: int) -> None:
        """What discovery says of it has changed."""
        moved = endpoint.member != member or self._choice.ordered
        if moved:
            self._leave(endpoint)
        endpoint.member, endpoint.position = member, position
        if moved:
            self._join(endpoint)

    def changed(self, endpoint: Endpoint[K]) -> None:
        """Its health may have changed: to be called after every call of its `Health`."""
        cell = endpoint.cell
        if cell is None:
            return  # it has left the target
        ripe = cell.ripe and endpoint.health.until <= self._ripened
        self._move(endpoint, cell, ripe=ripe)
        self._expect(endpoint)

    def _move(self, endpoint: Endpoint[K], cell: Cell[K], *, ripe: bool) -> None:
        place = self._by_priority[endpoint.member.priority].place(endpoint, ripe=ripe)
        if place is cell:
            return
        cell.remove(endpoint)
        health = endpoint.health
        # What it was before says nothing of what it is now; slow start keeps it from a rush.
        endpoint.warming = health.standing is Standing.IN and health.full_at > -inf
        if endpoint.warming:
            endpoint.load.forget()
        place.add(endpoint, self._rng)
        self._stale = True

    def _expect(self, endpoint: Endpoint[K]) -> None:
        """Put down when its trial is due."""
        health = endpoint.health
        if health.standing is not Standing.IN and health.until not in (endpoint.due_at, inf):
            endpoint.due_at = health.until
            heappush(self._due, (health.until, next(self._tickets), endpoint))
            if len(self._due) > 2 * len(self._endpoints) + SLACK:
                self._sweep()

    def _sweep(self) -> None:
        """Where nobody picks, as of an only endpoint, nobody takes stale entries off."""
        self._due = [
            entry
            for entry in self._due
            if entry[2].cell is not None and entry[0] == entry[2].due_at
        ]
        heapify(self._due)

    def _ripen(self, now: float) -> None:
        """Those whose time has come may have their trial."""
        self._ripened = max(self._ripened, now)  # threads may come with older clocks
        while self._due and self._due[0][0] <= now:
            endpoint = heappop(self._due)[2]
            if endpoint.cell is not None and endpoint.health.due(now):
                self._move(endpoint, endpoint.cell, ripe=True)

    def _review(self) -> None:
        """Endpoints have moved: what each level gets, and who is open there."""
        shares = spread([level.count() for level in self._levels], self._threshold)
        used = True
        self._sole = None
        self._ripe = False
        left = 1.0
        for at, (level, share) in enumerate(zip(self._levels, shares, strict=True)):
            level.review(share, first=at == 0)
            if share.load >= 1.0:
                self._sole = level
            # A trial below the levels in use would answer a question that nobody asks.
            self._ripe = self._ripe or (used and bool(level.trials))
            left -= share.load
            used = left > 0.0
        self._stale = False

    # -- who serves ------------------------------------------------------------------------

    def pick(
        self,
        now: float,
        rng: Random,
        *,
        avoid: Collection[K] = (),
        hashed: bytes | None = None,
    ) -> Pick[K] | None:
        """Who serves a request; None only where the target has no endpoint.

        `avoid`: keys that this call has tried already; one of them is picked only where nobody
        else could serve. `hashed`: the key of a `ConsistentHash`, which others do not look at.
        """
        if self._due and self._due[0][0] <= now:
            self._ripen(now)
        if self._stale:
            self._review()
        level = self._sole
        if level is not None and hashed is None and not self._ripe:
            endpoint = self._choice.choose(level.open, now, rng, avoid)
            if endpoint is not None:
                return endpoint.plain if level.ordinary else self._picked(endpoint, level, now)
        return self._pick(now, rng, avoid, hashed)

    def _pick(
        self, now: float, rng: Random, avoid: Collection[K], hashed: bytes | None
    ) -> Pick[K] | None:
        """The same with several levels, trials and hashes."""
        number = None
        if hashed is not None and isinstance(self._balance, ConsistentHash):
            number = digest(hashed)
        at = self._drawn(rng, number)
        if at is None:
            return self._last_resort(now, rng, avoid, hashed)
        for above in self._levels[:at]:
            endpoint = self._choice.choose(above.trials, now, rng, avoid)
            if endpoint is not None:
                return self._picked(endpoint, above, now)
        level = self._levels[at]
        if number is not None:
            endpoint = find(self._table(level), number, level.open, now, avoid)
        elif self._choice.ordered:
            endpoint = self._choice.choose([*level.trials, *level.open], now, rng, avoid)
        else:
            endpoint = self._choice.choose(level.trials, now, rng, avoid)
            endpoint = endpoint or self._choice.choose(level.open, now, rng, avoid)
        if endpoint is None:
            return self._last_resort(now, rng, avoid, hashed)
        return self._picked(endpoint, level, now)

    def _drawn(self, rng: Random, number: int | None) -> int | None:
        """Which level serves: by chance, or always the same for the same key."""
        point = rng.random() if number is None else number / WHOLE
        last = None
        for at, level in enumerate(self._levels):
            if level.share.load > 0.0:
                last = at
                point -= level.share.load
                if point < 0.0:
                    break
        return last

    def _table(self, level: Level[K]) -> Table[K]:
        if level.table is None:
            assert isinstance(self._balance, ConsistentHash)
            level.table = table_of(self._balance, level)
        return level.table

    def _picked(
        self, endpoint: Endpoint[K], level: Level[K], now: float, why: Why | None = None
    ) -> Pick[K]:
        cell = endpoint.cell
        assert cell is not None
        if not cell.ripe:
            return Pick(endpoint, why or level.why(cell), trial=False)
        # Another thread may have read the clock later, and come first.
        endpoint.health.try_out(max(now, self._ripened))
        self.changed(endpoint)
        return Pick(endpoint, Why.TRIAL, trial=True)

    def _last_resort(
        self, now: float, rng: Random, avoid: Collection[K], hashed: bytes | None
    ) -> Pick[K] | None:
        """Nobody is open, or those that are shall be avoided."""
        others = False
        for group in Group:
            for level in self._levels:
                cells = level.of(group)
                others = others or (group is not Group.RIPE and bool(cells))
                endpoint = self._choice.choose(cells, now, rng, avoid)
                if endpoint is not None:
                    why = Why.LAST_RESORT if group is Group.ANSWERING else None
                    return self._picked(endpoint, level, now, why)
        # One that has just failed is better than one that has not lived for a while.
        pick = None if others else self._dead(avoid)
        if pick is None and avoid and self._endpoints:
            again = self.pick(now, rng, hashed=hashed)
            assert again is not None
            return Pick(again.endpoint, Why.NO_OTHER, trial=again.trial)
        return pick

    def _dead(self, avoid: Collection[K]) -> Pick[K] | None:
        """Of the dead, the one that answered last; every second time another, one after the other.
        Calls that wait together in an outage dial in step, and the one that has come back shall
        not be found only when the turn of all of them has come to it."""
        entries = [entry for level in self._levels if (entry := level.dead.best(avoid))]
        if not entries:
            return None
        self._turn += 1
        dead = self._in_turn() if self._turn % 2 == 0 else None
        if dead is None or dead.key in avoid:
            dead = min(entries, key=by_rank)[3]
        return Pick(dead, Why.LAST_RESORT, trial=False)

    def _in_turn(self) -> Endpoint[K]:
        """One of the dead, of which there are some."""
        crowds = [level.dead for level in self._levels if level.dead]
        at = self._turn // 2 % sum(map(len, crowds))
        while at >= len(crowds[0]):
            at -= len(crowds.pop(0))
        return crowds[0].items[at]

    # -- whom a dial tries -----------------------------------------------------------------

    def order(self, now: float, rng: Random, first: K, *, most: int = 100) -> list[K]:
        """Whom a race of dials tries: `first`; those open, the better ones sooner; others that
        are in; those due; those out on answers; the dead, who answered last first.

        At most `most` keys; of more than that a part drawn by chance.
        """
        if self._stale:
            self._review()
        return dial_order(self._levels, self._choice, now, rng, first, most)
