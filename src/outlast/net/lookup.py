"""Name look-up that never blocks whoever waits for it.

The system's resolver (getaddrinfo) runs on short-lived daemon threads, one look-up at a time per
name however many wait, at most 32 at once; more queue. A hung resolver keeps its thread, never
its callers: they stop waiting at their own deadline, and what nobody waits for any more is not
asked for. Addresses written out need no thread.

Refuses to cache: how long an answer holds is for discovery to decide.
"""

from __future__ import annotations

import errno
import functools
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from outlast.net.address import Address, literal
from outlast.net.raising import anew
from outlast.net.seam import Lookup, Waiter

__all__ = ["Resolver", "system_addresses"]

MAX_THREADS = 32
SWEEP = 64  # entries before those of callers that have left are looked for


def system_addresses(host: str, port: int) -> list[Address]:
    """The addresses of `host` in the order of the system's resolver. Blocks. Raises OSError."""
    if "\0" in host:  # the C library would look up what stands before it
        raise socket.gaierror(socket.EAI_NONAME, f"not a host name: {host!r}")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label too long or empty: no such name can exist
        raise socket.gaierror(socket.EAI_NONAME, f"not a host name: {host!r}") from error
    return [_address(family, sockaddr) for family, _, _, _, sockaddr in found]


@functools.lru_cache(maxsize=1024)  # connections to one endpoint share its address
def _address(family: int, raw: tuple[Any, ...]) -> Address:
    if len(raw) == 2:
        return Address(family, (raw[0], raw[1]))
    return Address(family, (raw[0], raw[1], raw[2], raw[3]))


class _Job:
    """A name to be asked for, and who waits for it. Callers that have left are swept out whenever
    the list has doubled."""

    __slots__ = ("_sweep_at", "key", "waiting")

    def __init__(self, key: tuple[str, int]) -> None:
        self.key = key
        self.waiting: list[tuple[weakref.ref[Lookup], Waiter]] = []
        self._sweep_at = SWEEP

    @property
    def wanted(self) -> bool:
        """Whether anybody still waits."""
        return any(lookup() is not None for lookup, _ in self.waiting)

    def join(self, lookup: Lookup, waiter: Waiter) -> None:
        """One more waits."""
        if len(self.waiting) >= self._sweep_at:
            self.waiting = [each for each in self.waiting if each[0]() is not None]
            self._sweep_at = SWEEP + 2 * len(self.waiting)
        self.waiting.append((weakref.ref(lookup), waiter))


class Resolver:
    """Look-ups on threads of their own. Thread-safe."""

    def __init__(self, resolve: Callable[[str, int], Sequence[Address]] = system_addresses) -> None:
        self._resolve = resolve
        self._lock = threading.Lock()
        self._jobs: dict[tuple[str, int], _Job] = {}
        self._queue: deque[_Job] = deque()
        self._threads = 0
        self._sweep_at = SWEEP

    def start(self, host: str, port: int, waiter: Waiter) -> Lookup:
        """Begin or join the look-up of `host`; `waiter` is woken when the result stands."""
        address = literal(host, port)
        if address is not None:
            waiter.wake()
            return Lookup(addresses=[address])
        lookup = Lookup()
        with self._lock:
            job = self._jobs.get((host, port))
            if job is None:
                self._sweep()
                job = self._jobs[host, port] = _Job((host, port))
                self._queue.append(job)
            job.join(lookup, waiter)
            begin = bool(self._queue) and self._threads < MAX_THREADS
            self._threads += begin
        if begin:
            self._begin()
        return lookup

    def _sweep(self) -> None:
        """Under the lock: names that nobody waits for leave the queue, whenever it has doubled."""
        if len(self._queue) < self._sweep_at:
            return
        for job in [each for each in self._queue if not each.wanted]:
            del self._jobs[job.key]
        self._queue = deque(each for each in self._queue if each.key in self._jobs)
        self._sweep_at = SWEEP + 2 * len(self._queue)

    def _next(self) -> _Job | None:
        """Under the lock: the first in the queue that somebody waits for."""
        while self._queue:
            job = self._queue.popleft()
            if job.wanted:
                return job
            del self._jobs[job.key]
        return None

    def _begin(self) -> None:
        try:
            threading.Thread(target=self._work, name="outlast-lookup", daemon=True).start()
        except RuntimeError as error:  # no thread to be had; those that run take the queue over
            with self._lock:
                self._threads -= 1
                stranded = [] if self._threads else list(self._queue)
                if stranded:
                    self._queue.clear()
            for job in stranded:
                text = f"look-up of {job.key[0]!r}: {error}"
                self._finish(job, None, OSError(errno.EAGAIN, text))

    def _work(self) -> None:
        while True:
            with self._lock:
                job = self._next()
                if job is None:
                    self._threads -= 1
                    return
            self._finish(job, *self._answer(job.key))

    def _answer(self, key: tuple[str, int]) -> tuple[Sequence[Address] | None, OSError | None]:
        try:
            return self._resolve(*key), None
        except OSError as error:
            return None, error
        except Exception as error:  # noqa: BLE001  whoever waits must hear of it
            return None, OSError(f"look-up of {key[0]!r} failed: {error!r}")

    def _finish(
        self, job: _Job, addresses: Sequence[Address] | None, error: OSError | None
    ) -> None:
        with self._lock:
            del self._jobs[job.key]
        for reference, waiter in job.waiting:
            lookup = reference()
            if lookup is not None:
                lookup.addresses, lookup.error = addresses, error and anew(error)
                waiter.wake()
