"""The event loop of a pod's process: asyncio, carried on by the timeline.

It has no thread and never waits: when something of it is due, an event of the timeline runs it for
one round. So any number of pods live beside whatever loop or threads the client has. A frozen
process is not run; what was due meanwhile is run when it is thawed.

Source: asyncio.base_events. Refuses real input and output, as the client's loop does.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from outlast.testing.simnet.bare_loop import BareLoop
from outlast.testing.simnet.simulation import Simulation
from outlast.testing.simnet.stall import SimStalled
from outlast.testing.simnet.timeline import Timer
from outlast.testing.simnet.waiting import MICRO

__all__ = ["PodLoop"]

ROUNDS = 100  # that a process which is ended gets to end its tasks


class PodLoop(BareLoop):
    """The loop of one process, from its start to its end. `name` is its worker's name."""

    quiet = True

    def __init__(self, simulation: Simulation, name: str, *, foreign: bool) -> None:
        super().__init__(simulation.clock)
        simulation.loops.add(self)
        self._simulation = simulation
        self.process = name
        self.foreign = foreign  # it runs somebody's program, which may use threads
        self._timer: Timer | None = None
        self._inside = self._frozen = self._dead = False
        base: Any = self
        base.call_soon = self._call_soon_and_arm
        base.call_at = self._call_at_and_arm

    # -- what is due -----------------------------------------------------------------------

    def deliver(self, action: Callable[[], object]) -> None:
        """Have something from outside happen in this process."""
        if not self._dead:
            self.call_soon(action, context=contextvars.Context())

    def _call_soon_and_arm(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        """As asyncio's own; the next round is now."""
        handle = super().call_soon(callback, *args, context=context)
        if not self._inside:
            self._arm()
        return handle

    def _call_at_and_arm(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        """As asyncio's own; the next round is then."""
        handle = super()._call_at(when, callback, *args, context=context)
        if not self._inside:
            self._arm()
        return handle

    def _write_to_self(self) -> None:
        """Something was handed in, maybe by another thread."""
        if not self._inside:
            self._simulation.do(self._arm)

    def _arm(self) -> None:
        """Have the next round run when something is due."""
        due = self.next_due()
        if self._frozen or self._dead or due == math.inf:
            return
        timeline, clock = self._simulation.timeline, self._simulation.clock
        when = timeline.now if due <= clock.now() else round(due * MICRO)
        timer = self._timer
        if timer is not None and timer.active:
            if timer.when <= when:
                return
            timer.cancel()
        self._timer = timeline.at(when, self._round, self.process)

    def _round(self) -> None:
        if self._frozen or self._dead:
            return
        clock = self._simulation.clock
        due = self.next_due()
        if math.isfinite(due) and round(due * MICRO) == clock.timeline.now:
            clock.reached(due)  # within this very microsecond
        with self._current():
            self.run_once()
        if self.foreign:
            self._simulation.turns.outsiders.ran()
        self._arm()

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        """Be this thread's event loop, whichever other is."""
        outer, hooks = asyncio._get_running_loop(), sys.get_asyncgen_hooks()
        sniffio: Any = sys.modules.get("sniffio")
        library = sniffio.thread_local.name if sniffio is not None else None
        base: Any = self
        asyncio._set_running_loop(self)
        sys.set_asyncgen_hooks(base._asyncgen_firstiter_hook, base._asyncgen_finalizer_hook)
        if sniffio is not None:
            sniffio.thread_local.name = "asyncio"
        base._thread_id = threading.get_ident()
        self._inside = True
        self._simulation.step_of(self.process)
        try:
            yield
        finally:
            self._simulation.step_of("")
            self._inside = False
            base._thread_id = None
            if sniffio is not None:
                sniffio.thread_local.name = library
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(outer)

    def __del__(self) -> None:
        """Nothing is held: a loop that is not closed is no leak."""

    def release_threads(self) -> None:
        """Have idle worker threads end that anyio keeps for this loop's tasks: they would keep
        the interpreter from ending."""
        for thread in threading.enumerate() if self.foreign else ():
            stop: Any = getattr(thread, "stop", None)
            if getattr(thread, "loop", None) is self and callable(stop):
                stop()

    # -- the life of the process -----------------------------------------------------------

    def freeze(self) -> None:
        """Stop."""
        self._frozen = True

    def thaw(self) -> None:
        """Go on."""
        self._frozen = False
        self._arm()

    def end(self, vanish: Callable[[], None]) -> None:
        """The process is gone: its tasks end where they stand. Nothing that they do is seen.
        `vanish` lets go of its connections.

        A real process would not even run its `finally` blocks; here they run, to nobody's notice.
        """
        if self._dead:
            return
        self._dead = True
        if self._inside:  # by one of its own tasks, which is under way
            self._simulation.timeline.after(0, lambda: self._bury(vanish), self.process)
        else:
            self._bury(vanish)

    def _bury(self, vanish: Callable[[], None]) -> None:
        with self._current():
            vanish()
            for _ in range(ROUNDS):
                tasks = asyncio.all_tasks(self)
                for task in sorted(tasks, key=hash):
                    task.cancel()
                if not tasks and not self.ready:
                    break
                self.run_once()
        self.release_threads()
        self.close()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """As asyncio's own; a process that is gone has nobody to tell, and whoever began a run that
        cannot go on is told of it."""
        if not self._dead and not isinstance(context.get("exception"), SimStalled):
            super().call_exception_handler(context)
