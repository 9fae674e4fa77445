"""trio in virtual time: a clock that gives the turn away when trio asks how long to sleep.

trio asks its clock for the time to sleep exactly when no task can run; by the time the clock has
answered "not at all", virtual time has passed and somebody can. That is trio's public interface.

The order in which tasks run that are ready at the same time is trio's secret, and random. Here it
is the order in which they became ready, as in asyncio: trio's own switch for deterministic tests
(in `trio._core._run`, where it is set under Hypothesis) is on during the run, with a shuffle that
puts them in order. Tasks that one cancellation or one deadline has made ready together come in the
order of their making, or of their going to sleep. Where a trio has no such switch the order of the
tasks of one instant is trio's.

Refuses to let trio wait for real descriptors while virtual time goes on.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import trio

from outlast.net.seam import Ready, Wait
from outlast.testing.simnet.shared import SharedChange
from outlast.testing.simnet.stall import SimStalled
from outlast.testing.simnet.timeline import Timer
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
        self._rested = False  # the turn was given away just now
        self._steps = itertools.count()
        self._step = 0
        self._running = False  # some task's step is under way
        self._made: dict[Any, int] = {}  # tasks, by the order of their making
        self._slept: dict[Any, int] = {}  # and the step in which they went to wait
        self._woken: dict[Any, tuple[int, int]] = {}
        self._events: dict[
            Any, Timer
        ] = {}  # of the timeline, by the scopes whose deadlines they are
        self._notes = False  # every deadline has one

    def start_clock(self) -> None:
        """The simulation's time runs already. From here on deadlines are events of its own."""
        runner: Any = getattr(_context(), "runner", None)
        found = getattr(runner, "deadlines", None)
        if hasattr(found, "add") and hasattr(found, "remove"):
            runner.deadlines = _noted(found, self._clock, self._events, self._wake)
            self._notes = True

    def _wake(self) -> None:
        self.turns.wake(self.party)

    def stop_clock(self) -> None:
        """The run is over."""
        for event in self._events.values():
            event.cancel()

    def tasks(self) -> list[tuple[Any, str, Any]]:
        """The tasks that have waited in it, their names, and what they carry out."""
        return [(task, task.name, task.coro) for task in tuple(self._slept)]

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
        self._rested = True
        if self.turns.failure is None:
            try:
                self.turns.park(self.party, None if self._notes else when)
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
        elif self._rested:
            self._rested = False
        elif timeout == 0:
            self.turns.breathe(self.party)
            self._do()

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """trio: there is a new task."""
        self._made[task] = len(self._made)

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        """trio: a task has ended."""
        self._slept.pop(task, None)
        self._woken.pop(task, None)

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """trio: a task has become ready."""
        place = self._made.get(task, 0) if self._running else self._slept.get(task, 0)
        self._woken[task] = (self._step, place)

    def before_task_step(self, _task: trio.lowlevel.Task) -> None:
        """trio: a task goes on."""
        self._stepped = self._running = True
        self._step = next(self._steps)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """trio: a task waits again, or has ended."""
        self._running = False
        self._step = self._slept[task] = next(self._steps)

    def order(self, tasks: list[Any]) -> None:
        """Put tasks that are ready into the order in which they shall run, the last one first."""
        tasks.sort(key=lambda task: self._woken.get(task, (0, 0)), reverse=True)

    def _do(self) -> None:
        inbox, self.party.inbox = self.party.inbox, []
        for action in inbox:
            self._step = next(self._steps)
            action()

    def deliver(self, action: Callable[[], object]) -> None:
        """Have `action` run in trio's thread. Called by whoever has the turn.

        One task that wakes another does it at once: the other is in line before what comes later.
        """
        if self._running:
            self._step = next(self._steps)
            action()
            self._step = next(self._steps)
            return
        self.party.inbox.append(action)
        self.turns.wake(self.party)


def _somebody_waits_for_idleness() -> bool:
    """Whether a task is in `trio.testing.wait_all_tasks_blocked`: before time goes on, it is told.

    Only trio's inner state tells.
    """
    return bool(getattr(getattr(_context(), "runner", None), "waiting_for_idle", ()))


def _context() -> Any:
    return importlib.import_module("trio._core._run").GLOBAL_RUN_CONTEXT


def _noted(
    deadlines: Any, clock: Clock, events: dict[Any, Timer], wake: Callable[[], object]
) -> Any:
    """trio's deadlines, each with an event that is made when it is: so it stands among others of
    the same instant where a thread's would."""
    kind: Any = type(deadlines)

    class Noted(kind):  # type: ignore[misc]  # a class of trio's own
        def add(self, deadline: float, cancel_scope: Any) -> None:
            super().add(deadline, cancel_scope)
            event = clock.after(deadline, wake)
            if event is not None:
                events[cancel_scope] = event

        def remove(self, deadline: float, cancel_scope: Any) -> None:
            super().remove(deadline, cancel_scope)
            event = events.pop(cancel_scope, None)
            if event is not None:
                event.cancel()

    return Noted()


_clocks: dict[int, SimTrioClock] = {}  # those that are in use, by their threads


class _InOrder(Random):
    """In the place of trio's generator: its shuffle puts tasks in order, on our clocks."""

    def shuffle(self, x: Any, *_random: Any) -> None:
        """trio takes the last one first."""
        clock = _clocks.get(threading.get_ident())
        if clock is None:
            super().shuffle(x)
        else:
            clock.order(x)


def _order_tasks() -> Callable[[], None]:
    """Have trio ask for the order of the tasks of one instant; where it has no switch, nothing."""
    run: Any = importlib.import_module("trio._core._run")
    names = ("_ALLOW_DETERMINISTIC_SCHEDULING", "_r")
    before = {name: getattr(run, name) for name in names if hasattr(run, name)}
    if len(before) == len(names):
        run._ALLOW_DETERMINISTIC_SCHEDULING, run._r = True, _InOrder()

    def undo() -> None:
        for name, value in before.items():
            setattr(run, name, value)

    return undo


_IN_ORDER = SharedChange(_order_tasks)


@contextlib.contextmanager
def in_order(clock: SimTrioClock) -> Iterator[None]:
    """Have this thread's trio run the tasks of one instant in a fixed order."""
    ident = threading.get_ident()
    _clocks[ident] = clock
    try:
        with _IN_ORDER:
            yield
    finally:
        del _clocks[ident]
        clock.stop_clock()


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
