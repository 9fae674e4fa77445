"""Medians and spreads, and how they are written. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Spread", "cost", "kib", "rate", "ratio", "spread"]


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some rounds, and their ends."""

    median: float
    low: float
    high: float
    count: int

    def write(self, form: Callable[[float], str]) -> str:
        """Median and ends, if it is of more than one."""
        ends = f" ({form(self.low)}–{form(self.high)})" if self.count > 1 else ""
        return form(self.median) + ends


def spread(values: Sequence[float]) -> Spread | None:
    """What some rounds come to; None for none."""
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values), len(values))


def ratio(value: float) -> str:
    """A ratio: two digits behind the point, where that says something."""
    return f"{value:.2f}" if value < 20 else f"{value:.0f}"


def cost(seconds: float) -> str:
    """Milliseconds."""
    milliseconds = seconds * 1e3
    return f"{milliseconds:.3f}" if milliseconds < 1 else f"{milliseconds:.2f}"


def rate(per_second: float) -> str:
    """Requests in a second."""
    return f"{per_second:,.0f}"


def kib(size: float) -> str:
    """KiB."""
    return f"{size / 1024:.1f}"
