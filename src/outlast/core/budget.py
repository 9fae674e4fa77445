"""What repeated work may cost: the re-dial bucket and the retry budget of a target.

Both bound what clients add to an outage. A dead node must never exhaust them, an overloaded
server must. They are counted when the decision is taken, not when the work starts, so that
work asleep in a back-off counts too.

Sources: the retry budget has Finagle's form (a share of requests plus a reserve, over a
sliding window); its figures, and the bucket, are DESIGN section 6. Not thread-safe: whoever
shares one between threads holds a lock around each call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["BudgetPlan", "RedialBucket", "RetryBudget", "WindowCount"]

WINDOW = 10  # seconds; Finagle's budget lives as long
AT_ONCE = 0.5  # of what requests have earned: all of it at once would come again as a wave


class WindowCount:
    """Events of the last `seconds` whole seconds, the one under way included; constant cost."""

    __slots__ = ("_counts", "_second", "total")

    def __init__(self, seconds: int = WINDOW) -> None:
        self._counts = [0] * seconds
        self._second = 0
        self.total = 0

    def advance(self, now: float) -> int:
        """Forget what is too old; return what is left."""
        second = int(now)
        gone = second - self._second
        if gone > 0:
            counts = self._counts
            size = len(counts)
            for passed in range(1, min(gone, size) + 1):
                slot = (self._second + passed) % size
                self.total -= counts[slot]
                counts[slot] = 0
            self._second = second
        return self.total

    def newest(self) -> int:
        """Events of the newest second; ask after `advance`."""
        return self._counts[self._second % len(self._counts)]

    def add(self, now: float, count: int = 1) -> None:
        """Count `count` events at `now`."""
        if int(now) > self._second:
            self.advance(now)
        self._counts[self._second % len(self._counts)] += count
        self.total += count


class RedialBucket:
    """Extra dials that a target's races may start.

    Holds 50 plus one for each connect won in the last 10 s, at most 1,000, and refills by 10 a
    second. A race takes one for every dial after its first and gives all back when it wins.
    """

    __slots__ = ("_level", "_stamp", "_wins")

    BASE = 50
    LIMIT = 1000
    REFILL = 10.0  # tokens a second

    def __init__(self, now: float) -> None:
        self._level = float(self.BASE)
        self._stamp = now
        self._wins = WindowCount()

    def capacity(self, now: float) -> float:
        """What the bucket can hold at `now`."""
        return float(min(self.LIMIT, self.BASE + self._wins.advance(now)))

    def level(self, now: float) -> float:
        """What it holds at `now`."""
        earned = max(0.0, now - self._stamp) * self.REFILL
        self._stamp = max(now, self._stamp)
        self._level = min(self.capacity(now), self._level + earned)
        return self._level

    def take(self, now: float) -> bool:
        """Take one for an extra dial; False when there is none."""
        if self.level(now) < 1.0:
            return False
        self._level -= 1.0
        return True

    def won(self, taken: int, now: float) -> None:
        """A race was won that had taken `taken`: all come back, and the win earns one."""
        self._wins.add(now)
        self._level = min(self.capacity(now), self.level(now) + taken + 1)


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """What repeats and hedges may cost a target: a share of its requests, and a reserve a second
    that lets a slow client repeat too; both over the last ten seconds. (0, 0) forbids them."""

    ratio: float = 0.2
    per_second: float = 3.0

    def __post_init__(self) -> None:
        for name in ("ratio", "per_second"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not 0 <= value < math.inf:
                raise ValueError(
                    f"retry_budget: {name} {value!r} is not a number from 0; write (0.2, 3.0) for "
                    "a fifth of the requests and three a second"
                )


class RetryBudget:
    """Repeated requests and hedges that a target may cost: 20 % of requests plus 3 a second.

    The reserve and half of what requests have earned may go at once; the rest a tenth a second. A
    budget that is spent at once in an outage comes back at once when its window is over, and again
    after each further window: a wave that a server meets just when it tries to get up.

    One count for all calls to the target; a call may bring figures of its own to it.
    """

    __slots__ = ("_plan", "_requests", "_spent", "request")

    def __init__(self, ratio: float = 0.2, per_second: float = 3.0) -> None:
        self._plan = BudgetPlan(ratio, per_second)
        self._requests = WindowCount()
        self._spent = WindowCount()
        self.request = self._requests.add  # called with `now` for each first attempt

    def left(self, now: float, plan: BudgetPlan | None = None) -> float:
        """How many repeats may be granted at `now`; by `plan`, or by the target's own."""
        plan = plan or self._plan
        reserve, earned = plan.per_second * WINDOW, plan.ratio * self._requests.advance(now)
        spent = self._spent.advance(now)
        evenly = (reserve + earned) / WINDOW - self._spent.newest()
        at_once = reserve + AT_ONCE * earned - spent
        return min(reserve + earned - spent, max(at_once, evenly))

    def take(self, now: float, plan: BudgetPlan | None = None) -> bool:
        """Grant one repeat; False when the budget is spent. As `left`."""
        if self.left(now, plan) < 1.0:
            return False
        self._spent.add(now)
        return True
