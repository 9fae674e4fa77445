"""asyncio in virtual time: a loop whose waiting is a turn given away.

All but waiting is asyncio's own loop. `time()` is the simulation's; what other threads hand in
wakes it. Tasks have numbers and hash by them, so that whoever keeps tasks in a set (cancel scopes,
task groups) goes through them in the same order on every run.

Source: asyncio.base_events. Refuses real sockets, pipes, processes and signals: they take real
time, and what they would reach is not in the simulation.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import importlib
import math
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from typing import TYPE_CHECKING, Any

from outlast.net.seam import Ready, Wait
from outlast.testing.simnet.stall import SimStalled
from outlast.testing.simnet.turns import Party, Turns
from outlast.testing.simnet.waiting import Attention, Clock

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    Args = TypeVarTuple("Args")

__all__ = ["SimLoop", "wait_in_asyncio"]

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


@contextlib.contextmanager
def in_order() -> Iterator[None]:
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

    scopes.__init__ = begin
    try:
        yield
    finally:
        scopes.__init__ = original


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


class SimLoop(asyncio.BaseEventLoop):
    """An event loop of one simulation, to be run in the thread that has the turn."""

    def __init__(self, turns: Turns, clock: Clock) -> None:
        super().__init__()
        self.turns = turns
        self.party: Party = turns.enter()
        self._clock = clock
        self._selector = _Selector(self)
        self._clock_resolution = RESOLUTION
        self._tasks = 0
        self._timers = 0
        self._told = False
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]  # its stub knows no keywords

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **given: Any
    ) -> _Task:
        number = self._tasks = self._tasks + 1
        return _Task(number, work, loop=loop, **{"name": f"task-{number}", **given})

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Args]], object],
        *args: Unpack[Args],
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """As asyncio's own, with an order among timers of one instant."""
        base: Any = self  # the parts of asyncio's own loop that only its children know
        base._check_closed()
        timer: Any = _TimerHandle(when, callback, args, self, context)
        timer.order = self._timers = self._timers + 1
        heapq.heappush(base._scheduled, timer)
        timer._scheduled = True
        handle: asyncio.TimerHandle = timer
        return handle

    def time(self) -> float:
        """The simulation's time, in seconds."""
        return self._clock.now()

    def rest(self, timeout: float | None) -> None:
        """Wait as `select` does, and do what came meanwhile."""
        if self.turns.failure is not None:
            self._end(timeout)
        elif timeout is not None and timeout <= 0:
            self.turns.breathe(self.party)
        elif not self.party.inbox:
            until = math.inf if timeout is None else self._clock.now() + timeout
            try:
                self.turns.park(self.party, self._clock.micros(until))
            except SimStalled:
                self._told = True
                raise
            if timeout is not None and not self.party.inbox:
                self._clock.reached(until)
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
        """Have `action` run in the loop's thread. Called by whoever has the turn."""
        self.party.inbox.append(action)
        self.turns.wake(self.party)

    # -- what BaseEventLoop asks of its child -------------------------------------------------

    def _process_events(self, _events: list[Any]) -> None:
        return

    def _write_to_self(self) -> None:
        """Something was handed in by `call_soon_threadsafe`, maybe from another thread."""
        self.turns.post(lambda: self.deliver(_nothing))


def _refusing(what: str) -> Any:
    def refuse(_loop: SimLoop, *_args: Any, **_options: Any) -> Any:
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
        setattr(SimLoop, _name, _refusing(_what))


def _nothing() -> None:
    return


async def wait_in_asyncio(loop: SimLoop, clock: Clock, wait: Wait, who: str) -> Ready:
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
