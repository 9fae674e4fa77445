"""The figures of a run: counts and quantiles of each client, and how they are written.

Quantiles are nearest-rank, over the requests that ended, errors with the time they took. Hung
requests count as requests and, when they waited longer, among the slow; they have no latency yet,
so that they are in no quantile, and a column of their own says how many there are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from outlast.cli.record import Outcome, Sample

__all__ = ["Figures", "duration", "figures", "kinds", "quantile"]


@dataclass(frozen=True, slots=True)
class Figures:
    """What one client saw. Durations in seconds; None where no request ended."""

    requests: int
    errors: int
    hung: int
    slow: int  # over 100 ms, errors and hung ones included
    p50: float | None
    p99: float | None
    slowest: float | None


def figures(samples: Sequence[Sample]) -> Figures:
    """Sum up one client's requests."""
    took = sorted(sample.took for sample in samples if sample.outcome is not Outcome.HUNG)
    return Figures(
        requests=len(samples),
        errors=sum(sample.outcome is Outcome.ERROR for sample in samples),
        hung=len(samples) - len(took),
        slow=sum(sample.slow for sample in samples),
        p50=quantile(took, 0.50),
        p99=quantile(took, 0.99),
        slowest=took[-1] if took else None,
    )


def quantile(ordered: Sequence[float], part: float) -> float | None:
    """The smallest value that at least `part` of all values do not exceed."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def kinds(samples: Sequence[Sample]) -> str:
    """The kinds of errors, the most frequent first: "12 ConnectTimeout, 1 ReadTimeout"."""
    counted = Counter(sample.error for sample in samples if sample.outcome is Outcome.ERROR)
    return ", ".join(f"{count} {kind}" for kind, count in counted.most_common())


def duration(seconds: float | None) -> str:
    """A duration for people, two figures at least: "1.7 ms", "240 ms", "5.0 s"."""
    if seconds is None:
        return "-"
    if seconds >= 0.9995:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds < 0.00995 else f"{seconds * 1e3:.0f} ms"
