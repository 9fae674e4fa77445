"""Who may come in, decided: how many connections, how many at the door, and pauses.

Where the process has run out of descriptors, accepting again at once would spin: a listener stays
readable. So the gate is closed for a moment, longer each time, and opened at once when somebody
leaves. Connections that wait meanwhile are in the kernel's queue, where nothing is lost.

Reads no clock. Not thread-safe.
"""

from __future__ import annotations

import math

__all__ = ["DIALS", "Gate"]

DIALS = 256  # connections that wait for upstream at once; more wait in the kernel's queue
ROOM = 0.9  # of all places: with fewer taken, being full again is news
SHORTEST, LONGEST = 0.05, 1.0  # seconds of a pause


class Gate:
    """Counts who is in. `most`: connections at once. `open` of them are in, and `dialling` of
    those wait for upstream."""

    __slots__ = ("_dials", "_full_told", "_pause", "_until", "closed", "dialling", "most", "open")

    def __init__(self, most: int, dials: int = DIALS) -> None:
        if most < 1:
            raise ValueError(
                f"max_connections: {most!r} lets nobody in; write a number such as 1000"
            )
        self.most = most
        self._dials = dials
        self.open = 0
        self.dialling = 0
        self.closed = False  # for good
        self._full_told = False
        self._until = -math.inf
        self._pause = 0.0

    def admits(self, now: float) -> bool:
        """Whether another one may come in."""
        room = self.open < self.most and self.dialling < self._dials
        return room and not self.closed and now >= self._until

    def full_is_news(self) -> bool:
        """Whether it is the number of connections that keeps others out, and that has not been
        said since there was room to speak of."""
        if self.open < self.most:
            self._full_told = self._full_told and self.open > ROOM * self.most
            return False
        news = not self._full_told
        self._full_told = True
        return news

    @property
    def due(self) -> float:
        """When a pause ends; inf if there is none."""
        return math.inf if self._until == -math.inf else self._until

    def entered(self) -> None:
        """Somebody has come in, and waits for upstream."""
        self.open += 1
        self.dialling += 1
        self._pause = 0.0
        self._until = -math.inf

    def joined(self) -> None:
        """One of those who waited for upstream has it, or has given it up."""
        self.dialling -= 1

    def left(self) -> None:
        """Somebody has left: there is room again."""
        self.open -= 1
        self._until = -math.inf

    def no_room(self, now: float) -> float | None:
        """The process is out of descriptors or memory. How long nobody is let in, in seconds, if
        that is news; None while it has been said already."""
        news = not self._pause
        self._pause = min(LONGEST, self._pause * 2 or SHORTEST)
        self._until = now + self._pause
        return self._pause if news else None

    def close(self) -> None:
        """Nobody is let in any more."""
        self.closed = True
        self._until = -math.inf

    def opened(self, now: float) -> None:
        """The time of a pause may have come."""
        if now >= self._until:
            self._until = -math.inf
