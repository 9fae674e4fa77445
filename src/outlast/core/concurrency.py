"""How many requests an endpoint takes at once before they queue: a limit that finds itself.

Like a congestion window: response times that grow against their own long average mean a queue,
and the limit sinks; answers that say "too many" cut it; while times hold and the limit is used
it grows. Source: Netflix's concurrency-limits, the second gradient (long average of 600 windows,
tolerance 1.5, smoothing 0.2, room for a queue of 4, never less than half at once) with the cut of
its AIMD limit (0.9); the least of 3 is Envoy's adaptive concurrency filter's, because one
process of many sends an endpoint little.

Refuses to grow while less than half of it is in use, and to judge on less than ten answers.
Not thread-safe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["AdaptiveLimit", "AdaptivePlan"]

WINDOW = 1.0  # seconds, of one judgement
ENOUGH = 10  # answers in a window
LONG = 600  # windows, of the long average
TOLERANCE = 1.5  # × the long average: still no queue
STEEPEST = 0.5  # of the limit, at least, is left by one judgement before smoothing
SMOOTHING = 0.2  # the weight of one judgement
CUT = 0.9  # of the limit, where the endpoint has said that it takes no more
FALLEN = 2.0  # × the short average: the long one is of a bad time that is over
FORGET = 0.9  # of the long average is kept then


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptivePlan:
    """Bounds of an adaptive limit, in requests in flight; `queue`: how many may wait there."""

    start: int = 20
    least: int = 3
    most: int = 200
    queue: int = 4

    def __post_init__(self) -> None:
        for name in ("start", "least", "most", "queue"):
            value = getattr(self, name)
            if type(value) is not int:
                raise ValueError(f"adaptive: {name} {value!r} is no whole number, such as 20")
        if not 1 <= self.least <= self.start <= self.most:
            raise ValueError(
                f"adaptive: 1 <= least <= start <= most does not hold for {self.least!r}, "
                f"{self.start!r}, {self.most!r}; write AdaptivePlan(least=3, start=20, most=200)"
            )
        if self.queue < 0:
            raise ValueError(f"adaptive: queue {self.queue!r} is not as 4")


class AdaptiveLimit:
    """The limit of one endpoint."""

    __slots__ = (
        "_answers",
        "_cut",
        "_limit",
        "_long",
        "_peak",
        "_plan",
        "_sum",
        "_until",
        "_windows",
    )

    def __init__(self, plan: AdaptivePlan) -> None:
        self._plan = plan
        self._limit = float(plan.start)
        self._long = 0.0
        self._windows = 0
        self._until = -math.inf
        self._begin()

    def _begin(self) -> None:
        self._answers = 0
        self._sum = 0.0
        self._peak = 0
        self._cut = False

    @property
    def limit(self) -> int:
        """Requests that may be in flight."""
        return int(self._limit)

    def answered(
        self, now: float, seconds: float, in_flight: int, *, refused: bool = False
    ) -> None:
        """A request has ended `seconds` after it began, of `in_flight` with itself. `refused`: by
        an answer or a silence that means too much work (429, 503, a timeout); its time is no
        measure."""
        if self._until == -math.inf:
            self._until = now + WINDOW
        self._peak = max(self._peak, in_flight)
        if refused:
            self._cut = True
        else:
            self._answers += 1
            self._sum += seconds
        if now >= self._until and (self._cut or self._answers >= ENOUGH):
            self._judge()
            self._begin()
            self._until = now + WINDOW

    def _judge(self) -> None:
        """One window is over."""
        plan, limit = self._plan, self._limit
        wanted = limit
        if self._answers >= ENOUGH:
            short = self._sum / self._answers
            gradient = self._gradient(short)
            if self._peak >= limit / 2:
                wanted = limit * (1 - SMOOTHING) + (limit * gradient + plan.queue) * SMOOTHING
        if self._cut:
            wanted = min(wanted, limit * CUT)
        self._limit = max(float(plan.least), min(float(plan.most), wanted))

    def _gradient(self, short: float) -> float:
        """1 where response times are no queue's, less where they are; learns `short`."""
        self._windows = min(self._windows + 1, LONG)
        weight = max(1.0 / self._windows, 2.0 / (LONG + 1))
        self._long += weight * (short - self._long)
        if self._long > FALLEN * short:
            self._long *= FORGET
        if short <= 0.0:
            return 1.0
        return max(STEEPEST, min(1.0, TOLERANCE * self._long / short))
