"""The lists that endpoints stand in: joining, leaving and choosing cost the same at any length.

Three kinds, by what a strategy asks of them:

* `Urn`: drawn from at random, in proportion to weight. Weights are sorted into classes between
  two powers of two; a class is drawn by its size, a member of it evenly, and kept with the
  probability weight / class bound, which is at least a half. Costs as many steps as there are
  classes (20 from 0.001 to 1,000), and nothing extra where all weights are equal. An alias table
  (Walker, Vose) draws as fast, but is built anew whenever one endpoint goes or comes.
* `Turns`: a heap of deadlines, earliest first (as Envoy's EDF scheduler for weighted round robin).
* `Ranks`: a heap by a rank that does not move, best first.

The heaps cost the logarithm of their length, in C: no endpoint beside the best is looked at.
Refuses to know why an endpoint stands where it stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import frexp, ldexp
from random import Random

from outlast.core.endpoint import Cell, Endpoint, K

__all__ = ["Entry", "Ranks", "Turns", "Urn", "by_rank", "draw"]

SLACK = 16  # stale entries that a heap may keep, beside as many as are valid


class Urn(Cell[K]):
    """Drawn from in proportion to weight."""

    __slots__ = ("_classes", "_weights")

    def __init__(self) -> None:
        super().__init__()
        self._classes: dict[int, list[Endpoint[K]]] = {}  # by the exponent of the upper bound
        self._weights: dict[float, int] = {}  # how many have which weight

    @property
    def even(self) -> bool:
        """Whether all weights are the same."""
        return len(self._weights) < 2

    def add(self, endpoint: Endpoint[K], rng: Random) -> None:
        """Let an endpoint in."""
        super().add(endpoint, rng)
        weight = endpoint.member.weight
        same = self._classes.setdefault(_class(weight), [])
        endpoint.class_at = len(same)
        same.append(endpoint)
        self._weights[weight] = self._weights.get(weight, 0) + 1

    def remove(self, endpoint: Endpoint[K]) -> None:
        """Let an endpoint out."""
        super().remove(endpoint)
        weight = endpoint.member.weight
        same = self._classes[_class(weight)]
        last = same.pop()
        if last is not endpoint:
            same[endpoint.class_at] = last
            last.class_at = endpoint.class_at
        elif not same:
            del self._classes[_class(weight)]
        self._weights[weight] -= 1
        if not self._weights[weight]:
            del self._weights[weight]

    def classes(self) -> Iterator[tuple[float, list[Endpoint[K]]]]:
        """Upper bounds of the classes, and who is in them."""
        for exponent, same in self._classes.items():
            yield ldexp(1.0, exponent), same


def _class(weight: float) -> int:
    """The exponent of the least power of two that is not below `weight`."""
    mantissa, exponent = frexp(weight)
    return exponent - 1 if mantissa == 0.5 else exponent


def draw(urns: Sequence[Urn[K]], rng: Random) -> Endpoint[K]:
    """One endpoint of all `urns`, in proportion to weight; there is one at least."""
    if len(urns) == 1 and urns[0].even:
        items = urns[0].items
        return items[int(rng.random() * len(items))]
    classes = [entry for urn in urns for entry in urn.classes()]
    whole = sum(bound * len(same) for bound, same in classes)
    while True:  # every second round succeeds, or more of them
        point = rng.random() * whole
        for bound, same in classes:
            size = bound * len(same)
            if point < size:
                endpoint = same[int(point / bound)]
                if point % bound < endpoint.member.weight:
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


class Turns(_Heap[K]):
    """Each in its turn; one of twice the weight has twice the turns."""

    __slots__ = ("_clock",)

    def __init__(self) -> None:
        super().__init__()
        self._clock = 0.0  # the deadline of the last turn

    def add(self, endpoint: Endpoint[K], rng: Random) -> None:
        """Let an endpoint in; by chance sooner or later, lest all clients begin with the same."""
        super().add(endpoint, rng)
        deadline = self._clock + rng.random() / endpoint.member.weight
        heappush(self._entries, self._entry(deadline, 0, endpoint))

    def take(self, avoid: Collection[K], now: float) -> Endpoint[K] | None:
        """Whose turn it is; None where all are in `avoid`."""
        entry = self.best(avoid)
        if entry is None:
            return None
        deadline, _, _, endpoint = entry
        self._clock = deadline
        weight = endpoint.member.weight * endpoint.part(now)
        later = self._entry(deadline + 1.0 / weight, 0, endpoint)
        if self._entries[0] is entry:
            heapreplace(self._entries, later)
        else:  # those in front of it are avoided; its old entry is no longer valid
            heappush(self._entries, later)
        return endpoint
