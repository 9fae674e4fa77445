"""What a race asks for, one step after the other: the words between `core.race` and its driver.

Values only; who decides them is `core.race`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

__all__ = ["Abandon", "Lost", "Pause", "Resolve", "Start", "Step"]

A = TypeVar("A", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Start(Generic[A]):
    """Dial `address`; tell `connected`, `won` or `failed` under `dial`."""

    dial: int
    address: A
    why: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """Give `dial` up: it is no longer part of the race."""

    dial: int
    why: str


@dataclass(frozen=True, slots=True)
class Resolve:
    """Look the name up; tell `resolved` or `lookup_failed`."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing to do before `until` unless something happens."""

    until: float


@dataclass(frozen=True, slots=True)
class Lost:
    """The race is over without a winner. `timed_out`: at the deadline, not by an error."""

    timed_out: bool


Step: TypeAlias = Start[A] | Abandon | Resolve | Pause | Lost
