"""asyncio's own loop without its waiting: what loops in virtual time have in common.

Time is the simulation's. Tasks have numbers and hash by them, so that whoever keeps tasks in a set
(cancel scopes, task groups) goes through them in the same order on every run; timers of one instant
are in the order of their making.

Source: asyncio.base_events. Refuses real sockets, pipes, processes and signals: they take real
time, and what they would reach is not in the simulation.
"""

from __future__ import annotations

import asyncio
import heapq
import importlib
import math
from collections.abc import Callable, Coroutine
from typing import Any

from outlast.testing.simnet.shared import SharedChange
from outlast.testing.simnet.waiting import Clock

__all__ = ["IN_ORDER", "BareLoop"]

# Two timers are due at once if they are no further apart; well below the timeline's microsecond.
RESOLUTION = 1e-9


class _Task(asyncio.Task[Any]):
    """A task with a number of its own."""

    def __init__(self, number: int, work: Coroutine[Any, Any, Any], **given: Any) -> None:
        self.number = number
        super().__init__(work, **given)

    def __hash__(self) -> int:
        return self.number


class _TimerHandle(asyncio.TimerHandle):
    """Of two timers due at once the one made first comes first; asyncio does not say."""

    order = 0

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, _TimerHandle):
            return NotImplemented
        return (self.when(), self.order) < (other.when(), other.order)


class _Ordered(dict[Any, None]):
    """What anyio needs of a set, in the order in which things came."""

    def add(self, one: Any) -> None:
        self[one] = None

    def discard(self, one: Any) -> None:
        self.pop(one, None)

    remove = dict.__delitem__


def _order_scopes() -> Callable[[], None]:
    """Have anyio's cancel scopes cancel those within them in the order of their making.

    They keep them in a set, by their addresses in memory. An anyio that keeps them in another way
    is left as it is.
    """
    scopes: Any = importlib.import_module("anyio._backends._asyncio").CancelScope
    original = scopes.__init__

    def begin(scope: Any, *args: Any, **given: Any) -> None:
        original(scope, *args, **given)
        if isinstance(getattr(scope, "_child_scopes", None), set):
            scope._child_scopes = _Ordered()

    def undo() -> None:
        scopes.__init__ = original

    scopes.__init__ = begin
    return undo


IN_ORDER = SharedChange(_order_scopes)


class _NoSelector:
    """For a loop that never waits."""

    def select(self, _timeout: float | None) -> list[Any]:
        """Nothing comes this way."""
        return []

    def close(self) -> None:
        """Nothing is held."""


class BareLoop(asyncio.BaseEventLoop):
    """An event loop on a simulation's clock. Its children say how it waits."""

    process = ""  # whose loop it is; "" is the client's
    quiet = False  # whether tasks that are never finished are nothing to speak of

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._tasks = 0
        self._timers = 0
        base: Any = self  # the parts of asyncio's own loop that only its children know
        base._selector = _NoSelector()
        base._clock_resolution = RESOLUTION
        base.set_task_factory(self._make_task)
        base.call_at = self._call_at

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **given: Any
    ) -> _Task:
        number = self._tasks = self._tasks + 1
        task = _Task(number, work, loop=loop, **{"name": f"task-{number}", **given})
        if self.quiet:
            vars_of: Any = task
            vars_of._log_destroy_pending = False
        return task

    def _call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        """As asyncio's own, with an order among timers of one instant."""
        base: Any = self
        base._check_closed()
        timer: Any = _TimerHandle(when, callback, args, self, context)
        timer.order = self._timers = self._timers + 1
        heapq.heappush(base._scheduled, timer)
        timer._scheduled = True
        return timer

    def time(self) -> float:
        """The simulation's time, in seconds."""
        return self._clock.now()

    @property
    def ready(self) -> bool:
        """Whether something can run now."""
        base: Any = self
        return bool(base._ready)

    def next_due(self) -> float:
        """When something can run, in seconds; infinite for never."""
        base: Any = self
        if base._ready:
            return -math.inf
        return float(base._scheduled[0].when()) if base._scheduled else math.inf

    def tasks(self) -> list[tuple[Any, str, Any]]:
        """Its tasks, their names, and what they carry out. To be asked by any thread."""
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        names = [f"{self.process} {task.get_name()}".lstrip() for task in tasks]
        return [(task, name, task.get_coro()) for task, name in zip(tasks, names, strict=True)]

    def run_once(self) -> None:
        """Run what can run now."""
        base: Any = self
        base._run_once()

    def release_threads(self) -> None:
        """Let go of threads that work for this loop, when a run ends."""

    def _process_events(self, _events: list[Any]) -> None:
        return


def _refusing(what: str) -> Any:
    def refuse(_loop: BareLoop, *_args: Any, **_options: Any) -> Any:
        raise RuntimeError(
            f"this event loop runs in virtual time and cannot {what}; give the client the "
            "simulated network, such as outlast.AsyncTransport(network=net)"
        )

    return refuse


_REFUSED = {
    "look a name up for real": ("getaddrinfo", "getnameinfo"),
    "connect to the real network": ("create_connection", "create_unix_connection", "sock_connect"),
    "listen on the real network": ("create_server", "create_unix_server", "sock_accept"),
    "use real datagrams": ("create_datagram_endpoint",),
    "wait for a real descriptor": ("add_reader", "add_writer", "connect_read_pipe"),
    "run a process": ("subprocess_exec", "subprocess_shell"),
    "take signals": ("add_signal_handler",),
}
for _what, _names in _REFUSED.items():
    for _name in _names:
        setattr(BareLoop, _name, _refusing(_what))
