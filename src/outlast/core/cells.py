"""The lists that endpoints stand in: joining, leaving and choosing cost the same at any length.

Two kinds, by what a strategy asks of them:

* `Urn`: by weight. Weights are sorted into classes between two powers of two, so that within a
  class evenly is nearly right: one of a class is kept with the chance weight / upper bound, which
  is at least a half (`draw`), or passed by until such parts of its turns have added up to one
  (`turn`). Costs as many steps as there are classes (20 from 0.001 to 1,000), and nothing extra
  where all weights are equal. An alias table (Walker, Vose) draws as fast, and a heap of deadlines
  (EDF, as Envoy's) takes turns; but the one is built anew whenever an endpoint goes or comes, and
  the other costs more with every endpoint.
* `Ranks`: a heap by a rank that does not move, best first.

Refuses to know why an endpoint stands where it stands.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush
from math import frexp, ldexp
from random import Random
from typing import Generic

from outlast.core.endpoint import Cell, Endpoint, K

__all__ = ["Entry", "Ranks", "Urn", "by_rank", "draw"]

SLACK = 16  # stale entries that a heap may keep, beside as many as are valid
LOOKS = 64  # and one lap, until a turn goes to one that has saved up too little for it


class _Class(Generic[K]):
    """Endpoints whose weights lie between half of `bound` and `bound`."""

    __slots__ = ("at", "bound", "credit", "items", "total")

    def __init__(self, bound: float) -> None:
        self.bound = bound
        self.items: list[Endpoint[K]] = []
        self.total = 0.0  # of the weights
        self.credit = 0.0  # turns that the class is owed, less those it had
        self.at = 0  # the next one to look at

    def turn(self, avoid: Collection[K], now: float) -> Endpoint[K] | None:
        """Whose turn it is; None where all are in `avoid`."""
        items, bound = self.items, self.bound
        allowed = None
        for _ in range(LOOKS + len(items)):
            if self.at >= len(items):
                self.at = 0
            endpoint = items[self.at]
            self.at += 1
            if endpoint.key in avoid:
                continue
            allowed = endpoint
            part = endpoint.member.weight / bound * endpoint.part(now)
            if part >= 1.0:
                return endpoint
            endpoint.credit += part
            if endpoint.credit >= 1.0:
                endpoint.credit -= 1.0
                return endpoint
        return allowed


class Urn(Cell[K]):
    """Drawn from by chance or in turn, in proportion to weight."""

    __slots__ = ("_classes", "_weights", "table", "whole")

    def __init__(self) -> None:
        super().__init__()
        self._classes: dict[int, _Class[K]] = {}  # by the exponent of the upper bound
        self._weights: dict[float, int] = {}  # how many have which weight
        # For draws: a class's bound, its members, and the product of both, as wide as it is drawn.
        self.table: list[tuple[float, list[Endpoint[K]], float]] = []
        self.whole = 0.0  # of these products

    @property
    def even(self) -> bool:
        """Whether all weights are the same."""
        return len(self._weights) < 2

    def add(self, endpoint: Endpoint[K], rng: Random) -> None:
        """Let an endpoint in; its turn comes by chance sooner or later, lest all clients begin
        with the same."""
        super().add(endpoint, rng)
        weight = endpoint.member.weight
        exponent = _exponent(weight)
        same = self._classes.get(exponent)
        if same is None:
            same = self._classes[exponent] = _Class(ldexp(1.0, exponent))
        # Inside-out shuffle: the new one takes a place by chance, whose owner goes to the end.
        place = int(rng.random() * (len(same.items) + 1))
        endpoint.class_at = place
        if place < len(same.items):
            moved = same.items[place]
            moved.class_at = len(same.items)
            same.items.append(moved)
            same.items[place] = endpoint
        else:
            same.items.append(endpoint)
        endpoint.credit = rng.random()
        same.total += weight
        self._weights[weight] = self._weights.get(weight, 0) + 1
        self._measure()

    def remove(self, endpoint: Endpoint[K]) -> None:
        """Let an endpoint out."""
        super().remove(endpoint)
        weight = endpoint.member.weight
        exponent = _exponent(weight)
        same = self._classes[exponent]
        last = same.items.pop()
        if last is not endpoint:
            same.items[endpoint.class_at] = last
            last.class_at = endpoint.class_at
        same.total -= weight
        if not same.items:
            del self._classes[exponent]
        self._weights[weight] -= 1
        if not self._weights[weight]:
            del self._weights[weight]
        self._measure()

    def _measure(self) -> None:
        self.table = [
            (same.bound, same.items, same.bound * len(same.items))
            for same in self._classes.values()
        ]
        self.whole = sum(entry[2] for entry in self.table)

    def turn(self, avoid: Collection[K], now: float) -> Endpoint[K] | None:
        """Whose turn it is; None where all are in `avoid`.

        Classes take turns by nginx's smooth weighted round robin, each as one of its weight.
        """
        classes = list(self._classes.values())
        if len(classes) > 1:
            for same in classes:
                same.credit += same.total
            classes.sort(key=_credit, reverse=True)
            classes[0].credit -= self.total
        for same in classes:
            endpoint = same.turn(avoid, now)
            if endpoint is not None:
                return endpoint
        return None


def _credit(same: _Class[K]) -> float:
    return same.credit


def _exponent(weight: float) -> int:
    """The exponent of the least power of two that is not below `weight`."""
    mantissa, exponent = frexp(weight)
    return exponent - 1 if mantissa == 0.5 else exponent


def draw(urns: Sequence[Urn[K]], rng: Random) -> Endpoint[K]:
    """One endpoint of all `urns`, in proportion to weight; there is one at least."""
    urn = urns[0]
    whole, table = urn.whole, urn.table
    if len(urns) > 1:
        whole = sum(urn.whole for urn in urns)
        table = [entry for urn in urns for entry in urn.table]
    elif urn.even:
        return urn.items[int(rng.random() * len(urn.items))]
    chance = rng.random
    while True:  # every second round succeeds, or more of them
        point = chance() * whole
        for bound, items, size in table:
            if point < size:
                at = point / bound
                endpoint = items[int(at)]
                if (at % 1.0) * bound < endpoint.member.weight:
                    return endpoint
                break
            point -= size


Entry = tuple[float, int, int, Endpoint[K]]  # rank, minor rank, ticket, whose


def by_rank(entry: Entry[K]) -> tuple[float, int]:
    """To compare entries of several heaps, whose tickets mean nothing to each other."""
    return entry[0], entry[1]


class _Heap(Cell[K]):
    """Endpoints with a rank each, the least first. Entries of those that left are swept later."""

    __slots__ = ("_entries", "_tickets")

    def __init__(self) -> None:
        super().__init__()
        self._entries: list[Entry[K]] = []
        self._tickets = 0

    def remove(self, endpoint: Endpoint[K]) -> None:
        """Let an endpoint out."""
        super().remove(endpoint)
        if len(self._entries) > 2 * len(self.items) + SLACK:
            self._entries = [entry for entry in self._entries if self._valid(entry)]
            heapify(self._entries)

    def best(self, avoid: Collection[K]) -> Entry[K] | None:
        """The entry of the least rank whose endpoint is not in `avoid`; it stays."""
        entries = self._entries
        aside = []
        found = None
        while entries:
            entry = entries[0]
            if not self._valid(entry):
                heappop(entries)
            elif entry[3].key in avoid:
                aside.append(heappop(entries))
            else:
                found = entry
                break
        for entry in aside:
            heappush(entries, entry)
        return found

    def _entry(self, rank: float, minor: int, endpoint: Endpoint[K]) -> Entry[K]:
        """A new entry, which is the valid one from now on."""
        self._tickets += 1
        endpoint.ticket = self._tickets
        return rank, minor, self._tickets, endpoint

    def _valid(self, entry: Entry[K]) -> bool:
        endpoint = entry[3]
        return endpoint.cell is self and endpoint.ticket == entry[2]


class Ranks(_Heap[K]):
    """The heaviest first, then as the resolver named them; or the one that answered last first."""

    __slots__ = ("_by_success",)

    def __init__(self, *, by_success: bool = False) -> None:
        super().__init__()
        self._by_success = by_success

    def add(self, endpoint: Endpoint[K], rng: Random) -> None:
        """Let an endpoint in."""
        super().add(endpoint, rng)
        rank, minor = self.rank(endpoint)
        heappush(self._entries, self._entry(rank, minor, endpoint))

    def rank(self, endpoint: Endpoint[K]) -> tuple[float, int]:
        """The lower the better. It must not change while the endpoint stands here."""
        if self._by_success:
            return -endpoint.health.last_success, endpoint.position
        return -endpoint.member.weight, endpoint.position
