"""Waiting on the real kernel: poll(2) for threads, anyio for tasks, and the waiter for both.

Sync waits use `select.poll` (no descriptor of its own, any descriptor number) and fall back to
`select.select` where there is none. Async waits go through anyio, so asyncio and trio are one.
Neither ends before its time: timers that round down or fire early are asked again.
"""

from __future__ import annotations

import math
import select
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from outlast.net.bell import borrowed, give_back
from outlast.net.seam import READ, WRITE, Interest, Ready, Wait

if TYPE_CHECKING:
    from anyio.lowlevel import EventLoopToken

__all__ = ["KernelWaiter", "wait_in_loop", "wait_in_thread"]

SLICE = 0.05  # seconds between two looks at the waiters where nothing can wake the poll
LONGEST = 86_400.0  # seconds; poll(2) takes at most 2^31 ms: a longer wait is several


class KernelWaiter:
    """A place to park for a thread or a task; see `Waiter`."""

    __slots__ = ("_lock", "_notify", "_woken")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._woken = False
        self._notify: Callable[[], None] | None = None

    @property
    def woken(self) -> bool:
        """Whether `wake` has been called."""
        return self._woken

    def wake(self) -> None:
        """See `Waiter.wake`. A second call does nothing."""
        with self._lock:
            if self._woken:
                return
            self._woken = True
            notify = self._notify
        if notify is not None:
            notify()

    def arm(self, notify: Callable[[], None] | None) -> bool:
        """Have `notify` called at the wake; False if that has been already."""
        with self._lock:
            self._notify = notify
            return not self._woken


def _timeout(until: float) -> float:
    """Seconds from now, in a size that every system call takes."""
    return min(LONGEST, max(0.0, until - time.monotonic()))


# -- threads -------------------------------------------------------------------------------


def wait_in_thread(wait: Wait) -> Ready:
    """Block until something of `wait` is ready or its time has come."""
    interests, until = wait.interests, wait.until
    if len(interests) == 1 and interests[0][1]:  # what nearly every request waits for
        return _await_one(interests, until)
    if not interests and until == -math.inf:  # the turn of others, which threads need not be given
        return ()
    waiters = [source for source, _ in interests if isinstance(source, KernelWaiter)]
    while True:
        timeout = _timeout(until)
        ready: Ready
        if not waiters:
            ready = _poll(interests, timeout)
        elif len(waiters) == len(interests):
            ready = _park(waiters, timeout)
        elif not timeout or any(waiter.woken for waiter in waiters):
            ready = _look(interests, waiters)
        else:
            ready = _poll_and_park(interests, waiters, timeout)
        if ready or time.monotonic() >= until:
            return ready


def _park(waiters: Sequence[KernelWaiter], timeout: float) -> Ready:
    """Waiters alone need no descriptor."""
    gate = threading.Lock()
    gate.acquire()

    def pass_through() -> None:
        try:
            gate.release()
        except RuntimeError:  # another one has been quicker
            pass

    try:
        armed = [waiter.arm(pass_through) for waiter in waiters]
        if timeout and all(armed):
            gate.acquire(timeout=min(timeout, threading.TIMEOUT_MAX))
    finally:
        for waiter in waiters:
            waiter.arm(None)
    return [waiter for waiter in dict.fromkeys(waiters) if waiter.woken]


def _look(interests: Sequence[Interest], waiters: Sequence[KernelWaiter]) -> Ready:
    """What is ready now, streams and waiters."""
    streams = _streams(interests)
    woken = [waiter for waiter in dict.fromkeys(waiters) if waiter.woken]
    return [*_poll(streams, 0.0), *woken] if streams else woken


def _streams(interests: Sequence[Interest]) -> list[Any]:
    return [pair for pair in interests if not isinstance(pair[0], KernelWaiter)]


def _poll_and_park(
    interests: Sequence[Interest], waiters: Sequence[KernelWaiter], timeout: float
) -> Ready:
    """Streams and waiters at once: the waiters ring a bell that is polled with the rest."""
    try:
        bell = borrowed()
    except OSError:  # no descriptors left; what waits may be what gives some back
        return _poll(_streams(interests), min(timeout, SLICE)) or _look(interests, waiters)
    try:
        for waiter in waiters:
            if not waiter.arm(bell.ring):
                bell.ring()
        ready = _poll([*_streams(interests), (bell, READ)], timeout)
        if bell in ready:
            ready.remove(bell)
            bell.hush()
    finally:
        for waiter in waiters:
            waiter.arm(None)
        give_back(bell)
    return [*ready, *(waiter for waiter in dict.fromkeys(waiters) if waiter.woken)]


def _poll_one(interests: Sequence[Any], until: float) -> Ready:
    ((stream, mask),) = interests
    number = stream.fileno()
    if number < 0:
        return [stream]
    poller = select.poll()
    poller.register(number, _BY_MASK[mask])
    left = until - time.monotonic()  # as `_timeout`, which is a call more
    while not poller.poll(0 if left <= 0.0 else math.ceil(min(LONGEST, left) * 1000)):
        left = until - time.monotonic()
        if left <= 0.0:
            return ()
    return [stream]


def _select_one(interests: Sequence[Any], until: float) -> Ready:
    while not (ready := _by_select(interests, _timeout(until))):
        if time.monotonic() >= until:
            return ()
    return ready


def _by_poll(interests: Sequence[Any], timeout: float) -> list[Any]:
    poller = select.poll()
    wanted: dict[int, int] = {}
    numbers = []
    for stream, mask in interests:
        number = stream.fileno()
        if number < 0:
            return _closed(interests)
        numbers.append(number)
        wanted[number] = wanted.get(number, 0) | _BY_MASK[mask]
        poller.register(number, wanted[number])
    found = dict(poller.poll(math.ceil(timeout * 1000)))
    ready: dict[Any, None] = {}
    for number, (stream, mask) in zip(numbers, interests, strict=True):
        if found.get(number, 0) & (_BY_MASK[mask] | _FAILED):
            ready[stream] = None
    return list(ready)


def _closed(interests: Sequence[Any]) -> list[Any]:
    """Streams that their owner, or whoever they were handed to, has closed: ready to say so."""
    return list(dict.fromkeys(stream for stream, _ in interests if stream.fileno() < 0))


def _by_select(interests: Sequence[Any], timeout: float) -> list[Any]:
    closed = _closed(interests)
    if closed:
        return closed
    readers = [stream for stream, mask in interests if mask & READ]
    writers = [stream for stream, mask in interests if mask & WRITE]
    if not (readers or writers):  # select() on Windows refuses three empty lists
        time.sleep(timeout)
        return []
    # Windows tells a failed connect in the third list.
    read, written, failed = select.select(readers, writers, writers, timeout)
    return list(dict.fromkeys([*read, *written, *failed]))


if hasattr(select, "poll"):
    _FAILED = select.POLLERR | select.POLLHUP | select.POLLNVAL
    _BY_MASK = (0, select.POLLIN, select.POLLOUT, select.POLLIN | select.POLLOUT)
    _poll, _await_one = _by_poll, _poll_one
else:
    _poll, _await_one = _by_select, _select_one


# -- tasks ---------------------------------------------------------------------------------


async def wait_in_loop(wait: Wait) -> Ready:
    """Suspend the running task until something of `wait` is ready or its time has come."""
    import anyio.lowlevel

    interests, until = wait.interests, wait.until
    while True:
        timeout = _timeout(until)
        if not timeout:  # a look, not a wait; at nothing: the turn of others
            if not interests:
                await anyio.lowlevel.checkpoint()
            return wait_in_thread(wait)
        with anyio.move_on_after(timeout):
            ready = await _ready(interests)
            if ready:
                return ready


async def _ready(interests: Sequence[Interest]) -> Ready:
    """What is ready, once something is; for ever, if there is nothing to wait for."""
    import anyio

    if not interests:
        await anyio.sleep_forever()
    source: Any = interests[0][0]
    single = len(interests) == 1 and interests[0][1] != READ | WRITE
    if not single or not (isinstance(source, KernelWaiter) or source.fileno() >= 0):
        return await _several(interests)
    await _one(source, interests[0][1])
    return [source]


async def _several(interests: Sequence[Interest]) -> Ready:
    """A task for each thing, until one of them ends; maybe nothing, if that was a mistake."""
    import anyio
    from anyio.lowlevel import checkpoint

    look = Wait(interests, -math.inf)
    ready = wait_in_thread(look)
    if ready:
        await checkpoint()
        return ready
    failures: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def watch(source: Any, bit: int) -> None:
            try:
                await _one(source, bit)
            except Exception as error:  # noqa: BLE001  raised below, not in a group
                failures.append(error)
            group.cancel_scope.cancel()

        for source, bit in _single(interests):
            group.start_soon(watch, source, bit)
    if failures:
        raise failures[0]
    return wait_in_thread(look)


def _single(interests: Sequence[Interest]) -> list[tuple[Any, int]]:
    """One pair for each thing and direction: a loop takes one reader and one writer of each."""
    found: dict[tuple[Any, int], tuple[Any, int]] = {}
    for source, mask in interests:
        key = source if isinstance(source, KernelWaiter) else source.fileno()  # type: ignore[union-attr]  # a stream
        for bit in (READ, WRITE) if mask else (mask,):
            if bit & mask == bit:
                found.setdefault((key, bit), (source, bit))
    return list(found.values())


async def _one(source: Any, mask: int) -> None:
    import anyio

    if mask == READ:
        await anyio.wait_readable(source.fileno())
    elif mask == WRITE:
        await anyio.wait_writable(source.fileno())
    else:
        await _park_in_loop(source)


async def _park_in_loop(waiter: KernelWaiter) -> None:
    import anyio
    from anyio.lowlevel import checkpoint, current_token

    event = anyio.Event()
    thread, token = threading.get_ident(), current_token()

    def notify() -> None:
        if threading.get_ident() == thread and _runs(token):
            event.set()
        else:
            _set_from_outside(token, event.set)

    if not waiter.arm(notify):
        await checkpoint()
        return
    try:
        await event.wait()
    finally:
        waiter.arm(None)


def _runs(token: EventLoopToken) -> bool:
    """Whether this loop is the one that runs in this thread: it may be over, or stand still below
    another one."""
    from anyio.lowlevel import current_token

    try:
        return current_token() == token
    except RuntimeError:  # no loop runs here
        return False


def _set_from_outside(token: EventLoopToken, action: Callable[[], object]) -> None:
    """The loop's own thread-safe call: asyncio and trio each have one."""
    loop: Any = token.native_token
    call = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
    try:
        call(action)
    except RuntimeError:  # the loop is closed (trio: RunFinishedError): nobody waits there
        return
