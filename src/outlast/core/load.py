"""How loaded one endpoint is: peak EWMA of its response times, requests in flight, lately failed.

The response time is Finagle's peak EWMA: it jumps up with a slow answer, sinks towards a faster
one, and sinks without traffic too (time constant 10 s), so that an endpoint is tried again. Three
things are added, because one process sees little traffic:

* silence counts: while something is in flight and nothing has ended for t seconds, an answer takes
  t seconds at least, so an endpoint that froze repels before it has answered anything;
* an endpoint never measured costs what its rival costs: a new one gets its share, no more;
* a failure multiplies. Linkerd books it as an answer of 5 s: beside answers of 10 ms one single
  503 then repels for ten seconds times ln 500, a minute. Here the share of failures (EWMA over
  requests, sinking with 5 s) makes the endpoint up to 11 times as costly, and the time of a failed
  answer counts only where it is long: failing fast never makes an endpoint attractive.

Refuses to judge health, which is `core.health`'s. Pure, not thread-safe.
"""

from __future__ import annotations

from math import exp

__all__ = ["Load", "in_flight_ratio", "in_flight_score", "ratio"]

DECAY = 10.0  # seconds; Finagle's and Linkerd's time constant of peak EWMA
FIRST = 0.030  # seconds; Linkerd's default for an endpoint without an answer yet
LEAST = 1e-6  # seconds; below it response times are the same, and nothing divides by zero

FAILED = 0.25  # what one request weighs in the share of failures: four in a row are two thirds
FORGIVEN = 5.0  # seconds in which the share of failures sinks to 1/e without traffic
COSTLIER = 10.0  # times more costly when everything fails
LONGEST_PAUSE = 300.0  # seconds; Linkerd's limit for what Retry-After may ask for


class Load:
    """What one endpoint carries and how it copes. Times in seconds."""

    __slots__ = ("_failing", "_failing_at", "_peak", "_peak_at", "_quiet_since", "pending")

    def __init__(self) -> None:
        self.pending = 0  # requests in flight
        self._peak = 0.0  # 0.0: never measured
        self._peak_at = 0.0
        self._quiet_since = 0.0  # the last end, or the begin that made it busy
        self._failing = 0.0  # share of requests that failed lately
        self._failing_at = 0.0

    def begin(self, now: float) -> None:
        """A request is on its way; every begin is followed by one `end` or one `quit`."""
        if not self.pending:
            self._quiet_since = now
        self.pending += 1

    def end(
        self, now: float, seconds: float, *, failed: bool = False, retry_after: float = 0.0
    ) -> None:
        """An answer, or a failure, `seconds` after the request began.

        `retry_after`: seconds for which a failed answer asked to be spared (300 at most); until
        then the endpoint counts as failing altogether.
        """
        self.pending -= 1
        self._quiet_since = now
        failing = self.failing(now)
        if failed:
            failing += FAILED * (1.0 - failing)
            if retry_after > 0.0:
                failing = 1.0
        else:
            failing *= 1.0 - FAILED
        self._failing = failing if failing > 1e-3 else 0.0
        self._failing_at = now + min(retry_after, LONGEST_PAUSE) if failed else now
        if failed and not self._peak:
            return  # how fast it fails says nothing about how fast it answers
        kept = exp(min(0.0, (self._peak_at - now) / DECAY))
        sunk = self._peak * kept
        if seconds >= sunk:
            self._peak = max(seconds, LEAST)
        elif not failed:
            self._peak = max(LEAST, sunk + seconds * (1.0 - kept))
        else:
            return
        self._peak_at = now

    def quit(self) -> None:
        """A request ended without a word about the endpoint: cancelled, or our own fault."""
        self.pending -= 1

    def forget(self) -> None:
        """The endpoint comes back: what it was before says nothing; what is in flight stays."""
        self._peak = self._failing = 0.0

    def failing(self, now: float) -> float:
        """The share of requests that failed lately, from 0.0 to 1.0."""
        if not self._failing:
            return 0.0
        return self._failing * exp(min(0.0, (self._failing_at - now) / FORGIVEN))

    def latency(self, now: float) -> float | None:
        """Seconds that an answer takes, on the high side; None before the first."""
        if not self._peak:
            return None
        return self._peak * exp(min(0.0, (self._peak_at - now) / DECAY))

    def score(self, now: float) -> float:
        """What a further request would cost, in seconds; for people, and to put in order."""
        cost = max(self.latency(now) or FIRST, LEAST)
        if self.pending:
            cost = max(cost, now - self._quiet_since)
        return cost * (self.pending + 1) * (1.0 + COSTLIER * self.failing(now))


def ratio(a: Load, b: Load, now: float, share_a: float = 1.0, share_b: float = 1.0) -> float:
    """How many times as costly a request to `a` is as one to `b`.

    `share_a`, `share_b`: their weights, 1.0 being the mean: an endpoint of twice the weight
    carries twice the requests before it counts as loaded.
    """
    x = a._peak
    y = b._peak
    # exp of what is past is never above 1; a clock that another thread read later does no harm.
    x_now = x * exp((a._peak_at - now) / DECAY) if x else 0.0
    y_now = y * exp((b._peak_at - now) / DECAY) if y else 0.0
    if a.pending and now - a._quiet_since > x_now:
        x_now = now - a._quiet_since
    if b.pending and now - b._quiet_since > y_now:
        y_now = now - b._quiet_since
    if not x and x_now < y_now:
        x_now = y_now
    elif not y and y_now < x_now:
        y_now = x_now
    if x_now < LEAST:
        x_now = LEAST
    if y_now < LEAST:
        y_now = LEAST
    x_now *= 1.0 + a.pending / share_a
    y_now *= 1.0 + b.pending / share_b
    if a._failing:
        x_now *= 1.0 + COSTLIER * a.failing(now)
    if b._failing:
        y_now *= 1.0 + COSTLIER * b.failing(now)
    return x_now / y_now


def in_flight_ratio(
    a: Load, b: Load, now: float, share_a: float = 1.0, share_b: float = 1.0
) -> float:
    """The same by requests in flight alone, which failures make costlier all the same."""
    x = 1.0 + a.pending / share_a
    y = 1.0 + b.pending / share_b
    if a._failing:
        x *= 1.0 + COSTLIER * a.failing(now)
    if b._failing:
        y *= 1.0 + COSTLIER * b.failing(now)
    return x / y


def in_flight_score(load: Load, now: float) -> float:
    """What a further request would cost, by requests in flight alone."""
    return (load.pending + 1) * (1.0 + COSTLIER * load.failing(now))
