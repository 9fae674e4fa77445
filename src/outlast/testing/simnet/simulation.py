"""A run in virtual time: its threads or its event loop, its waits, its beginning and its end.

Sync code runs in `with simulation.running()`, async code in `simulation.run(main)`, which starts
the loop with the simulation's clock. All wait by `wait` and `wait_async`.

Refuses event loops that it did not start: their clocks cannot be replaced from inside.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import weakref
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.net.seam import Ready, Wait
from outlast.testing.simnet.actors import Actor
from outlast.testing.simnet.stall import SimStalled, place_in
from outlast.testing.simnet.threads import SimThread
from outlast.testing.simnet.timeline import Timeline
from outlast.testing.simnet.turns import Party, Turns
from outlast.testing.simnet.waiting import Attention, Clock, SimWaiter, look
from outlast.testing.simnet.watchdog import Watchdog

if TYPE_CHECKING:
    from outlast.testing.simnet.bare_loop import BareLoop
    from outlast.testing.simnet.loop_asyncio import SimLoop
    from outlast.testing.simnet.loop_trio import SimTrioClock

__all__ = ["LONGEST", "PATIENCE", "Running", "Simulation"]

T = TypeVar("T")

PATIENCE = 5.0  # real seconds; a busy machine may take its time, an endless loop never ends
MOST_TASKS = 20  # that are told of
LONGEST = 86_400.0  # seconds of virtual time that one run may take


class Simulation:
    """Virtual time, and whoever lives in it.

    `patience`: real seconds that a thread may hold virtual time up. `longest`: seconds of virtual
    time after which a run in which everybody still waits is given up.
    """

    def __init__(self, patience: float = PATIENCE, longest: float = LONGEST) -> None:
        self.timeline = Timeline()
        self.clock = Clock(self.timeline)
        self.turns = Turns(self.timeline, patience)
        self.turns.describe = self._waiting
        self._longest = longest
        self._loop: SimLoop | SimTrioClock | None = None
        self.loops: weakref.WeakSet[BareLoop] = weakref.WeakSet()
        self._actor = ""  # whose step it is, if the timeline itself carries it on
        self._actors = 0
        self._threads: list[SimThread[Any]] = []
        self._tasks: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._names: dict[str, int] = {}

    # -- waiting ---------------------------------------------------------------------------

    def now(self) -> float:
        """Seconds since the simulation began."""
        return self.clock.now()

    def wait(self, wait: Wait) -> Ready:
        """See `Network.wait`: this thread's turn goes to others until then. Where there is nothing
        to wait for those in line go first, as tasks do."""
        turns = self.turns
        party = turns.enter() if turns.running else None
        late = wait.until <= self.clock.now()
        if not late or not wait.interests:
            ready = look(wait.interests)
            if not ready and not late:
                return self._park(party or turns.enter(), wait)  # which says that no run is on
            if party is not None and not self._actor:
                turns.breathe(party)
        return look(wait.interests)

    def _park(self, party: Party, wait: Wait) -> Ready:
        if self._actor:
            raise RuntimeError(f"{self._actor} would block the simulation; it has to await")
        turns = self.turns
        attention = Attention(self.clock, wait, functools.partial(turns.wake, party), party.name)
        try:
            turns.park(party, None)
        finally:
            attention.cancel()
        return attention.ready

    async def wait_async(self, wait: Wait) -> Ready:
        """See `Network.wait_async`."""
        from anyio.lowlevel import checkpoint

        loop = self.current_loop()
        late = wait.until <= self.clock.now()
        if not late or not wait.interests:
            ready = look(wait.interests)
            if not ready and not late:
                return await self._park_in(loop, wait)
            await checkpoint()
        return look(wait.interests)

    async def _park_in(self, loop: Any, wait: Wait) -> Ready:
        if asyncio._get_running_loop() is loop:
            from outlast.testing.simnet.loop_asyncio import wait_in_asyncio

            deliverer: Any = loop
            return await wait_in_asyncio(deliverer, self.clock, wait, self.worker())
        from outlast.testing.simnet.loop_trio import wait_in_trio

        return await wait_in_trio(loop, self.clock, wait, self.worker())

    def waiter(self) -> SimWaiter:
        """See `Network.waiter`."""
        return SimWaiter(self.do)

    def do(self, action: Callable[[], object]) -> None:
        """Do it now, if this thread may; else as soon as somebody passes the turn. Thread-safe."""
        if self.turns.mine or not self.turns.running:
            action()
        else:
            self.turns.post(action)

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass, in a thread of the simulation."""
        self.wait(Wait((), self.now() + seconds))

    def spawn(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """See `Network.spawn`: the job is an actor, which the timeline carries on."""
        self._actors += 1
        name = f"job-{self._actors}"
        self.do(lambda: Actor(self.clock, job, name, self.step_of))

    def step_of(self, name: str) -> None:
        """Hear whose step the timeline carries on; "" for nobody's."""
        self._actor = name
        if not name:  # a step is over, which may have begun a thread
            self.turns.outsiders.ran()

    # -- who is who ------------------------------------------------------------------------

    def worker(self) -> str:
        """A name for whoever runs now that is the same on every run."""
        if self._actor:
            return self._actor
        task = self._task()
        if task is not None:
            return self._tasks.get(task) or self._name(task)
        holder = self.turns.holder
        return "outside" if holder is None else holder.name

    def _task(self) -> Any:
        loop = self._loop
        if loop is None or not self.turns.mine or self.turns.holder is not loop.party:
            return None
        if isinstance(loop, asyncio.AbstractEventLoop):
            return asyncio.current_task(loop)
        import trio

        try:
            return trio.lowlevel.current_task()
        except RuntimeError:  # between two tasks
            return None

    def _name(self, task: Any) -> str:
        """Tasks of one name are told apart by a number, in the order in which they come here."""
        name: str = task.get_name() if isinstance(task, asyncio.Task) else task.name
        name = name.rpartition(".")[2]
        count = self._names[name] = self._names.get(name, 0) + 1
        self._tasks[task] = name if count == 1 else f"{name}#{count}"
        return self._tasks[task]

    # -- runs ------------------------------------------------------------------------------

    def running(self) -> Running:
        """A context in which sync code runs in virtual time."""
        return Running(self)

    def run_loop(self, main: Callable[[], Coroutine[Any, Any, T]], backend: str, debug: bool) -> T:
        """Run `main()` in an event loop in virtual time, within a run."""
        if backend == "trio":
            return self._run_trio(main)
        if backend == "asyncio":
            return self._run_asyncio(main, debug)
        raise ValueError(f"backend={backend!r} is not known; right: 'asyncio' or 'trio'")

    def run(self, main: Callable[[], Coroutine[Any, Any, T]], backend: str, debug: bool) -> T:
        """A run with nothing but `main()` in an event loop."""
        with self.running():
            return self.run_loop(main, backend, debug)

    def _run_asyncio(self, main: Callable[[], Coroutine[Any, Any, T]], debug: bool) -> T:
        import anyio

        from outlast.testing.simnet.bare_loop import IN_ORDER
        from outlast.testing.simnet.loop_asyncio import SimLoop

        def make() -> SimLoop:
            loop = self._loop = SimLoop(self.turns, self.clock)
            self.loops.add(loop)
            return loop

        async def root() -> T:
            self._tasks[asyncio.current_task()] = "main"
            return await main()

        options = {"loop_factory": make, "debug": debug}
        with IN_ORDER:
            return anyio.run(root, backend="asyncio", backend_options=options)

    def _run_trio(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        import trio

        from outlast.testing.simnet.loop_trio import SimTrioClock, in_order

        scope = trio.CancelScope()
        clock = self._loop = SimTrioClock(self.turns, self.clock, scope.cancel)
        results: list[T] = []

        async def root() -> None:
            self._tasks[trio.lowlevel.current_task()] = "main"
            with scope:
                results.append(await main())

        with in_order(clock):
            trio.run(root, clock=clock, instruments=[clock])
        if not results:
            raise (self.turns.failure or SimStalled("the run has ended before its time")).anew()
        return results[0]

    def begin(self) -> None:
        """Start a run in this thread."""
        if self.turns.running:
            raise RuntimeError("this SimNet is running already")
        self._threads.clear()
        self._watchdog = Watchdog(self.turns)
        self.turns.begin("main", self._watchdog.start())
        self.turns.horizon = self.timeline.now + round(self._longest * 1_000_000)

    def end(self) -> list[str]:
        """End the run; the names of the threads that were still there."""
        try:
            return self.turns.end()
        finally:
            self._loop = None
            for loop in tuple(self.loops):
                loop.release_threads()
            self.clock.waits.clear()
            self._watchdog.stop()

    def current_loop(self) -> Any:
        """The loop that runs this task: the client's, or that of a pod's process."""
        running = asyncio._get_running_loop()
        if running is not None:
            if running in self.loops:
                return running
        elif self._loop is not None and self.turns.mine and self.turns.holder is self._loop.party:
            return self._loop
        raise RuntimeError(
            "this event loop was not started by SimNet, whose time it would have to follow; "
            "right: net.run(main, backend='asyncio'), or backend='trio'"
        )

    # -- threads ---------------------------------------------------------------------------

    def thread(self, work: Callable[[], T], name: str | None) -> SimThread[T]:
        """Start a simulated thread; it has its first turn when this one waits."""
        self.turns.enter()
        thread = SimThread(self, work, name or f"thread-{len(self._threads) + 1}")
        self._threads.append(thread)
        return thread

    def failures(self) -> Iterator[BaseException]:
        """Errors of threads that nobody has asked for."""
        for thread in self._threads:
            if thread.error is not None and not thread.asked:
                yield thread.error

    def _waiting(self) -> Iterator[str]:
        yield from self.turns.outsiders.told()
        loops: list[Any] = sorted(self.loops, key=lambda loop: loop.process)
        if self._loop is not None and self._loop not in loops:
            loops.insert(0, self._loop)
        told = [task for loop in loops for task in loop.tasks()]
        places = [(self._tasks.get(task) or name, place_in(work)) for task, name, work in told]
        for name, place in [each for each in places if each[1]][:MOST_TASKS]:
            yield f"task {name} stands at {place}"
        for attention in tuple(self.clock.waits):
            yield f"{attention.who} waits for {attention.wait.interests or 'the time'}"


class Running:
    """One run of sync code. For async code it tells what is right."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def begin(self) -> None:
        """Begin the run in this thread."""
        _no_loop_here()
        self._simulation.begin()

    def end(self, error: BaseException | None) -> None:
        """End the run; `error` is what the block raised. Raises what went wrong besides."""
        simulation = self._simulation
        failure = simulation.turns.failure
        simulation.end()
        if failure is not None and str(error) != str(failure):
            raise failure from error
        if error is None:
            for lost in simulation.failures():
                raise lost

    def inside_own_loop(self) -> None:
        """Refuse an event loop that the simulation did not start."""
        self._simulation.current_loop()

    def __enter__(self) -> Any:
        self.begin()
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.end(error)

    async def __aenter__(self) -> Any:
        self.inside_own_loop()

    async def __aexit__(self, *error: object) -> None:
        return


def _no_loop_here() -> None:
    """Refuse to begin inside an event loop."""
    inside = asyncio._get_running_loop() is not None
    if not inside and "trio" in sys.modules:
        import trio

        inside = trio.lowlevel.in_trio_run()
    if inside:
        raise RuntimeError(
            "an event loop runs in this thread already, in real time; right: "
            "net.run(main, backend='asyncio'), or backend='trio', which starts one in virtual time"
        )
