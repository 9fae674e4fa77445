"""When an active check of one endpoint is due, and when its results make a verdict.

HAProxy's meaning and figures: `rise` passes in a row bring a down endpoint up, `fall` failures in
a row take it down, every `interval`. In trouble, every `fast_interval`: while a change is in the
making, and, other than HAProxy without `downinter`, while it is down, so that it is back at once.
At the start nothing is known and the first pass is enough (Envoy). Refuses to say how an endpoint
is asked, and what a verdict does: see `Health.checked`. Not thread-safe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

__all__ = ["Check", "CheckPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlan:
    """How often an endpoint is checked. Durations in seconds; `rise` and `fall` are results.

    Intervals count from the beginning of one check to that of the next, more or less up to
    `jitter` of them by chance; a check that takes longer is followed at once.
    ValueError for a figure that cannot be meant.
    """

    interval: float = 2.0  # HAProxy: inter
    fast_interval: float = 0.5  # as its fastinter, which has no default
    timeout: float = 1.0  # a dial's patience within a race (DESIGN section 6)
    rise: int = 2  # HAProxy
    fall: int = 3  # HAProxy
    jitter: float = 0.2  # as its spread-checks: checks of many endpoints must not come together

    def __post_init__(self) -> None:
        for name in ("interval", "fast_interval", "timeout"):
            if not 0.01 <= getattr(self, name) <= 86_400:
                raise ValueError(
                    f"{name}: {getattr(self, name)!r} is not from 0.01 to 86400 s, such as 2.0"
                )
        for name in ("rise", "fall"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 1000:
                raise ValueError(f"{name}: {count!r} is not a whole number from 1 to 1000")
        if self.fast_interval > self.interval:
            raise ValueError(
                f"fast_interval: {self.fast_interval!r} is longer than interval: {self.interval!r}"
            )
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter: {self.jitter!r} is not a share of the interval, such as 0.2")

    @property
    def detects_within(self) -> float:
        """Seconds from an endpoint's silent death to the verdict, at worst."""
        longest = 1.0 + self.jitter
        again = max(self.timeout, self.fast_interval * longest)
        return self.interval * longest + (self.fall - 1) * again + self.timeout


class Check:
    """The checks of one endpoint.

    To be read: `due_at`, when the next is to begin: at once at first, never while one is under
    way; `up`, the verdict, None while there is none; `against`, results in a row against it.
    """

    __slots__ = ("_began", "against", "due_at", "plan", "up")

    def __init__(self, plan: CheckPlan) -> None:
        self.plan = plan
        self.due_at = -math.inf
        self.up: bool | None = None
        self.against = 0
        self._began = -math.inf

    def begun(self, now: float) -> None:
        """A check has begun. One that ends without a result may begin again at any time."""
        self._began = now
        self.due_at = math.inf

    def ended(self, ok: bool, now: float, rng: Random) -> bool | None:
        """The check has passed or failed. True: up now; False: down now; None: as before.

        Where `ok` is the verdict, `Health.checked` may be told though nothing has changed: a pass
        ends what other evidence has begun.
        """
        changed = self._changes(ok)
        plan = self.plan
        trouble = self.against or not self.up
        wait = plan.fast_interval if trouble else plan.interval
        wait *= rng.uniform(1.0 - plan.jitter, 1.0 + plan.jitter)
        self.due_at = max(now, self._began + wait)
        return self.up if changed else None

    def _changes(self, ok: bool) -> bool:
        if self.up is ok:
            self.against = 0
            return False
        self.against += 1
        enough = self.plan.fall if not ok else 1 if self.up is None else self.plan.rise
        if self.against < enough:
            return False
        self.up, self.against = ok, 0
        return True
