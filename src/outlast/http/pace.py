"""The times within one call: how long an attempt may take, and when a late one is hedged.

Made for calls whose policy has a deadline, an attempt timeout, a hedge or a deadline header, or
whose target has circuit limits or is put out for being slow; for all others there is nothing to
measure. What the response
times say is `core.hedge`'s, whether to send again `core.call`'s. Refuses to hedge what is not safe,
or has a body that cannot be sent twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from outlast.core.call import Await, Try
from outlast.core.deadline import NEVER, Deadline
from outlast.core.handing_on import deadline_header, share_of
from outlast.core.hedge import HedgePlan
from outlast.http.message import Headers
from outlast.policy import Policy
from outlast.service.response_times import ResponseTimes
from outlast.service.table import Service

__all__ = ["Pace"]

ROUNDING = 1e-6  # seconds; sums of floats differ by less


class Pace:
    """One call's. One owner; not thread-safe. `repeatable`: whether its request may stand beside
    itself."""

    __slots__ = ("_deadline", "_hedge", "_policy", "_slow", "_times")

    def __init__(
        self, policy: Policy, service: Service, deadline: Deadline, *, repeatable: bool
    ) -> None:
        self._policy = policy
        self._slow = service.settings.health.latency
        self._deadline = deadline
        self._hedge: HedgePlan | None = policy.hedge if repeatable else None
        self._times: ResponseTimes | None = None
        if policy.hedge is not None or deadline is not NEVER:
            self._times = service.response_times()
            if self._hedge is not None:
                self._times.begun(self._hedge)

    # -- the time of an attempt ------------------------------------------------------------

    def limit(self, written: int, now: float) -> float:
        """When an attempt that begins now is to be over; infinite where the call's own deadline
        comes no later, or as good as that. `written`: the requests before it."""
        seconds = self.seconds(written, now)
        if seconds is None or now + seconds > self._deadline.at - ROUNDING:
            return math.inf
        return now + seconds

    def seconds(self, written: int, now: float) -> float | None:
        """What an attempt may take; None: as long as it wants."""
        seconds = self._policy.attempt_timeout
        if seconds != "split":
            return seconds
        left = self._deadline.remaining(now)
        return share_of(left, self._policy.attempts - written, self.least())

    def least(self) -> float:
        """Seconds below which nothing can succeed, as far as is known."""
        return 0.0 if self._times is None else self._times.quickest()

    def took(self, seconds: float) -> None:
        """The call's first request was answered after so long, or overtaken by its hedge."""
        if self._times is not None:
            self._times.took(seconds)

    def slow(self, seconds: float) -> bool:
        """Whether an answer that came so long after the request's end speaks against its endpoint
        (`HealthPlan.latency`)."""
        return self._slow is not None and seconds > self._slow

    # -- the hedge -------------------------------------------------------------------------

    def hedge_after(self) -> float:
        """Seconds from an attempt's first byte to its hedge; infinite for none."""
        if self._hedge is None or self._times is None:
            return math.inf
        after = self._times.after(self._hedge)
        return math.inf if after is None else after

    def start_hedge(self, ask: Callable[[], Try | Await]) -> Try | Await:
        """What `ask`, the machine, says of a hedge now, if the target's share allows one."""
        hedge, times = self._hedge, self._times
        assert hedge is not None
        assert times is not None
        self._hedge = None  # once in a call
        return times.start(hedge, ask)

    # -- what the server is told -----------------------------------------------------------

    def told(self, headers: Headers, limit: float, now: float) -> Headers:
        """The header fields of a request that is sent now, with how much time is left."""
        name = self._policy.deadline_header
        if name is None:
            return headers
        field = name.lower().encode("ascii")
        if any(each.lower() == field for each, _ in headers):
            return headers
        value = deadline_header(name, min(limit, self._deadline.at) - now)
        if value is None:
            return headers
        return [*headers, (name.encode("ascii"), value.encode("ascii"))]
