"""Whom a race of dials tries, one after the other.

The endpoint that was picked comes first. A dial that gets no answer races on after a moment, so
what follows is the best to be had: those that are open, level by level, in the order of the
strategy; those that are in but not open; those due; those out on answers; and the dead, beginning
with the one that answered last, or where it is one of them that was picked with the next one, and
round. Nobody is left out: out is last, not gone (DESIGN section 6).

Costs as much as `most`, not as there are endpoints, but where an order must be known: all the dead,
and everybody under `PickFirst`, are gone through. Refuses to decide how many dials there are
and when they start: that is `core.race`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from random import Random

from outlast.core.choice import Choice
from outlast.core.endpoint import Cell, Endpoint, K
from outlast.core.level import Group, Level

__all__ = ["dial_order"]


def dial_order(
    levels: Sequence[Level[K]], choice: Choice[K], now: float, rng: Random, first: K, most: int
) -> list[K]:
    """`first`, and the other keys as they are worth it; at most `most`."""
    keys: dict[K, None] = {first: None}
    for cells in _groups(levels):
        if len(keys) >= most:
            break
        some = (
            _some(cells, most, rng) if not choice.ordered else [e for cell in cells for e in cell]
        )
        some = nsmallest(most, some, key=lambda endpoint: choice.rank(endpoint, now, rng))
        keys.update((endpoint.key, None) for endpoint in some)
    if len(keys) < most:
        dead = [endpoint for level in levels for endpoint in level.dead]
        last = [endpoint.key for endpoint in nsmallest(most, dead, key=_since_success)]
        after = last.index(first) if first in last else 0
        keys.update(dict.fromkeys(last[after:] + last[:after]))
    return list(keys)[:most]


def _since_success(endpoint: Endpoint[K]) -> tuple[float, int]:
    return -endpoint.health.last_success, endpoint.position


def _groups(levels: Sequence[Level[K]]) -> Iterator[list[Cell[K]]]:
    for level in levels:
        yield level.open
    for group in Group:
        for level in levels:
            yield [cell for cell in level.of(group) if not cell.open or cell.ripe]


def _some(cells: Sequence[Cell[K]], most: int, rng: Random) -> list[Endpoint[K]]:
    """All of `cells`, or `most` of each that follow each other from a place drawn by chance."""
    some: list[Endpoint[K]] = []
    for cell in cells:
        items = cell.items
        at = int(rng.random() * len(items)) if len(items) > most else 0
        some += items[at : at + most]
        some += items[: max(0, at + most - len(items))] if at else []
    return some
