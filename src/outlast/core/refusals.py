"""Which addresses have just answered a dial with an error, for all races of one target.

Where every endpoint is gone and the re-dial bucket is empty, each call would still dial every
address once, and multiply the dials by their number just when a server comes up again. What one
race was told a moment ago is true for the next: only an address of which nobody has had such an
answer for half a second is worth an extra dial then. So each is still tried twice a second however
many calls there are, and found as soon as it returns.

Refuses to speak of silence, which `core.race` waits for, and of the first dial of a race, which
is always free. Knows addresses only as opaque values. Not thread-safe.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

__all__ = ["Refusals"]

LIFE = 0.5  # seconds; an endpoint that returns is to be found within a second
MOST = 1024  # addresses; those that refused longest ago are forgotten first


class Refusals:
    """The last refusals of one target's addresses."""

    __slots__ = ("_at",)

    def __init__(self) -> None:
        self._at: dict[Hashable, float] = {}  # the oldest first

    def refused(self, address: Hashable, now: float) -> None:
        """A dial of `address` has ended with an error."""
        self._at.pop(address, None)
        self._at[address] = now
        if len(self._at) > MOST:
            del self._at[next(iter(self._at))]

    def lately(self, address: Hashable, now: float) -> bool:
        """Whether another dial of `address` would be told the same."""
        return now - self._at.get(address, -math.inf) < LIFE
