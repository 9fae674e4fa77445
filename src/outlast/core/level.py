"""One priority level of a target: which of its endpoints are open to a request.

Every endpoint stands in one list, by its health and by whether it is in our own zone:

* fit: in. * answering: out, or in its trial, on answers alone. * dead: out on evidence of death.
* ripe: out, its time has come, and nobody tries it yet.

Open are those that are fit; in our own zone alone as long as half of those known there are fit
(then nothing beyond the zone is used, however far it is from carrying everything: give endpoints
no zone where that is not wanted); in panic also those that are answering. The dead never are:
`core.roster` comes to them when there is nobody else. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from random import Random
from typing import Generic

from outlast.core.cells import Ranks
from outlast.core.choice import Choice
from outlast.core.endpoint import Cell, Endpoint, K, Why
from outlast.core.hashing import Table
from outlast.core.health import Evidence, Standing
from outlast.core.priority import Count, Share

__all__ = ["Group", "Level"]


class Group(Enum):
    """Whose lists they are, best first."""

    FIT = 0
    RIPE = 1
    ANSWERING = 2


ZONE_HALF = 2  # our own zone is enough while one in two of its endpoints is fit


class _Side(Generic[K]):
    """Those of our own zone, or those of all others."""

    __slots__ = ("answering", "fit", "known", "ripe")

    def __init__(self, choice: Choice[K]) -> None:
        self.known = 0  # wherever they stand
        self.fit = choice.cell()
        self.answering = choice.cell()
        self.ripe = choice.cell()
        self.ripe.ripe = True


class Level(Generic[K]):
    """The endpoints of one priority."""

    __slots__ = (
        *("_far", "_near", "_zone", "dead", "first", "open", "ordinary", "priority", "share"),
        *("table", "trials"),
    )

    def __init__(self, priority: int, choice: Choice[K], zone: str) -> None:
        self.priority = priority
        self._zone = zone
        self._near = _Side(choice)
        self._far = _Side(choice)
        self.dead: Ranks[K] = Ranks(by_success=True)
        self.share = Share(1.0, panic=False)
        self.first = True  # no other level comes before this one
        self.ordinary = True  # whoever is chosen here is simply the strategy's choice
        self.open: list[Cell[K]] = []  # to choose from, none empty
        self.trials: list[Cell[K]] = []  # those that are due, none empty
        self.table: Table[K] | None = None  # of all endpoints, for consistent hashing

    def __len__(self) -> int:
        return self._near.known + self._far.known

    def __iter__(self) -> Iterator[Endpoint[K]]:
        for cell in self.cells():
            yield from cell

    def cells(self) -> Iterator[Cell[K]]:
        """All lists: first who is fit, then who answers, then who is due, then the dead."""
        yield from (self._near.fit, self._far.fit)
        yield from (self._near.answering, self._far.answering)
        yield from (self._near.ripe, self._far.ripe, self.dead)

    def of(self, group: Group) -> list[Cell[K]]:
        """The lists of one group, without empty ones."""
        sides = (self._near, self._far)
        if group is Group.FIT:
            cells = [side.fit for side in sides]
        elif group is Group.RIPE:
            cells = [side.ripe for side in sides]
        else:
            cells = [side.answering for side in sides]
        return [cell for cell in cells if cell]

    # -- coming and going ------------------------------------------------------------------

    def join(self, endpoint: Endpoint[K], rng: Random) -> None:
        """An endpoint is of this level from now on."""
        self._side(endpoint).known += 1
        self.place(endpoint).add(endpoint, rng)
        self.table = None

    def leave(self, endpoint: Endpoint[K]) -> None:
        """An endpoint is no longer of this level; its member is still what it was here."""
        self._side(endpoint).known -= 1
        assert endpoint.cell is not None
        endpoint.cell.remove(endpoint)
        self.table = None

    def place(self, endpoint: Endpoint[K], *, ripe: bool = False) -> Cell[K]:
        """Where an endpoint belongs by its health; `ripe`: its time has come."""
        side = self._side(endpoint)
        health = endpoint.health
        if health.standing is Standing.IN:
            return side.fit
        if ripe:
            return side.ripe
        return self.dead if health.evidence is Evidence.DEATH else side.answering

    def _side(self, endpoint: Endpoint[K]) -> _Side[K]:
        # Without a zone of our own everything is near.
        near = not self._zone or endpoint.member.zone == self._zone
        return self._near if near else self._far

    # -- what is open ----------------------------------------------------------------------

    def count(self) -> Count:
        """What `core.priority` wants to know. Those that are due can be chosen: for a trial."""
        sides = (self._near, self._far)
        return Count(
            total=len(self),
            fit=sum(len(side.fit) for side in sides),
            answering=sum(len(side.answering) + len(side.ripe) for side in sides),
        )

    def review(self, share: Share, *, first: bool) -> None:
        """Open and close the lists, after endpoints have moved."""
        self.share, self.first = share, first
        for cell in self.cells():
            cell.open = False
        near, far = self._near, self._far
        at_home = near.known > 0 and ZONE_HALF * len(near.fit) >= near.known
        sides = [near] if at_home else [near, far]
        cells = [side.fit for side in sides]
        self.ordinary = first
        if share.panic and not (at_home and far.known):
            cells += [side.answering for side in sides]
            self.ordinary = False
        self.open = [cell for cell in cells if cell]
        self.trials = [side.ripe for side in sides if side.ripe]
        for cell in (*self.open, *self.trials):
            cell.open = True

    def why(self, cell: Cell[K]) -> Why:
        """Why one of `cell` is picked."""
        if cell is not self._near.fit and cell is not self._far.fit:
            return Why.PANIC
        return Why.BALANCE if self.first else Why.SPILL_OVER
