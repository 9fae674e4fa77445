"""What a race tells of while it is under way, to whoever asked for it in its `DialRequest`.

Values, told without a lock where they happen. Nothing is made where nobody asked: the report of
the call has the same, and is there always. Refuses to tell of what was merely late: a dial that
lost its race before others would have had an answer has not failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from outlast.core.race import Bucket
from outlast.net.address import Address

__all__ = ["DialEnded", "DialNews", "LookupEnded", "RedialRefused", "TellingBucket", "Told"]


@dataclass(frozen=True, slots=True)
class LookupEnded:
    """A look-up of a name has ended. `seconds`: it took. `error`: "" if there was none."""

    at: float
    name: str
    seconds: float
    addresses: Sequence[Address]
    error: str


@dataclass(frozen=True, slots=True)
class DialEnded:
    """A dial has failed, or was given up unanswered (`errno` None). `phase`: "connect" or
    "handshake". `seconds`: since it began."""

    at: float
    address: Address
    phase: str
    why: str
    seconds: float
    errno: int | None
    local_port: int


@dataclass(frozen=True, slots=True)
class RedialRefused:
    """An extra dial has to wait, because the re-dial bucket is empty. Once per race."""

    at: float


DialNews: TypeAlias = LookupEnded | DialEnded | RedialRefused
Told: TypeAlias = Callable[[DialNews], None]


class TellingBucket:
    """The re-dial bucket, for whoever wants to hear that it is empty; told once per race."""

    def __init__(self, bucket: Bucket, told: Told) -> None:
        self._bucket = bucket
        self._told: Told | None = told
        self.won = bucket.won

    def take(self, now: float) -> bool:
        """See `core.race.Bucket`."""
        granted = self._bucket.take(now)
        if not granted and self._told is not None:
            told, self._told = self._told, None
            told(RedialRefused(now))
        return granted
