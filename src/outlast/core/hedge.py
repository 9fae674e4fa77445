"""Hedging: when a second request is sent beside one that is late.

After a fixed delay, or after a percentile of the target's own response times, so that only the
tail is asked twice. Source: Dean and Barroso, The Tail at Scale (2013), and Finagle's backup
requests: a percentile, at least 1 ms, and a bucket of its own that holds the extra load below
1 - percentile whatever becomes of the response times. `core.call` sees to the rest: safe and
replayable requests only, once per call, out of the retry budget.

Refuses to hedge by a percentile before `warm_up` response times are known, and to forget the
losers: the time of a request that its hedge has overtaken counts too, else the delay would sink
with every hedge that wins. Not thread-safe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from outlast.core.latency import Latency

__all__ = ["HedgeDelay", "HedgePlan"]

SIZE = 512  # response times that are remembered
LEAST = 0.001  # seconds; Finagle's least delay
WARM_UP = 20  # response times
EVEN = 1.05  # of the percentile: requests that all take the same time are not late
MOST_SAVED = 20.0  # hedges that may be saved up


@dataclass(frozen=True, slots=True)
class HedgePlan:
    """When a late request is sent a second time.

    delay: seconds; None: by `percentile`.
    percentile: of the target's response times, above 0 and below 1, such as 0.95; also the share
        of requests that is never hedged. None where there is a `delay`.
    least: seconds, the shortest delay that comes of a percentile.
    warm_up: response times that must be known before.
    """

    delay: float | None = None
    percentile: float | None = None
    least: float = LEAST
    warm_up: int = WARM_UP

    def __post_init__(self) -> None:
        if (self.delay is None) == (self.percentile is None):
            raise ValueError(
                "hedge: give a delay or a percentile, such as HedgePlan(delay=0.05) or "
                "HedgePlan(percentile=0.95)"
            )
        if self.delay is not None and not _time(self.delay):
            raise ValueError(f"hedge: delay {self.delay!r} is no time in seconds, such as 0.05")
        if self.percentile is not None and not (_time(self.percentile) and 0 < self.percentile < 1):
            raise ValueError(f"hedge: percentile {self.percentile!r} is not as 0.95")
        if not _time(self.least):
            raise ValueError(f"hedge: least {self.least!r} is no time in seconds, such as 0.001")
        if type(self.warm_up) is not int or self.warm_up < 1:
            raise ValueError(
                f"hedge: warm_up {self.warm_up!r} is no whole number from 1, such as 20"
            )


def _time(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value < math.inf


class HedgeDelay:
    """A target's response times, and what they say of hedging. Plans may differ by call."""

    __slots__ = ("_saved", "_times")

    def __init__(self) -> None:
        self._times = Latency(SIZE)
        self._saved = 0.0

    def begun(self, plan: HedgePlan) -> None:
        """A call begins: it earns its share of a hedge."""
        if plan.percentile is not None:
            self._saved = min(MOST_SAVED, self._saved + 1.0 - plan.percentile)

    def took(self, seconds: float) -> None:
        """A call's first request was answered after `seconds`, or was given up then for its
        hedge. Count neither hedges nor requests that failed."""
        self._times.add(seconds)

    def after(self, plan: HedgePlan) -> float | None:
        """Seconds from a request's first byte to its hedge; None: not known yet."""
        if plan.percentile is None:
            return plan.delay
        if len(self._times) < plan.warm_up:
            return None
        late = self._times.quantile(plan.percentile, spare=1)
        assert late is not None
        return max(plan.least, EVEN * late)

    def quickest(self) -> float:
        """Seconds that no answer has been quicker than of late: `CallPlan.least`. 0 until enough
        is known."""
        if len(self._times) < WARM_UP:
            return 0.0
        return self._times.quantile(0.0) or 0.0

    def allows(self, plan: HedgePlan) -> bool:
        """Whether one more hedge keeps to the plan's share. A fixed delay has none: there the
        retry budget alone bounds."""
        return plan.percentile is None or self._saved >= 1.0

    def hedged(self, plan: HedgePlan) -> None:
        """A hedge was started."""
        if plan.percentile is not None:
            self._saved -= 1.0
