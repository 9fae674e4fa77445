"""asyncio in virtual time: a loop whose waiting is a turn given away.

All else is asyncio's own, see `bare_loop`. What other threads hand in wakes it.

Source: asyncio.base_events. Refuses what `bare_loop` refuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from outlast.net.seam import Ready, Wait
from outlast.testing.simnet.bare_loop import BareLoop
from outlast.testing.simnet.stall import SimStalled
from outlast.testing.simnet.timeline import Timer
from outlast.testing.simnet.turns import Party, Turns
from outlast.testing.simnet.waiting import Attention, Clock

__all__ = ["Deliverer", "SimLoop", "wait_in_asyncio"]


class _Selector:
    """What the loop waits by."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        """Give the turn away until something is to be done, or the time has come."""
        self._loop.rest(timeout)
        return []

    def close(self) -> None:
        """Nothing is held."""


class SimLoop(BareLoop):
    """An event loop of one simulation, to be run in the thread that has the turn."""

    def __init__(self, turns: Turns, clock: Clock) -> None:
        super().__init__(clock)
        self.turns = turns
        self.party: Party = turns.enter()
        self._told = False
        self._resting = False
        self._due: dict[int, Timer] = {}  # events of the timeline, by the numbers of our timers
        base: Any = self
        base._selector = _Selector(self)
        base.call_at = self._call_at_and_note

    def _call_at_and_note(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        """As asyncio's own. Its event is made now, so that it stands among others of the same
        instant where a thread's would."""
        handle = super()._call_at(when, callback, *args, context=context)
        event = self._clock.after(when, lambda: self._ring(handle.order))
        if event is not None:
            self._due[handle.order] = event
        return handle

    def _ring(self, number: int) -> None:
        self._due.pop(number, None)
        self.turns.wake(self.party)

    def _timer_handle_cancelled(self, handle: Any) -> None:
        """asyncio: a timer was cancelled."""
        base: Any = super()
        base._timer_handle_cancelled(handle)
        event = self._due.pop(handle.order, None)
        if event is not None:
            event.cancel()

    def close(self) -> None:
        """See asyncio."""
        super().close()
        for event in self._due.values():
            event.cancel()
        self._due.clear()

    def rest(self, timeout: float | None) -> None:
        """Wait as `select` does, and do what came meanwhile."""
        self._resting = True
        try:
            self._rest(timeout)
        finally:
            self._resting = False

    def _rest(self, timeout: float | None) -> None:
        if self.turns.failure is not None:
            self._end(timeout)
        elif timeout is not None and timeout <= 0:
            self.turns.breathe(self.party)
        elif not self.party.inbox:  # its timers are events of the timeline
            try:
                self.turns.park(self.party, None)
            except SimStalled:
                self._told = True
                raise
        inbox, self.party.inbox = self.party.inbox, []
        for action in inbox:
            action()

    def _end(self, timeout: float | None) -> None:
        """Virtual time could not go on: say so once, then let cancelled tasks do their last."""
        failure = self.turns.failure
        assert failure is not None
        told, self._told = self._told, True
        if not told or (timeout is None and not self.party.inbox):
            raise failure.anew()
        if timeout:
            self._clock.timeline.advance(self._clock.timeline.now + round(timeout * 1e6))

    def deliver(self, action: Callable[[], object]) -> None:
        """Have `action` run in the loop's thread. Called by whoever has the turn.

        One task that wakes another does it at once: the other is in line before what comes later.
        """
        if not self._resting and asyncio._get_running_loop() is self:
            action()
            return
        self.party.inbox.append(action)
        self.turns.wake(self.party)

    def _write_to_self(self) -> None:
        """Something was handed in by `call_soon_threadsafe`, maybe from another thread."""
        self.turns.post(lambda: self.deliver(_nothing))


class Deliverer(Protocol):
    """A loop that takes things in between its own rounds."""

    def create_future(self) -> asyncio.Future[Any]:
        """See asyncio."""

    def deliver(self, action: Callable[[], object]) -> None:
        """Have `action` run in the loop."""


def _nothing() -> None:
    return


async def wait_in_asyncio(loop: Deliverer, clock: Clock, wait: Wait, who: str) -> Ready:
    """Suspend the running task until something of `wait` is ready or its time has come."""
    future: asyncio.Future[Ready] = loop.create_future()

    def over() -> None:
        ready = attention.ready
        loop.deliver(lambda: None if future.done() else future.set_result(ready))

    attention = Attention(clock, wait, over, who)
    try:
        return await future
    finally:
        attention.cancel()
