"""A timer that is moved often and fires seldom: moving it later costs a comparison.

A connection sets its retransmission timer with every segment and hardly ever needs it. So an alarm
leaves the event it has on the timeline while that is early enough; when the event comes too soon it
only makes the next one. With `wheel` an alarm fires late, as the kernel's timer wheel does.

Refuses to repeat by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from outlast.testing.simnet.rules import rounded_expiry
from outlast.testing.simnet.timeline import Timeline, Timer

__all__ = ["Alarm"]


class Alarm:
    """Calls `ring` once when `due` has come."""

    __slots__ = ("_name", "_ring", "_timeline", "_timer", "_wheel", "due")

    def __init__(
        self, timeline: Timeline, ring: Callable[[], None], name: str, wheel: bool = False
    ) -> None:
        self._timeline = timeline
        self._ring = ring
        self._name = name
        self._wheel = wheel
        self._timer: Timer | None = None
        self.due: int | None = None  # microseconds; None: not set

    def set(self, when: int) -> None:
        """Ring at `when`, instead of any time set before."""
        now = self._timeline.now
        if self._wheel:
            when = rounded_expiry(now, when)
        self.due = when
        timer = self._timer
        if timer is None:
            self._timer = self._timeline.at(when, self._fire, self._name)
        elif timer.when > when:
            timer.cancel()
            self._timer = self._timeline.at(when, self._fire, self._name)

    def after(self, delay: int) -> None:
        """Ring in `delay` microseconds."""
        self.set(self._timeline.now + delay)

    def clear(self) -> None:
        """Do not ring. The event stays, and does nothing."""
        self.due = None

    def stop(self) -> None:
        """Do not ring, and leave nothing behind."""
        self.due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        due = self.due
        if due is None:
            return
        if due > self._timeline.now:
            self._timer = self._timeline.at(due, self._fire, self._name)
            return
        self.due = None
        self._ring()
