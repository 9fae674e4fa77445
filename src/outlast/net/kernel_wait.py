"""Waiting on the real kernel: poll(2) for threads, anyio for tasks, and the waiter for both.

Sync waits use `select.poll` (no descriptor of its own, any descriptor number) and fall back to
`select.select` where there is none. Async waits go through anyio, so asyncio and trio are one.
"""

from __future__ import annotations

import math
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from outlast.net.seam import READ, WRITE, Interest, Ready, Wait

if TYPE_CHECKING:
    from anyio.lowlevel import EventLoopToken

__all__ = ["KernelWaiter", "wait_in_loop", "wait_in_thread"]


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


# -- threads -------------------------------------------------------------------------------


def wait_in_thread(wait: Wait) -> Ready:
    """Block until something of `wait` is ready or its time has come."""
    interests = wait.interests
    waiters = [source for source, _ in interests if isinstance(source, KernelWaiter)]
    if not waiters:
        return _poll(interests, wait.until)
    ready = [waiter for waiter in waiters if waiter.woken]
    if ready:
        return ready
    if len(interests) == 1:
        return _park(waiters[0], wait.until)
    return _poll_and_park(interests, waiters, wait.until)


def _timeout(until: float) -> float | None:
    return None if until == math.inf else max(0.0, until - time.monotonic())


def _park(waiter: KernelWaiter, until: float) -> Ready:
    gate = threading.Lock()
    gate.acquire()
    if waiter.arm(gate.release):
        timeout = _timeout(until)
        try:
            gate.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX))
        finally:
            waiter.arm(None)
    return [waiter] if waiter.woken else []


def _poll_and_park(interests: Any, waiters: list[KernelWaiter], until: float) -> Ready:
    """Streams and waiters at once: the waiters write to a socket that is polled with the rest."""
    bell, rope = socket.socketpair()
    try:
        rope.setblocking(False)
        for waiter in waiters:
            if not waiter.arm(lambda: _pull(rope)):
                _pull(rope)
        streams = [pair for pair in interests if not isinstance(pair[0], KernelWaiter)]
        ready: list[Any] = list(_poll([*streams, (bell, READ)], until))
        if bell in ready:
            ready.remove(bell)
        return [*ready, *(waiter for waiter in waiters if waiter.woken)]
    finally:
        for waiter in waiters:
            waiter.arm(None)
        bell.close()
        rope.close()


def _pull(rope: socket.socket) -> None:
    try:
        rope.send(b"!")
    except OSError:  # closed, or full: the waiter's flag says all there is to say
        return


if hasattr(select, "poll"):
    _EVENTS = (0, select.POLLIN, select.POLLOUT, select.POLLIN | select.POLLOUT)

    def _poll(interests: Any, until: float) -> Ready:
        poller = select.poll()
        by_number = {}
        for stream, mask in interests:
            number = stream.fileno()
            by_number[number] = stream
            poller.register(number, _EVENTS[mask])
        timeout = _timeout(until)
        events = poller.poll(None if timeout is None else math.ceil(timeout * 1000))
        return [by_number[number] for number, _ in events]

else:

    def _poll(interests: Any, until: float) -> Ready:
        readers = [stream for stream, mask in interests if mask & READ]
        writers = [stream for stream, mask in interests if mask & WRITE]
        timeout = _timeout(until)
        if not (readers or writers):  # select() on Windows refuses three empty lists
            time.sleep(timeout or 0.0)
            return []
        read, written, failed = select.select(readers, writers, writers, timeout)
        return list(dict.fromkeys([*read, *written, *failed]))


# -- tasks ---------------------------------------------------------------------------------


async def wait_in_loop(wait: Wait) -> Ready:
    """Suspend the running task until something of `wait` is ready or its time has come."""
    import anyio

    timeout = _timeout(wait.until)
    if timeout is None:
        return await _first(wait.interests)
    if not timeout:  # a look, not a wait
        return wait_in_thread(wait)
    with anyio.move_on_after(timeout):
        return await _first(wait.interests)
    return []


async def _first(interests: Any) -> Ready:
    """The first of `interests` to be ready; for ever, if there is none."""
    import anyio

    if len(interests) == 1 and interests[0][1] != READ | WRITE:
        await _one(interests[0])
        return [interests[0][0]]
    if not interests:
        await anyio.sleep_forever()
    ready: list[Any] = []
    async with anyio.create_task_group() as group:

        async def watch(interest: Interest) -> None:
            await _one(interest)
            ready.append(interest[0])
            group.cancel_scope.cancel()

        for source, mask in interests:
            for bit in (READ, WRITE) if mask else (mask,):
                if bit == mask or mask & bit:
                    group.start_soon(watch, (source, bit & mask))
    return ready


async def _one(interest: Any) -> None:
    import anyio

    source, mask = interest
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
        if threading.get_ident() == thread:
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


def _set_from_outside(token: EventLoopToken, action: Callable[[], object]) -> None:
    """The loop's own thread-safe call: asyncio and trio each have one."""
    loop: Any = token.native_token
    call = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
    try:
        call(action)
    except RuntimeError:  # the loop is closed (trio: RunFinishedError): nobody waits there
        return
