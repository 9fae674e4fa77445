"""Chance that does not depend on who asks first: every draw has a name and a number.

A draw is a function of (seed, name, ordinal) only, the same on every Python and in every order of
asking. Source: BLAKE2b (RFC 7693) for single draws, `random.Random` seeded by text, which hashes it
with SHA-512, for long ones. Refuses shared generators.
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random

__all__ = ["Draws"]

_SCALE = 2.0**-53


class Draws:
    """The chance of one simulated world."""

    __slots__ = ("_prefix", "seed")

    def __init__(self, seed: int | str) -> None:
        self.seed = seed
        self._prefix = f"{seed}/"

    def uniform(self, name: str, ordinal: int = 0) -> float:
        """A number in [0, 1)."""
        key = f"{self._prefix}{name}/{ordinal}".encode()
        return (int.from_bytes(blake2b(key, digest_size=8).digest(), "big") >> 11) * _SCALE

    def below(self, limit: int, name: str, ordinal: int = 0) -> int:
        """A whole number from 0 to `limit` - 1."""
        return int(self.uniform(name, ordinal) * limit)

    def between(self, low: int, high: int, name: str, ordinal: int = 0) -> int:
        """A whole number from `low` to `high`."""
        return low + self.below(high - low + 1, name, ordinal)

    def rng(self, name: str) -> Random:
        """A generator of its own for whatever goes by `name`."""
        return Random(f"{self._prefix}{name}")
