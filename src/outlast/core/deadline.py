"""A deadline: one point in time, handed down through a whole call.

A timeout is a duration in seconds; a deadline is a point on the caller's clock. Durations are
turned into a deadline once, at the top, so that N steps can never add up to N timeouts.
Source: gRPC's deadline rule. This module never asks what time it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["NEVER", "Deadline", "Stopwatch"]


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time after which nobody waits any more; `at` is `math.inf` for never."""

    at: float = math.inf

    @classmethod
    def after(cls, seconds: float | None, now: float) -> Deadline:
        """The deadline `seconds` after `now`; never, if `seconds` is None."""
        return NEVER if seconds is None else cls(now + seconds)

    def remaining(self, now: float) -> float:
        """Seconds left, never below zero; `math.inf` if there is no deadline."""
        return max(0.0, self.at - now)

    def expired(self, now: float) -> bool:
        """Whether the point in time has come."""
        return now >= self.at

    def earlier(self, other: Deadline) -> Deadline:
        """The one of the two that comes first."""
        return self if self.at <= other.at else other


NEVER = Deadline()


class Stopwatch:
    """A duration that may be spent in pieces: httpx's connect and pool timeouts, once per call.

    Every piece ends at `deadline(now)`; `spend` takes what a piece really used.
    """

    __slots__ = ("left",)

    def __init__(self, seconds: float | None) -> None:
        self.left = math.inf if seconds is None else seconds

    def deadline(self, now: float) -> Deadline:
        """Where a piece that starts now must end."""
        return Deadline(now + self.left)

    def spend(self, started: float, now: float) -> None:
        """Take the time from `started` to `now` off what is left."""
        self.left = max(0.0, self.left - max(0.0, now - started))
