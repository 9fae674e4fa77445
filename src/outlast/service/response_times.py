"""What a target's answers take: when a late request is hedged, what time is too short for one.

`core.hedge.HedgeDelay` behind a lock: one for all calls to a target that have a hedge or a
deadline, made with the first of those (some 16 kB when it is full). Thread-safe; nothing here
waits. `start` asks whether a hedge may begin under the lock, so that two threads never take the
same share.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from outlast.core.call import Await, Try
from outlast.core.hedge import HedgeDelay, HedgePlan

__all__ = ["ResponseTimes"]

T = TypeVar("T")


class ResponseTimes:
    """See above."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._delay = HedgeDelay()

    def renew(self) -> None:
        """In the child of a fork."""
        self._lock = Lock()

    def begun(self, plan: HedgePlan) -> None:
        """See `HedgeDelay.begun`."""
        with self._lock:
            self._delay.begun(plan)

    def took(self, seconds: float) -> None:
        """See `HedgeDelay.took`."""
        with self._lock:
            self._delay.took(seconds)

    def after(self, plan: HedgePlan) -> float | None:
        """See `HedgeDelay.after`."""
        with self._lock:
            return self._delay.after(plan)

    def quickest(self) -> float:
        """See `HedgeDelay.quickest`."""
        with self._lock:
            return self._delay.quickest()

    def start(self, plan: HedgePlan, ask: Callable[[], Try | Await]) -> Try | Await:
        """What `ask` says, unless the plan's share is used up; counted if a hedge begins. `ask`
        may use the target's other locks."""
        with self._lock:
            if not self._delay.allows(plan):
                return Await(
                    f"waited for: late; {plan.percentile:.4g} of the requests are not hedged"
                )
            step = ask()
            if isinstance(step, Try):
                self._delay.hedged(plan)
            return step
