"""Watches over sockets that belong to others: handed out by us, or given to `outlast.watch`.

All are looked at by one job on the library's one background thread, each every 2 s at the least,
neighbours in time together. Sockets are held weakly and never kept open; the job ends with the
last of them and never keeps a process alive. While a socket is watched a user timeout may stand
on it; behind a closed window it is lifted, as long as the peer's kernel answers (DESIGN section 6).

In the child of a fork the inherited sockets are watched anew, by a thread of the child's own.
Refuses to watch where the platform tells nothing: a user timeout there would kill the living.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import socket
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from outlast.core.liveness import Awaits, Liveness, Watch
from outlast.core.tolerance import Tolerance
from outlast.net.held import Held, HeldStream, SocketSource, layers
from outlast.net.kernel import kernel
from outlast.net.observe import Observer
from outlast.net.pooled import PooledSocket
from outlast.net.seam import WAKE, Network, Stream, Wait, Waiter

__all__ = ["Sentry", "Watched", "take_held", "watch", "watch_handed"]

log = logging.getLogger("outlast")

DEAD_AFTER = 11.0  # seconds of evidence; what the user timeout is by default (DESIGN section 6)
TOGETHER = 0.2  # seconds; looks that are due within it are taken at once
LEAST_PAUSE = 0.05  # seconds between two rounds


class Watched:
    """One socket under watch, as `outlast.watch` returns it. Thread-safe.

    `verdict` and `why`: of the last look. `address`: the peer's, in words.
    """

    __slots__ = (
        "__weakref__",
        "_abort",
        "_held",
        "_lock",
        "_network",
        "_observer",
        "_ring",
        "_stopped",
    )

    def __init__(
        self,
        network: Network,
        held: Held,
        user_timeout: float,
        ring: Callable[[], None],
        tolerance: Tolerance,
    ) -> None:
        now = network.now()
        watch_ = Watch(
            now,
            user_timeout=user_timeout,
            dead_after=user_timeout or DEAD_AFTER,
            tolerance=tolerance,
        )
        self._network = weakref.ref(network)
        self._held = held
        self._ring = ring  # have whoever looks come sooner
        self._lock = threading.Lock()
        self._observer = Observer(held, watch_, held.limit)
        self._abort = False
        self._stopped = False
        held.limit(user_timeout)

    @property
    def verdict(self) -> Liveness:
        """Of the last look: at most 2 s old while the socket is open and watched."""
        return self._observer.watch.verdict

    @property
    def why(self) -> str:
        """What speaks against the peer, in words; "" if nothing does."""
        return self._observer.watch.why

    @property
    def address(self) -> str:
        """The peer's, as host:port."""
        return self._held.address

    @property
    def next_look(self) -> float:
        """When it wants to be looked at, on the network's clock."""
        return self._observer.watch.next_look

    @property
    def over(self) -> bool:
        """Whether there is nothing left to watch: it was stopped, the socket is closed, the
        connection has ended, or the system tells nothing of it."""
        return self._finished()

    def _finished(self) -> bool:
        return self._stopped or self._held.gone or self.next_look == math.inf

    def check(self) -> Liveness:
        """Look now; the verdict. Never blocks."""
        network = self._network()
        with self._lock:
            if network is not None and not self._finished():
                verdict = self._observer.look(network.now())
                if verdict is Liveness.DEAD and self._abort:
                    self._abort = False
                    self._held.end()
                if self._finished():
                    self._held.limit(0.0)  # nobody will lift it
            return self.verdict

    def set(self, *, awaiting: bool | None = None, abort: bool | None = None) -> None:
        """See `watch`; None leaves what is."""
        network = self._network()
        with self._lock:
            if abort is not None:
                self._abort = abort
            if awaiting is not None and network is not None:
                expected = Awaits.RESPONSE if awaiting else Awaits.NOTHING
                self._observer.expect(expected, network.now())
        if awaiting is not None:  # what is done about the dead does not make a look more urgent
            self._ring()

    def stop(self) -> None:
        """Watch no longer: keepalive is as before, and our user timeout is lifted."""
        network = self._network()
        with self._lock:
            self._stopped = True
            self._held.limit(0.0)
            if network is not None:
                self._observer.end(network.now())

    def renew(self) -> None:
        """In the child of a fork: the lock may be held by a thread that is not there."""
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Watched {self.address}: {self.verdict.value}>"


class Sentry:
    """All that is watched on one network. Thread-safe."""

    def __init__(self, network: Network) -> None:
        self._network = weakref.ref(network)
        self._lock = threading.Lock()
        self._watched: dict[Hashable, Watched] = {}
        self._tolerances: weakref.WeakValueDictionary[str, Tolerance]
        self._tolerances = weakref.WeakValueDictionary()
        self._bell: Waiter | None = None
        self._running = False

    def take(self, network: Network, held: Held, user_timeout: float) -> Watched:
        """Watch a connection from now on; one that is watched already stays as it is.

        Raises RuntimeError if the system gives no thread.
        """
        with self._lock:
            known = self._watched.get(held.key)
        if known is not None and not known.over:
            return known
        with self._lock:  # what one socket has met, all to the same peer know
            tolerance = self._tolerances.setdefault(held.address, Tolerance())
        watched = Watched(network, held, user_timeout, self._ring, tolerance)
        with self._lock:
            self._watched[held.key] = watched
        try:
            self._begin()
        except RuntimeError:
            watched.stop()  # nobody would lift its user timeout
            raise
        return watched

    def _ring(self) -> None:
        """Something is to be looked at sooner than was known. (A newcomer need not ring: whoever
        looks is back within 2 s, and a newcomer has that time.)"""
        with self._lock:
            bell = self._bell
        if bell is not None:
            bell.wake()

    def _begin(self) -> None:
        """Have somebody look, if nobody does and there is something to look at."""
        network = self._network()
        with self._lock:
            if network is None or self._running or not self._watched:
                return
            self._running = True
        try:
            network.spawn(functools.partial(self._run, network))
        except RuntimeError:
            with self._lock:
                self._running = False
            raise

    async def _run(self, network: Network) -> None:
        try:
            while (pause := self._round(network)) is not None:
                until, bell = pause
                await Wait(((bell, WAKE),), until)
        except BaseException:
            with self._lock:
                self._running = False  # the next one that is added begins anew
            raise

    def _round(self, network: Network) -> tuple[float, Waiter] | None:
        """Look at all that is due; when to look next, and what rings before. None: all is over."""
        now = network.now()
        with self._lock:
            due = [each for each in self._watched.values() if each.next_look <= now + TOGETHER]
        for watched in due:
            _check(watched)
        with self._lock:
            self._watched = {key: each for key, each in self._watched.items() if not each.over}
            if not self._watched:
                self._running = False
                self._bell = None
                return None
            self._bell = network.waiter()
            until = min(each.next_look for each in self._watched.values())
            return max(until, now + LEAST_PAUSE), self._bell

    def renew(self) -> None:
        """In the child of a fork."""
        self._lock = threading.Lock()
        self._running = False
        self._bell = None
        for watched in self._watched.values():
            watched.renew()
        self._begin()


def _check(watched: Watched) -> None:
    """A fault of ours with one socket must not leave the others without a watch."""
    try:
        watched.check()
    except Exception:
        log.exception("watching %s has failed; it is not watched any more", watched.address)
        watched.stop()


_sentries: weakref.WeakKeyDictionary[Network, Sentry] = weakref.WeakKeyDictionary()
_handed: weakref.WeakKeyDictionary[Any, Watched] = weakref.WeakKeyDictionary()


def _sentry(network: Network) -> Sentry:
    return _sentries.setdefault(network, Sentry(network))


def take_held(network: Network, held: Held, user_timeout: float) -> Watched:
    """Watch what somebody else holds, from now on. Raises as `watch`."""
    return _sentry(network).take(network, held, user_timeout)


def watch_handed(
    network: Network, stream: Stream, sock: socket.socket, user_timeout: float
) -> Watched:
    """Watch the socket of a dialled stream that is handed out. Raises as `watch`."""
    held = PooledSocket(sock) if sock.fileno() >= 0 else HeldStream(stream)
    watched = _handed[sock] = take_held(network, held, user_timeout)
    return watched


def watch(
    sock: SocketSource,
    *,
    awaiting: bool | None = None,
    abort: bool | None = None,
    user_timeout: float = 0.0,
) -> Watched:
    """Have a TCP socket or stream watched, and look at it now. Never blocks.

    sock: a socket, a stream over one (anyio, asyncio, trio; TLS too), or a descriptor. What
        `create_connection` and `connect_tcp` gave out is watched already: its watch is returned.
    awaiting: an answer is waited for: after a second without a packet keepalive probes every
        second, so that a dead peer is suspect in about 3 s. False: keepalive is as you set it.
    abort: once the peer is dead, end the connection, so that whoever waits on it hears of it.
    user_timeout: seconds that the kernel may hold unacknowledged data on a socket that was not
        watched before; 0 for no limit. Then `stop()` before you close it. One that you have set
        yourself is never touched.

    None leaves `awaiting` and `abort` as they are, False at first. Raises ValueError if `sock`
    has no TCP socket, OSError if that is not connected, RuntimeError if the system gives no
    thread. Thread-safe.
    """
    if not 0 <= user_timeout < math.inf:
        raise ValueError(f"user_timeout: {user_timeout!r} is no number of seconds, such as 11.0")
    watched = _known(sock)
    if watched is None:
        watched = _sentry(kernel()).take(kernel(), PooledSocket(sock), user_timeout)
    watched.set(awaiting=awaiting, abort=abort)
    watched.check()
    return watched


def _known(sock: SocketSource) -> Watched | None:
    """The watch of what we have handed out, also through a stream over it."""
    for layer in layers(sock):
        try:
            found = _handed.get(layer)
        except TypeError:  # a number, or nothing that can be held weakly
            continue
        if found is not None and not found.over:
            return found
    return None


def _renew_all() -> None:
    for each in list(_sentries.values()):
        each.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
