"""One endpoint as balancing knows it: who it is, how well it is, what it carries, where it stands.

`Member` is what discovery says. `Endpoint` adds what was learnt, and its places in the lists of
the balancer, so that moving it from one `Cell` to another costs the same however many there are.
Refuses to decide anything.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import Enum
from math import inf
from random import Random
from typing import Generic, TypeVar

from outlast.core.health import Health, HealthPlan
from outlast.core.load import Load

__all__ = ["Cell", "Endpoint", "K", "Member", "Pick", "Why"]

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Member(Generic[K]):
    """One endpoint as discovery names it.

    `weight`: its share beside the others of its level, above 0. `priority`: 0 is used first.
    `zone`, `node`: where it runs, "" where that is not known. ValueError where one makes no sense.
    """

    key: K
    weight: float = 1.0
    priority: int = 0
    zone: str = ""
    node: str = ""

    def __post_init__(self) -> None:
        if not 0.0 < self.weight < inf:
            raise ValueError(
                f"weight {self.weight!r} of {self.key!s}: a weight is a number above 0, such as "
                "1.0; leave out an endpoint that shall get nothing"
            )
        if self.priority < 0:
            raise ValueError(
                f"priority {self.priority!r} of {self.key!s}: priorities count up from 0, "
                "which is used first"
            )


class Why(Enum):
    """Why an endpoint was picked; the value is the word that reports use."""

    BALANCE = "balance"  # the strategy's choice among those that are in
    TRIAL = "trial"  # it is out, its time has come, and this request finds out
    SPILL_OVER = "spill-over"  # a lower priority takes what the levels above cannot
    PANIC = "panic"  # so many are out that being out on answers does not count
    LAST_RESORT = "last resort"  # it is out, and there is no better one
    NO_OTHER = "no other"  # it was to be avoided, and there is no better one


class Endpoint(Generic[K]):
    """An endpoint and all that is known of it. Not thread-safe: its roster's lock covers it."""

    __slots__ = (
        "cell",  # the list it stands in; None once it has left the target
        "class_at",  # its place in its weight class, where the list has classes
        "credit",  # parts of a turn that it has saved up
        "due_at",  # the last time of a trial that was put down
        "health",
        "item_at",  # its place in the list
        "key",
        "load",
        "member",
        "plain",  # the ordinary pick of it, made once
        "position",  # the resolver's word: 0 was named first
        "spot",  # a number that stands for its key, for consistent hashing; 0 until needed
        "ticket",  # which entry of a heap is the valid one
        "warming",  # whether it is in slow start
    )

    def __init__(self, member: Member[K], plan: HealthPlan, position: int) -> None:
        self.member = member
        self.key = member.key
        self.health = Health(plan)
        self.load = Load()
        self.position = position
        self.cell: Cell[K] | None = None
        self.item_at = self.class_at = self.ticket = self.spot = 0
        self.credit = 0.0
        self.due_at = -inf
        self.warming = False
        self.plain = Pick(self, Why.BALANCE, trial=False)

    def part(self, now: float) -> float:
        """How much of its weight it has now: less than 1.0 in slow start, which ends here."""
        if not self.warming:
            return 1.0
        part = self.health.weight(now)
        if part >= 1.0:
            self.warming = False
            if self.cell is not None:
                self.cell.warming -= 1
        return part


class Pick(Generic[K]):
    """Who serves a request, and why.

    `trial`: the endpoint is out and this request is its one trial; when the request ends without
    a verdict, `Health.untried` gives the trial back.
    """

    __slots__ = ("endpoint", "trial", "why")

    def __init__(self, endpoint: Endpoint[K], why: Why, *, trial: bool) -> None:
        self.endpoint = endpoint
        self.why = why
        self.trial = trial

    def __repr__(self) -> str:
        return f"Pick({self.endpoint.key!s}: {self.why.value})"


class Cell(Generic[K]):
    """A list of endpoints whose order means nothing. Every endpoint stands in one at most."""

    __slots__ = ("items", "open", "ripe", "total", "warming")

    def __init__(self) -> None:
        self.items: list[Endpoint[K]] = []
        self.open = False  # whether its members may be picked now
        self.ripe = False  # whether its members are out and their time has come
        self.total = 0.0  # of the members' weights
        self.warming = 0  # members in slow start

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Endpoint[K]]:
        return iter(self.items)

    def add(self, endpoint: Endpoint[K], rng: Random) -> None:  # noqa: ARG002  heaps need it
        """Let an endpoint in that stands nowhere."""
        endpoint.cell = self
        endpoint.item_at = len(self.items)
        self.items.append(endpoint)
        self.total += endpoint.member.weight
        self.warming += endpoint.warming

    def remove(self, endpoint: Endpoint[K]) -> None:
        """Let an endpoint out; the last one takes its place."""
        last = self.items.pop()
        if last is not endpoint:
            self.items[endpoint.item_at] = last
            last.item_at = endpoint.item_at
        endpoint.cell = None
        # Sums of floats drift, by nothing that matters; an empty list begins anew.
        self.total = self.total - endpoint.member.weight if self.items else 0.0
        self.warming -= endpoint.warming
