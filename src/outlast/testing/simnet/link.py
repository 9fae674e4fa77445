"""A host's cable to the fabric: how long packets take, which are lost, and which come too late.

`towards` is the direction to the host, `away` the other. Loss and lateness are drawn for each
packet by the name of its connection and its number in it. Everything that changes a link tells the
fabric, so that connections which rest wake up.

Source: none needed; a link is what tc-netem(8) makes of one. Refuses duplication and corruption.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from outlast.testing.simnet.packet import Segment

if TYPE_CHECKING:
    from outlast.testing.simnet.draws import Draws
    from outlast.testing.simnet.middlebox import Middlebox

__all__ = ["Direction", "Link"]

DELAY = 25  # microseconds, one way; two links make a round trip of 0.1 ms, as on one switch


class Direction:
    """One way of a link."""

    __slots__ = ("_draws", "_name", "_numbers", "delay", "hole", "late", "late_by", "loss", "rules")

    def __init__(self, name: str, draws: Draws) -> None:
        self._name = name
        self._draws = draws
        self._numbers: dict[str, int] = {}
        self.delay = DELAY
        self.loss = 0.0  # the share of packets that are lost
        self.late = 0.0  # the share of packets that others overtake, and
        self.late_by = 0  # by how much they come late, microseconds
        self.hole = False  # everything is lost
        self.rules: list[Callable[[Segment], bool]] = []  # what any of these says is lost

    @property
    def plain(self) -> bool:
        """Whether every packet gets through, in order."""
        return not (self.hole or self.loss or self.late or self.rules)

    def judge(self, segment: Segment) -> int | None:
        """The delay of a packet; None if it is lost."""
        if self.hole:
            return None
        for rule in self.rules:
            if rule(segment):
                return None
        if not self.loss and not self.late:
            return self.delay
        number = self._numbers.get(segment.label, 0)
        self._numbers[segment.label] = number + 1
        name = f"{self._name}/{segment.label}"
        if self.loss and self._draws.uniform(f"loss/{name}", number) < self.loss:
            return None
        if self.late and self._draws.uniform(f"late/{name}", number) < self.late:
            return self.delay + self.late_by
        return self.delay


class Link:
    """One host's cable."""

    __slots__ = ("_changed", "away", "box", "plugged", "routed", "towards")

    def __init__(self, name: str, draws: Draws, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.towards = Direction(f"to {name}", draws)
        self.away = Direction(f"from {name}", draws)
        self.plugged = True
        self.box: Middlebox | None = None
        self.routed = False  # behind a router, which answers for its address whatever happens

    @property
    def plain(self) -> bool:
        """Whether every packet gets through, in order, and nobody takes note of it."""
        return self.plugged and self.box is None and self.towards.plain and self.away.plain

    def put(self, box: Middlebox | None) -> None:
        """Put a box in the way, or take it out."""
        self._changed()
        self.box = box

    def slow(self, extra: int) -> None:
        """Have packets towards the host take `extra` microseconds longer than usual."""
        self._changed()
        self.towards.delay = DELAY + extra
