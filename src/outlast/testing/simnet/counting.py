"""Faults at the n-th segment: count what is sent, and act just before one of them goes out.

Source: none needed. A count ends with its action; while it lasts, idle connections do not rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec

if TYPE_CHECKING:
    from outlast.testing.simnet.fabric import Fabric
    from outlast.testing.simnet.packet import Segment

__all__ = ["SegmentCount"]

_P = ParamSpec("_P")


class SegmentCount:
    """Segments of a kind, to be counted. Made by `World.when`."""

    def __init__(self, fabric: Fabric, counted: Callable[[Segment], bool]) -> None:
        self._fabric = fabric
        self._counted = counted

    def at_segment(
        self, number: int, fn: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs
    ) -> None:
        """Call `fn` when the `number`-th of them from now (1 is the next) is about to be sent."""
        if number < 1:
            raise ValueError(f"segment {number!r}: the next one is 1; right: at_segment(3, fn)")
        left = number

        def tap(segment: Segment) -> Callable[[], object] | None:
            nonlocal left
            if self._counted(segment):
                left -= 1
                if not left:
                    self._fabric.taps.remove(tap)
                    return lambda: fn(*args, **kwargs)
            return None

        self._fabric.disturbed()
        self._fabric.taps.append(tap)
