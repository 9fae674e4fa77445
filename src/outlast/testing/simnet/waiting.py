"""One wait in virtual time, whoever it is for: what is watched, and when it is over.

Threads, tasks and background actors wait in the same way; they differ in what happens when the
wait is over. Sources tell their watchers when something about them has changed, and are asked what
is ready. Refuses to tell of anything twice.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from outlast.net.seam import Interest, Ready, Wait
from outlast.testing.simnet.timeline import Timeline, Timer

__all__ = ["MICRO", "Attention", "Clock", "SimWaiter", "Source", "enrol", "look"]

MICRO = 1_000_000


class Clock:
    """The timeline's time in seconds, as callers have it: never before what was waited for.

    The timeline counts microseconds, deadlines are floats in between. A wait is over at the
    nearest microsecond, and the clock then reads what was waited for, if that is later.
    """

    __slots__ = ("_reached", "timeline", "waits")

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.waits: dict[Attention, None] = {}  # those under way
        self._reached = 0.0

    def now(self) -> float:
        """Seconds since the simulation began."""
        now = self.timeline.now / MICRO
        return max(self._reached, now)

    def micros(self, until: float) -> int | None:
        """The microsecond nearest to `until`; None for never."""
        return None if until == math.inf else round(until * MICRO)

    def reached(self, until: float) -> None:
        """A wait for `until` is over."""
        if until > self._reached:
            self._reached = until

    def after(self, until: float, action: Callable[[], object]) -> Timer | None:
        """Have `action` run at `until`; None for never."""
        when = self.micros(until)
        if when is None:
            return None

        def due() -> None:
            self.reached(until)
            action()

        return self.timeline.at(when, due, "wait")


class Source(Protocol):
    """What can be waited for."""

    watchers: list[Attention]

    def ready(self, mask: int) -> bool:
        """Whether something of `mask` is possible now."""


# Streams by their numbers, so that a layer above one (TLS) is waited for as what is below it.
_streams: weakref.WeakValueDictionary[int, Source] = weakref.WeakValueDictionary()
_numbers = itertools.count(1_000_000)  # no descriptor of a process is as high


def enrol(stream: Source) -> int:
    """A number for a stream."""
    number = next(_numbers)
    _streams[number] = stream
    return number


def _below(source: Any) -> Source | None:
    """What is really waited for; None if it is closed."""
    if hasattr(source, "watchers"):
        found: Source = source
        return found
    return _streams.get(source.fileno())


def _is_ready(source: Any, mask: int) -> bool:
    below = _below(source)
    return below is None or below.ready(mask)


def look(interests: Sequence[Interest]) -> list[Any]:
    """What is ready now, each once."""
    if len(interests) == 1:
        source, mask = interests[0]
        return [source] if _is_ready(source, mask) else []
    found: dict[Any, None] = {}
    for source, mask in interests:
        if source not in found and _is_ready(source, mask):
            found[source] = None
    return list(found)


class Attention:
    """A wait under way: calls `over` once, when something is ready or the time has come."""

    __slots__ = ("_among", "_over", "_sources", "_timer", "done", "ready", "wait", "who")

    def __init__(self, clock: Clock, wait: Wait, over: Callable[[], object], who: str) -> None:
        self._among = clock.waits
        self._among[self] = None
        self.wait = wait
        self.who = who
        self.ready: Ready = ()
        self.done = False
        self._over = over
        below = [_below(source) for source, _ in wait.interests]
        self._sources = [source for source in below if source is not None]
        for source in self._sources:
            source.watchers.append(self)
        self._timer = clock.after(wait.until, self._late)

    def notice(self) -> None:
        """Something about one of the sources has changed."""
        if not self.done:
            self.ready = look(self.wait.interests)
            if self.ready:
                self._finish()

    def _late(self) -> None:
        if not self.done:
            self._finish()

    def _finish(self) -> None:
        self.cancel()
        self._over()

    def cancel(self) -> None:
        """Nobody waits any more. Idempotent."""
        if not self.done:
            self.done = True
            self._among.pop(self, None)
            for source in self._sources:
                source.watchers.remove(self)
            if self._timer is not None:
                self._timer.cancel()


class SimWaiter:
    """A place to park; see `outlast.net.seam.Waiter`. `post` takes what another thread does."""

    __slots__ = ("_post", "watchers", "woken")

    def __init__(self, post: Callable[[Callable[[], object]], None]) -> None:
        self._post = post
        self.woken = False
        self.watchers: list[Attention] = []

    def ready(self, _mask: int) -> bool:
        """Whether it was woken."""
        return self.woken

    def wake(self) -> None:
        """See `Waiter.wake`."""
        if not self.woken:
            self.woken = True
            self._post(self._tell)

    def _tell(self) -> None:
        for attention in tuple(self.watchers):
            attention.notice()

    def __repr__(self) -> str:
        return f"<waiter{' (woken)' if self.woken else ''}>"
