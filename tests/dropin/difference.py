"""What a difference between a plain client and one over outlast is, where it is for the better."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ASYNCIO", "LOOPS", "LUCK", "SAME", "THREADS", "Better"]

SAME = "the same words"  # for `plain` and `ours`: they differ in detail only
LUCK = ()  # for `plain`: what httpx does is luck all through, so it is not even asked


@dataclass(frozen=True)
class Better:
    """A difference. `why`: its key in `REASONS`. `plain`: what httpx does, in the words of
    `Record.words`, one of these where that is luck; `ours`: what outlast does. `worlds` and
    `families`: where; elsewhere both do the same. `sometimes`: httpx may do the same too, as luck
    has it."""

    why: str
    plain: str | tuple[str, ...]
    ours: str
    worlds: frozenset[str] = frozenset({"threads", "asyncio", "trio"})
    families: frozenset[str] = frozenset({"httpx", "httpx2"})
    sometimes: bool = False

    def holds(self, world: str, family: str) -> bool:
        """Whether there is such a difference in this world."""
        return world in self.worlds and family in self.families

    def fits(self, plain: str, ours: str) -> bool:
        """Whether this is the difference."""
        if self.ours == SAME:
            return plain == ours
        known = (self.plain,) if isinstance(self.plain, str) else self.plain
        return plain in known and ours == self.ours


ASYNCIO = frozenset({"asyncio"})
THREADS = frozenset({"threads"})
LOOPS = frozenset({"asyncio", "trio"})
