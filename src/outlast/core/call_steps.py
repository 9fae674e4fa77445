"""What a call is given, told and says: its plan, how attempts fail, its steps. `core.call` decides.

Values only. A step says what to do next and why, in words for the report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Protocol, TypeAlias

from outlast.core.classify import Progress
from outlast.core.deadline import Deadline

__all__ = [
    "Accept",
    "Await",
    "Budget",
    "CallPlan",
    "Failure",
    "GiveUp",
    "Next",
    "Repeat",
    "Try",
]


class Repeat(Enum):
    """Why a request is sent again; the values are the words of a policy's `dry_run`."""

    UNSENT = "retry_unsent"  # nothing was sent: for free
    UNANSWERED = "retry_unanswered"
    STATUS = "retry_status"
    SUSPECT = "retry_suspect"  # beside a suspect one
    HEDGE = "hedge"  # beside a late one


class Budget(Protocol):
    """Where repeats come from: a `RetryBudget`, or one behind a lock."""

    def take(self, now: float) -> bool:
        """Grant one repeat; False if there is none."""


@dataclass(frozen=True, slots=True)
class CallPlan:
    """The figures of one call.

    `backoff(retry, rng)` gives seconds; retry counts from 1. `least`: seconds before the deadline
    at which a repeat must begin, because what begins later cannot succeed. `stop(requests, wait,
    now)`: whether to stop after so many requests were written, where the next would begin after
    `wait` seconds. `count_only`: repeats that are found right and not made, a dry run.
    """

    attempts: int
    deadline: Deadline
    statuses: frozenset[int]
    safe: bool
    replayable: bool
    backoff: Callable[[int, Random], float]
    retry_after_cap: float
    named_statuses: frozenset[int] = frozenset()  # repeated by the policy's word, safe or not
    least: float = 0.0
    stop: Callable[[int, float, float], bool] | None = None
    count_only: frozenset[Repeat] = frozenset()


@dataclass(frozen=True, slots=True)
class Failure:
    """How an attempt ended without a usable answer.

    `final`: the caller's own limit has ended it (read, write, pool, connect timeout, deadline)
    or repeating cannot help. It is raised as it is, unless another attempt is still out or there
    is an answer to fall back on: a repeat never makes things worse. Where a request that was
    sent has ended so, nothing new is started any more.

    `refused`: it was sent, and the server has said that it did not act on it because it takes no
    more for now: a repeat is safe, but counts and waits as any.

    `unacknowledged`: it was sent, the peer's kernel has acknowledged none of it, and the policy
    lets such be repeated whatever the method.

    `wanted`: what the policy's own condition says of it, where it has one. Where nothing was sent
    it is not asked: that is no repeat in the server's eyes.
    """

    progress: Progress
    final: bool = False
    refused: bool = False
    unacknowledged: bool = False
    wanted: bool | None = None


@dataclass(frozen=True, slots=True)
class Try:
    """Start attempt `number` at `at`: on an endpoint that this call has not tried, else on a new
    connection, because pooled ones may share what broke the last one.
    """

    number: int
    at: float
    why: str
    rule: Repeat = field(default=Repeat.UNANSWERED, compare=False)


@dataclass(frozen=True, slots=True)
class Accept:
    """Return the answer of attempt `number` to the caller."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Await:
    """Nothing new to start: go on waiting for the attempts that are still out, suspect or not."""

    why: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Raise what attempt `number` failed with."""

    number: int
    why: str


Next: TypeAlias = Try | Accept | Await | GiveUp
