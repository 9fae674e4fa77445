"""How loaded one endpoint is: peak EWMA of its response times, requests in flight, lately failed.

The response time is Finagle's peak EWMA: it jumps up with a slow answer, sinks towards a faster
one, and sinks without traffic too (time constant 10 s), so that an endpoint is tried again. Three
things are added, because one process sees little traffic:

* silence counts: while something is in flight and nothing has ended for t seconds, an answer takes
  t seconds at least, so an endpoint that froze repels before it has answered anything;
* an endpoint never measured costs what its rival costs: a new one gets its share, no more;
* a failure multiplies. Linkerd books it as an answer of 5 s: beside answers of 10 ms one single
  503 then repels for ten seconds times ln 500, a minute. Here the share of failures (EWMA over
  requests, sinking with 5 s) makes the endpoint costlier, little after one failure and a thousand
  times after ten, and the time of a failed answer counts only where it is long: failing fast never
  makes an endpoint attractive.

Of two endpoints the costs are compared as odds: response times as they are, requests in flight and
failures squared. What is in flight is known exactly and now; a response time is an old guess, and
in small sets its noise would decide who gets nothing.

Refuses to judge health, which is `core.health`'s. Pure, not thread-safe.
"""

from __future__ import annotations

from math import exp, inf, log

__all__ = ["Load", "in_flight_odds", "in_flight_score", "odds"]

DECAY = 10.0  # seconds; Finagle's and Linkerd's time constant of peak EWMA
FIRST = 0.030  # seconds; Linkerd's default for an endpoint without an answer yet
LEAST = 1e-6  # seconds; below it response times are the same, and nothing divides by zero
_SUNK = DECAY * log(LEAST)

FAILED = 0.25  # what one request weighs in the share of failures: four in a row are two thirds
FORGIVEN = 5.0  # seconds in which the share of failures sinks to 1/e without traffic
COSTLIER = 40.0  # times more costly when everything fails; three times after one failure
LONGEST_PAUSE = 300.0  # seconds; Linkerd's limit for what Retry-After may ask for


class Load:
    """What one endpoint carries and how it copes. Times in seconds.

    A response time that sinks exponentially is kept as one number, its height: when it was
    measured, plus DECAY times its logarithm. It is exp((height - now) / DECAY) at any time, and of
    two endpoints the higher one is the slower, whatever the time is.
    """

    __slots__ = (
        *("_failing", "_failing_at", "_height", "_measured_at", "_quiet_since", "pending"),
    )

    def __init__(self) -> None:
        self.pending = 0  # requests in flight
        self._height = -inf  # never measured
        self._measured_at = 0.0
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
        if failed or self._failing:
            self._judge(now, failed, retry_after)
        height = self._height
        if failed and height == -inf:
            return  # how fast it fails says nothing about how fast it answers
        measured = now + DECAY * log(max(seconds, LEAST))
        if measured < height:
            if failed:
                return
            # Finagle: cost * w + seconds * (1 - w), w being what is left after the time between.
            new = 1.0 - exp(min(0.0, (self._measured_at - now) / DECAY))
            measured = now + DECAY * log(exp((height - now) / DECAY) + seconds * new)
        self._height = measured
        self._measured_at = now

    def _judge(self, now: float, failed: bool, retry_after: float) -> None:
        failing = self.failing(now)
        if not failed:
            failing *= 1.0 - FAILED
            self._failing = failing if failing > 1e-3 else 0.0
            self._failing_at = now
            return
        self._failing = 1.0 if retry_after > 0.0 else failing + FAILED * (1.0 - failing)
        self._failing_at = now + min(retry_after, LONGEST_PAUSE)

    def quit(self) -> None:
        """A request ended without a word about the endpoint: cancelled, or our own fault."""
        self.pending -= 1

    def forget(self) -> None:
        """The endpoint comes back: what it was before says nothing; what is in flight stays."""
        self._height = -inf
        self._failing = 0.0

    def failing(self, now: float) -> float:
        """The share of requests that failed lately, from 0.0 to 1.0."""
        if not self._failing:
            return 0.0
        return self._failing * exp(min(0.0, (self._failing_at - now) / FORGIVEN))

    def latency(self, now: float) -> float | None:
        """Seconds that an answer takes, on the high side; None before the first."""
        return None if self._height == -inf else exp((self._height - now) / DECAY)

    def score(self, now: float) -> float:
        """What a further request would cost; the lower the better. Seconds, while it is idle."""
        cost = FIRST if self._height == -inf else exp((self._height - now) / DECAY)
        if self.pending:
            cost = max(cost, now - self._quiet_since)
        return max(cost, LEAST) * in_flight_score(self, now)


def odds(a: Load, b: Load, now: float, share_a: float = 1.0, share_b: float = 1.0) -> float:
    """How many times as costly a request to `a` is as one to `b`.

    `share_a`, `share_b`: their weights, 1.0 being the mean: an endpoint of twice the weight
    carries twice the requests before it counts as loaded.
    """
    x, y = a._height, b._height
    if a.pending or b.pending or x == -inf or y == -inf:
        quotient = (1.0 + a.pending / share_a) / (1.0 + b.pending / share_b)
        quotient *= quotient * _times(a, b, now)
    else:
        sunk = now + _SUNK
        quotient = exp((max(x, sunk) - max(y, sunk)) / DECAY)
    return quotient * _failures(a, b, now) if a._failing or b._failing else quotient


def _times(a: Load, b: Load, now: float) -> float:
    """The ratio of the response times, with silence and with what was never measured."""
    x, y = exp((a._height - now) / DECAY), exp((b._height - now) / DECAY)
    if a.pending and now - a._quiet_since > x:
        x = now - a._quiet_since
    if b.pending and now - b._quiet_since > y:
        y = now - b._quiet_since
    if a._height == -inf and x < y:
        x = y
    elif b._height == -inf and y < x:
        y = x
    return max(x, LEAST) / max(y, LEAST)


def _failures(a: Load, b: Load, now: float) -> float:
    return _costlier(a, now) / _costlier(b, now)


def _costlier(load: Load, now: float) -> float:
    failing = load.failing(now)
    factor = 1.0 + COSTLIER * failing * failing
    return factor * factor


def in_flight_odds(
    a: Load, b: Load, now: float, share_a: float = 1.0, share_b: float = 1.0
) -> float:
    """The same by requests in flight alone, which failures make costlier all the same."""
    quotient = (1.0 + a.pending / share_a) / (1.0 + b.pending / share_b)
    quotient *= quotient
    return quotient * _failures(a, b, now) if a._failing or b._failing else quotient


def in_flight_score(load: Load, now: float) -> float:
    """What a further request would cost, by requests in flight alone."""
    return (load.pending + 1) ** 2 * _costlier(load, now)
