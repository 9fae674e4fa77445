"""Virtual time: what happens when, in one order that nothing but the program decides.

Events run by (when, order of making), so two of one instant run as they were made. Time is an
integer of microseconds: sums are exact, and the same on every Python. Nothing here waits, and
nothing reads a clock. Refuses to go back: what is due before now runs now.

Not thread-safe: one thread at a time, see `turns`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

__all__ = ["Timeline", "Timer"]

# A heap is cleared of cancelled entries when they are most of it, and it is at least this long.
_SWEEP = 256


class Timer:
    """One event to come; `cancel` it while it has not run."""

    __slots__ = ("_timeline", "action", "name", "order", "when")

    def __init__(
        self, timeline: Timeline, when: int, order: int, action: Callable[[], object], name: str
    ) -> None:
        self._timeline = timeline
        self.when = when
        self.order = order
        self.action: Callable[[], object] | None = action
        self.name = name

    @property
    def active(self) -> bool:
        """Whether it is still to come."""
        return self.action is not None

    def cancel(self) -> None:
        """Have nothing happen. Idempotent; nothing once it has run."""
        if self.action is not None:
            self.action = None
            self._timeline.dropped()

    def __lt__(self, other: Timer) -> bool:
        return (self.when, self.order) < (other.when, other.order)

    def __repr__(self) -> str:
        return f"<Timer {self.name or '?'} at {self.when} us{'' if self.active else ' (over)'}>"


class Timeline:
    """The events of one simulation, and its clock."""

    __slots__ = ("_cancelled", "_heap", "_made", "now")

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Timer]] = []
        self._made = 0
        self._cancelled = 0  # entries of the heap that will not run

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def at(self, when: int, action: Callable[[], object], name: str = "") -> Timer:
        """Have `action` run at `when` microseconds; now, if that is past."""
        self._made += 1
        timer = Timer(self, max(when, self.now), self._made, action, name)
        heapq.heappush(self._heap, (timer.when, timer.order, timer))
        return timer

    def after(self, delay: int, action: Callable[[], object], name: str = "") -> Timer:
        """Have `action` run `delay` microseconds from now."""
        return self.at(self.now + delay, action, name)

    def next_at(self) -> int | None:
        """When the next event is due; None if there is none."""
        heap = self._heap
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else None

    def run_next(self) -> None:
        """Jump to the next event and run it. Raises IndexError if there is none."""
        if self.next_at() is None:
            raise IndexError("the timeline is empty: nothing is to come")
        timer = heapq.heappop(self._heap)[2]
        action, timer.action = timer.action, None
        self.now = timer.when
        if action is not None:
            action()

    def advance(self, when: int) -> None:
        """Let time pass to `when`, running what is due on the way, also what that makes due."""
        while (due := self.next_at()) is not None and due <= when:
            self.run_next()
        self.now = max(self.now, when)

    def dropped(self) -> None:
        """Hear that one entry will not run."""
        self._cancelled += 1
        if self._cancelled > _SWEEP and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0
