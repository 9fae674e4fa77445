"""Calls for tests of their decisions: the usual plan, a budget that counts, how attempts end."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from outlast.core.budget import RetryBudget
from outlast.core.call import Call, CallPlan, Failure
from outlast.core.classify import Progress
from outlast.core.deadline import NEVER

NOT_SENT = Failure(Progress.NOT_SENT)
SENT = Failure(Progress.SENT)
BEGUN = Failure(Progress.RESPONSE_BEGUN)
BODY = Failure(Progress.BODY)
STATUSES = frozenset({429, 502, 503, 504})


class Purse:
    """A budget of so many repeats."""

    def __init__(self, repeats: float = math.inf) -> None:
        self.left = repeats
        self.asked = 0

    def take(self, now: float) -> bool:
        self.asked += 1
        self.left -= 1
        return self.left >= 0


def call(purse: Purse | RetryBudget | None = None, **figures: Any) -> Call:
    """A call that has written its first request; the wait is 0.1 s per repeat so far."""
    fresh = unwritten(purse, **figures)
    fresh.written()
    return fresh


def unwritten(
    purse: Purse | RetryBudget | None = None, rng: Random | None = None, **figures: Any
) -> Call:
    plan = {
        "attempts": 3,
        "deadline": NEVER,
        "statuses": STATUSES,
        "safe": True,
        "replayable": True,
        "backoff": lambda retry, rng: 0.1 * retry,
        "retry_after_cap": 10.0,
        **figures,
    }
    return Call(CallPlan(**plan), purse or Purse(), rng or Random(1))
