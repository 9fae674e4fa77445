"""Drives engine code: in this thread, in the running event loop, or several side by side.

Engine code awaits only `Wait`. `run_sync` carries each out by blocking, `run_async` by awaiting;
nothing else differs between the two worlds. `Strands` steps several coroutines in one thread or
task by waiting for all of them at once: a race in sync code needs no thread of its own.
"""

from __future__ import annotations

import contextlib
import math
import types
from collections.abc import Callable, Coroutine, Generator, Hashable
from typing import Any, Generic, Protocol, TypeVar

from outlast.net.seam import Interest, Network, Ready, Wait

__all__ = ["Resumable", "Strands", "give_way", "run_async", "run_sync", "sleep_until"]

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class Waits(Protocol):
    """What carries waits out: a network, or something in front of one."""

    def wait(self, wait: Wait) -> Ready:
        """See `Network.wait`."""

    async def wait_async(self, wait: Wait) -> Ready:
        """See `Network.wait_async`."""


def run_sync(network: Waits, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, blocking this thread wherever it waits."""
    try:
        effect = work.send(None)
        while True:
            if type(effect) is not Wait:
                raise RuntimeError(f"engine code awaited {effect!r}, which needs an event loop")
            try:
                ready = network.wait(effect)
            except BaseException as error:  # noqa: BLE001  thrown in, and out again
                effect = work.throw(error)
            else:
                effect = work.send(ready)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        work.close()


@types.coroutine
def run_async(network: Waits, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Run `work` to its end in the running event loop.

    What engine code awaits of the caller's own (an async body) passes through to the loop. A
    cancellation is thrown into `work` at the point where it waits, and comes out again.
    """
    try:
        effect = work.send(None)
        while True:
            try:
                if type(effect) is Wait:
                    ready = yield from network.wait_async(effect).__await__()
                else:
                    ready = yield effect
            except BaseException as error:  # noqa: BLE001  thrown in, and out again
                effect = work.throw(error)
            else:
                effect = work.send(ready)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        work.close()


async def sleep_until(until: float) -> None:
    """Wait for nothing but the time."""
    await Wait((), until)


async def give_way() -> None:
    """Wait for nothing at all: in an event loop others get their turn, and a cancellation comes."""
    await Wait((), -math.inf)


class Resumable(Generic[T]):
    """Engine code that is left where it waits when a time has come, and taken up again there.

    `await until(...)` runs it; `close` ends it where it waits, and does nothing while it runs. One
    owner; not thread-safe.
    """

    __slots__ = ("_effect", "_network", "_running", "_work")

    def __init__(self, network: Network, work: Coroutine[Any, Any, T]) -> None:
        self._network = network
        self._work = work
        self._effect: Any = None  # what it waits for; None: it has not begun
        self._running = False

    def close(self) -> None:
        """Its `finally` blocks run, at once."""
        if not self._running:
            self._work.close()

    @types.coroutine
    def until(self, stop: Callable[[], float]) -> Generator[Any, Any, T | None]:
        """Its result; None if `stop()` has come, which is asked anew for each of its waits."""
        work, effect, self._effect = self._work, self._effect, None
        self._running = True
        try:
            if effect is None:
                effect = work.send(None)
            while True:
                wait, at = effect, stop()
                if type(effect) is Wait and at < effect.until:
                    wait = Wait(effect.interests, at)
                self._running = False
                try:
                    ready = yield wait
                except BaseException as error:  # noqa: BLE001  thrown in, and out again
                    self._running = True
                    effect = work.throw(error)
                    continue
                if wait is not effect and not ready and self._network.now() >= at:
                    self._effect = effect
                    return None
                self._running = True
                effect = work.send(ready)
        except StopIteration as ended:
            result: T = ended.value
            return result


class _Strand(Generic[T]):
    __slots__ = ("wait", "work")

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.work = work
        self.wait: Wait | None = None  # None: not begun


class Strands(Generic[K, T]):
    """Several coroutines of engine code under one owner. Not thread-safe.

    `start` them, `await next(...)` for the first that ends, `cancel` what is no longer wanted;
    `close` cancels the rest. Cancelling closes the coroutine where it waits: its `finally`
    blocks run, at once.
    """

    __slots__ = ("_network", "_strands")

    def __init__(self, network: Network) -> None:
        self._network = network
        self._strands: dict[K, _Strand[T]] = {}

    def __len__(self) -> int:
        return len(self._strands)

    def __contains__(self, key: K) -> bool:
        return key in self._strands

    def start(self, key: K, work: Coroutine[Any, Any, T]) -> None:
        """Take `work` on; it begins at the next `next`."""
        self._strands[key] = _Strand(work)

    def cancel(self, key: K) -> None:
        """Drop one, if it is still there."""
        strand = self._strands.pop(key, None)
        if strand is not None:
            strand.work.close()

    def close(self) -> None:
        """Drop all, also if the end of one raises."""
        with contextlib.ExitStack() as stack:
            for key in list(self._strands):
                stack.callback(self.cancel, key)

    async def next(
        self, until: float = math.inf, also: tuple[Interest, ...] = ()
    ) -> tuple[K, T | BaseException] | None:
        """The first strand that ends, with its result or its error.

        None if `until` comes first or something of `also` is ready. An error of the wait itself,
        such as a cancellation, is raised here, and the strands stay as they are.
        """
        ended = self._begin()
        if ended is not None:
            return ended
        while True:
            wait = self._merged(until, also)
            ready = await wait
            ended = self._dispatch(ready)
            if ended is not None:
                return ended
            if any(source in ready for source, _ in also) or self._network.now() >= until:
                return None

    def _begin(self) -> tuple[K, T | BaseException] | None:
        for key, strand in list(self._strands.items()):
            if strand.wait is None:
                ended = self._step(key, strand, ())
                if ended is not None:
                    return ended
        return None

    def _merged(self, until: float, also: tuple[Interest, ...]) -> Wait:
        interests = list(also)
        for strand in self._strands.values():
            wait = strand.wait
            if wait is not None:
                interests.extend(wait.interests)
                until = min(until, wait.until)
        return Wait(interests, until)

    def _dispatch(self, ready: Ready) -> tuple[K, T | BaseException] | None:
        now = self._network.now()
        for key, strand in list(self._strands.items()):
            wait = strand.wait
            if wait is None:
                continue
            mine = [source for source, _ in wait.interests if source in ready]
            if mine or now >= wait.until:
                ended = self._step(key, strand, mine)
                if ended is not None:
                    return ended
        return None

    def _step(self, key: K, strand: _Strand[T], ready: Ready) -> tuple[K, T | BaseException] | None:
        try:
            effect = strand.work.send(None if strand.wait is None else ready)
        except StopIteration as stop:
            del self._strands[key]
            return key, stop.value
        except Exception as error:  # noqa: BLE001  handed to the owner
            del self._strands[key]
            return key, error
        except BaseException:
            del self._strands[key]  # it has ended, whatever becomes of the others
            raise
        if type(effect) is not Wait:
            self.cancel(key)
            text = f"a strand awaited {effect!r}, which only the loop itself can do"
            return key, RuntimeError(text)
        strand.wait = effect
        return None
