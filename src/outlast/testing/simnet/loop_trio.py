"""trio in virtual time: a clock that gives the turn away when trio asks how long to sleep.

trio asks its clock for the time to sleep exactly when no task can run; by the time the clock has
answered "not at all", virtual time has passed and somebody can. That is trio's public interface.

The order in which tasks run that are ready at the same time is trio's secret, and random. Here it
is the order of their making: trio's own switch for deterministic tests (in `trio._core._run`, where
it is set under Hypothesis) is on during the run, with a shuffle that does not shuffle. Where a trio
has no such switch `in_order` says so, and the order of the tasks of one instant is trio's.

Refuses to let trio wait for real descriptors while virtual time goes on.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import trio

from outlast.net.seam import Ready, Wait
from outlast.testing.simnet.stall import SimStalled
from outlast.testing.simnet.turns import Turns
from outlast.testing.simnet.waiting import Attention, Clock

__all__ = ["SimTrioClock", "in_order", "wait_in_trio"]

A_MOMENT = 1e-6  # real seconds: less than nothing, but enough for trio to find itself idle


class SimTrioClock(trio.abc.Clock, trio.abc.Instrument):
    """The clock of one trio run, in the thread that has the turn; an instrument of it too.

    `stalled` is called when virtual time cannot go on: an error raised here would be taken for
    trio's own.
    """

    def __init__(self, turns: Turns, clock: Clock, stalled: Callable[[], object]) -> None:
        self.turns = turns
        self.party = turns.enter()
        self.party.polls = True  # trio is woken through a descriptor of its own
        self._clock = clock
        self._stalled = stalled
        self._stepped = True  # a task has run since trio was idle last

    def start_clock(self) -> None:
        """The simulation's time runs already."""

    def current_time(self) -> float:
        """The simulation's time, in seconds."""
        return self._clock.now()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Give the turn away until some task can run, or the deadline has come."""
        if self._stepped:  # first a look at what other threads may have handed in
            self._stepped = False
            return 0.0
        if _somebody_waits_for_idleness():
            return A_MOMENT
        if not self.party.inbox and deadline > self._clock.now():
            self._rest(deadline)
        self._do()
        return 0.0

    def _rest(self, deadline: float) -> None:
        when = self._clock.micros(deadline)
        if self.turns.failure is None:
            try:
                self.turns.park(self.party, when)
            except SimStalled:
                self._stalled()
                return
        elif when is None:
            raise self.turns.failure.anew()
        else:  # the last deeds of cancelled tasks
            self._clock.timeline.advance(when)
        if when is not None and self._clock.timeline.now >= when:
            self._clock.reached(deadline)

    def before_io_wait(self, timeout: float) -> None:
        """trio: tasks can run. Others have their turn first."""
        if self.turns.failure is not None:
            self._stalled()
        elif timeout == 0:
            self.turns.breathe(self.party)
            self._do()

    def before_task_step(self, _task: trio.lowlevel.Task) -> None:
        """trio: a task goes on."""
        self._stepped = True

    def _do(self) -> None:
        inbox, self.party.inbox = self.party.inbox, []
        for action in inbox:
            action()

    def deliver(self, action: Callable[[], object]) -> None:
        """Have `action` run in trio's thread. Called by whoever has the turn."""
        self.party.inbox.append(action)
        self.turns.wake(self.party)


def _somebody_waits_for_idleness() -> bool:
    """Whether a task is in `trio.testing.wait_all_tasks_blocked`: before time goes on, it is told.

    Only trio's inner state tells.
    """
    context = importlib.import_module("trio._core._run").GLOBAL_RUN_CONTEXT
    return bool(getattr(getattr(context, "runner", None), "waiting_for_idle", ()))


class _InOrder(Random):
    """In the place of trio's generator: its shuffle leaves the order, of which trio takes the end
    first."""

    def shuffle(self, x: Any, *_random: Any) -> None:
        """From last to first."""
        x.reverse()


@contextlib.contextmanager
def in_order() -> Iterator[bool]:
    """Have trio run the tasks of one instant in the order of their making; whether it can."""
    run: Any = importlib.import_module("trio._core._run")
    names = ("_ALLOW_DETERMINISTIC_SCHEDULING", "_r")
    if not all(hasattr(run, name) for name in names):
        yield False
        return
    before = [getattr(run, name) for name in names]
    run._ALLOW_DETERMINISTIC_SCHEDULING, run._r = True, _InOrder(0)
    try:
        yield True
    finally:
        run._ALLOW_DETERMINISTIC_SCHEDULING, run._r = before


async def wait_in_trio(sim: SimTrioClock, clock: Clock, wait: Wait, who: str) -> Ready:
    """Suspend the running task until something of `wait` is ready or its time has come."""
    task = trio.lowlevel.current_task()
    waiting = True

    def resume() -> None:
        if waiting:
            trio.lowlevel.reschedule(task)

    def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
        nonlocal waiting
        waiting = False
        attention.cancel()
        return trio.lowlevel.Abort.SUCCEEDED

    attention = Attention(clock, wait, lambda: sim.deliver(resume), who)
    await trio.lowlevel.wait_task_rescheduled(abort)
    return attention.ready
