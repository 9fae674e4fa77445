"""How the strategies choose one endpoint out of the lists that are open to a request.

`TwoChoices` draws one endpoint in proportion to weight and then another, evenly, as its rival.
Where the rival costs less it is taken; where it costs more it is taken with the chance
1 / (times as costly) (`core.load.odds`). That is one step of the Metropolis rule, and it makes up
for what plain power-of-two-choices gets wrong in small sets: with strictly the lesser taken, four
equal endpoints get 1/2, 1/3, 1/6 and nothing, in the order of whatever noise there is in their
response times, and weights mean nothing where there are two. By this rule equals get exactly their
weights, and one that costs k times as much about 1/k of its share.

A request looks at two endpoints, however many there are, and at a few more while some are in slow
start or to be avoided. Refuses to know health: what is in the lists may be chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Generic, Protocol, cast

from outlast.core.cells import Ranks, Urn, by_rank, draw
from outlast.core.endpoint import Cell, Endpoint, K
from outlast.core.load import Load

__all__ = ["Choice", "InTurn", "Odds", "Ordered", "TwoChoices"]

TRIES = 8  # draws for one that may be taken, before all are looked through


class Odds(Protocol):
    """How many times as loaded `a` is as `b`; see `core.load.odds`."""

    def __call__(
        self, a: Load, b: Load, now: float, share_a: float = 1.0, share_b: float = 1.0
    ) -> float:
        """See `core.load.odds`."""
        ...


class Choice(Protocol[K]):
    """A strategy at work."""

    ordered: bool  # whether the resolver's order counts, and trials wait for their place in it

    def cell(self) -> Cell[K]:
        """A list that this strategy can choose from."""
        ...

    def choose(
        self, cells: Sequence[Cell[K]], now: float, rng: Random, avoid: Collection[K]
    ) -> Endpoint[K] | None:
        """One endpoint of `cells` that is not in `avoid`; None where there is none."""
        ...

    def rank(self, endpoint: Endpoint[K], now: float, rng: Random) -> tuple[float, float]:
        """The lower the sooner it is dialled, beside others."""
        ...


class TwoChoices(Generic[K]):
    """Power of two choices."""

    ordered = False

    def __init__(self, odds: Odds, score: Callable[[Load, float], float]) -> None:
        self._odds = odds
        self._score = score

    def cell(self) -> Cell[K]:
        """Drawn from at random."""
        return Urn()

    def choose(
        self, cells: Sequence[Cell[K]], now: float, rng: Random, avoid: Collection[K]
    ) -> Endpoint[K] | None:
        """See `Choice`."""
        urns = cast("Sequence[Urn[K]]", cells)  # `cell` made them
        if len(urns) == 1 and not avoid and not urns[0].warming:
            urn = urns[0]
            items = urn.items
            count = len(items)
            if count < 2:
                return items[0] if items else None
            # The ordinary case, written out.
            chance = rng.random
            if urn.even:
                at = int(chance() * count)
                other = int(chance() * (count - 1))
                first, rival = items[at], items[other + (other >= at)]
                odds = self._odds(first.load, rival.load, now)
                return rival if odds >= 1.0 or chance() < odds else first
            first = draw(urns, rng)
            other = int(chance() * (count - 1))
            rival = items[other + (other >= first.item_at)]
            share, rivals = first.member.weight, rival.member.weight
            mean = urn.total / count
            odds = self._odds(first.load, rival.load, now, share / mean, rivals / mean)
            # The rival was drawn evenly: its weight comes in here.
            return rival if chance() * share < rivals * odds else first
        return self._weighed(urns, now, rng, avoid)

    def _weighed(
        self, urns: Sequence[Urn[K]], now: float, rng: Random, avoid: Collection[K]
    ) -> Endpoint[K] | None:
        """With weights, slow start, and endpoints to avoid."""
        count, total = 0, 0.0
        for urn in urns:
            count += len(urn.items)
            total += urn.total
        first = _draw(urns, now, rng, avoid) if count else None
        if first is None:
            return None
        rival = _rival(urns, count, first, rng, avoid)
        if rival is None:
            return first
        mean = total / count
        share = first.member.weight * first.part(now) / mean
        rivals = rival.member.weight * rival.part(now) / mean
        odds = self._odds(first.load, rival.load, now, share, rivals)
        return rival if rng.random() * share < rivals * odds else first

    def rank(self, endpoint: Endpoint[K], now: float, rng: Random) -> tuple[float, float]:
        """See `Choice`. By chance, in the proportion in which `choose` takes them."""
        score = self._score(endpoint.load, now)
        return _by_chance(endpoint.member.weight * endpoint.part(now) / score, rng)


def _draw(
    urns: Sequence[Urn[K]], now: float, rng: Random, avoid: Collection[K]
) -> Endpoint[K] | None:
    """One endpoint in proportion to weight and slow start, not in `avoid`; there are some."""
    allowed = None
    for _ in range(TRIES):
        endpoint = draw(urns, rng)
        if endpoint.key not in avoid:
            allowed = endpoint
            if not endpoint.warming or rng.random() < endpoint.part(now):
                return endpoint
    if allowed is not None:
        return allowed
    rest = [endpoint for urn in urns for endpoint in urn if endpoint.key not in avoid]
    if not rest:
        return None
    return rng.choices(rest, [endpoint.member.weight for endpoint in rest])[0]


def _rival(
    urns: Sequence[Urn[K]], count: int, first: Endpoint[K], rng: Random, avoid: Collection[K]
) -> Endpoint[K] | None:
    """Another one of `count`, all being equally likely; None where none is found."""
    for _ in range(TRIES if avoid else 1):
        at = int(rng.random() * (count - 1))
        for urn in urns:
            if urn is first.cell and at >= first.item_at:
                at += 1
            if at < len(urn.items):
                if urn.items[at].key not in avoid:
                    return urn.items[at]
                break
            at -= len(urn.items)
    return None


def _by_chance(weight: float, rng: Random) -> tuple[float, float]:
    """A rank by which one of twice the weight comes first twice as often (Efraimidis, Spirakis)."""
    return rng.expovariate(1.0) / weight, 0.0


class InTurn(Generic[K]):
    """Round robin."""

    ordered = False

    def cell(self) -> Cell[K]:
        """Taken from in turn."""
        return Urn()

    def choose(
        self, cells: Sequence[Cell[K]], now: float, rng: Random, avoid: Collection[K]
    ) -> Endpoint[K] | None:
        """See `Choice`. Of several lists one is drawn by its weight: each has its own turns."""
        urns = cast("Sequence[Urn[K]]", cells)
        if len(urns) == 1:
            return urns[0].turn(avoid, now)
        left = [urn for urn in urns if urn]
        while left:
            drawn = rng.choices(left, [urn.total for urn in left])[0]
            endpoint = drawn.turn(avoid, now)
            if endpoint is not None:
                return endpoint
            left.remove(drawn)
        return None

    def rank(self, endpoint: Endpoint[K], now: float, rng: Random) -> tuple[float, float]:
        """See `Choice`. By chance, in proportion to weight: a dial takes no turn."""
        return _by_chance(endpoint.member.weight * endpoint.part(now), rng)


class Ordered(Generic[K]):
    """Pick first."""

    ordered = True

    def cell(self) -> Cell[K]:
        """A heap of ranks."""
        return Ranks()

    def choose(
        self, cells: Sequence[Cell[K]], now: float, rng: Random, avoid: Collection[K]
    ) -> Endpoint[K] | None:
        """See `Choice`. One in slow start passes on what it does not take yet."""
        first = self._best(cells, avoid)
        if first is None or not first.warming or rng.random() < first.part(now):
            return first
        return self._best(cells, {*avoid, first.key}) or first

    def _best(self, cells: Sequence[Cell[K]], avoid: Collection[K]) -> Endpoint[K] | None:
        entries = [
            entry for cell in cast("Sequence[Ranks[K]]", cells) if (entry := cell.best(avoid))
        ]
        return min(entries, key=by_rank)[3] if entries else None

    def rank(self, endpoint: Endpoint[K], now: float, rng: Random) -> tuple[float, float]:  # noqa: ARG002
        """See `Choice`."""
        return -endpoint.member.weight, float(endpoint.position)
