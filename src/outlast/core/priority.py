"""Which share of the requests each priority level gets, and which levels are in panic.

Envoy's rules (its documentation of priority levels and of the panic threshold): a level's health
is the share of its endpoints that are in, times 1.4 (over-provisioning), at most 1; levels are
filled in order until the whole is served. Where the sum of all healths reaches 1 nobody panics:
the next level takes what the first cannot. Where it does not, shares are in proportion to health,
and a level of which less than the threshold is in uses those again that are out on their answers.
When all levels panic, shares follow the number of endpoints to choose from.

Differs from Envoy: shares are not rounded to whole percents, and an endpoint out on evidence of
death is no candidate in panic (DESIGN section 6), so a level of the dead gets nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Count", "Share", "spread"]

OVERPROVISIONING = 1.4  # Envoy: overprovisioning_factor 140 %


@dataclass(frozen=True, slots=True)
class Count:
    """The endpoints of one level: all, those in, and those out on answers alone."""

    total: int
    fit: int
    answering: int


@dataclass(frozen=True, slots=True)
class Share:
    """What one level gets: its share of the requests (0.0 to 1.0), and whether it is in panic."""

    load: float
    panic: bool


def spread(levels: Sequence[Count], threshold: float) -> list[Share]:
    """The share of each of `levels`, highest priority first; they have one endpoint at least.

    `threshold`: the share of a level that must be in, 0.5 by default; 0.0: nobody panics. Shares
    add up to 1.0, or are all 0.0 where there is nobody to choose.
    """
    healths = [min(1.0, OVERPROVISIONING * level.fit / level.total) for level in levels]
    whole = sum(healths)
    if whole >= 1.0:
        return _filled(healths)
    panics = [level.fit < threshold * level.total for level in levels]
    if all(panics):
        sizes = [level.fit + level.answering for level in levels]
        return _proportional(sizes, panics)
    return _proportional(healths, panics)


def _filled(healths: list[float]) -> list[Share]:
    """One level after the other as far as its health goes."""
    shares: list[Share] = []
    left = 1.0
    for health in healths:
        load = min(left, health)
        shares.append(Share(load, panic=False))
        left -= load
    return shares


def _proportional(sizes: Sequence[float], panics: list[bool]) -> list[Share]:
    whole = sum(sizes)
    return [
        Share(size / whole if whole else 0.0, panic)
        for size, panic in zip(sizes, panics, strict=True)
    ]
