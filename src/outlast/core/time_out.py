"""How long an endpoint is out: 5 s x 2^k, at most 60 s, more or less a fifth by chance.

k counts the ejections. It falls by one for each `window` that the endpoint has been back (Envoy's
sweep, once in 10 s), and stops where the longest time is reached (Envoy's formula), so that what
has been out for hours is forgiven in a minute. Times out without jitter are refused by nobody, but
bring all clients back in one instant (peers, trap 6). Not thread-safe.
"""

from __future__ import annotations

import math
from random import Random

from outlast.core.health_plan import Ejected, Evidence, HealthPlan, Rule

__all__ = ["Ladder", "Shadow", "spread"]


def spread(seconds: float, plan: HealthPlan, rng: Random) -> float:
    """`seconds`, more or less by chance."""
    return seconds * rng.uniform(1.0 - plan.jitter, 1.0 + plan.jitter)


class Ladder:
    """The times out of one endpoint: each rung doubles them."""

    __slots__ = ("_left", "_rung")

    def __init__(self) -> None:
        self._rung = 0
        self._left = -math.inf

    def climb(self, plan: HealthPlan, now: float, rng: Random, *, again: bool) -> tuple[float, int]:
        """Seconds out from `now`, and the rung from 1. `again`: it has not returned since."""
        if self._rung and not again:
            self._rung = max(0, self._rung - int((now - self._left) / plan.window))
        rung, full = self._rung, min(plan.cap, plan.base * 2.0**self._rung)
        if full < plan.cap:
            self._rung += 1
        return spread(full, plan, rng), rung + 1

    def leave(self, now: float) -> None:
        """The endpoint has returned: it is well from `now`."""
        self._left = now


class Shadow:
    """A dry run's ejection. It has its time, too; the first outcome after that is its trial."""

    __slots__ = ("_ladder", "rule", "until")

    def __init__(self) -> None:
        self._ladder = Ladder()
        self.rule: Rule | None = None  # None: in
        self.until = -math.inf

    def eject(
        self, plan: HealthPlan, rule: Rule, evidence: Evidence, why: str, now: float, rng: Random
    ) -> Ejected:
        """It would have been ejected, for the first time or once more."""
        seconds, times = self._ladder.climb(plan, now, rng, again=self.rule is not None)
        self.rule = rule
        self.until = math.inf if rule is Rule.CHECK else now + seconds
        return Ejected(rule, evidence, why, self.until, times, enforced=False)

    def due(self, now: float) -> bool:
        """Whether the next outcome is that of its trial."""
        return self.rule is not None and now >= self.until

    def leave(self, now: float) -> None:
        """It would have returned."""
        self.rule = None
        self._ladder.leave(now)
