"""Watches the program's connections, and ends those whose peer is dead.

A connection that lasts longer than a moment is looked at every 2 s at the least, by the library's
one watch (`net.sentry`): its socket is borrowed for microseconds, known by its cookie, and given
back. One whose peer has owed an answer for `Policy.user_timeout` (11 s, looks included) is reset,
so that whoever waits on it hears of it; a peer that lives and merely does not read is left alone.
Idle connections are keepalive's business.

Refuses to set a user timeout (see `tuning`), and to look at sockets that have left the process that
opened them: they are found gone, and keepalive alone stands on them.
"""

from __future__ import annotations

import contextlib
import math
import socket
import struct
from collections import deque
from collections.abc import Hashable

from outlast.core.liveness import Sample
from outlast.net.ending import end_at_once
from outlast.net.kernel import KernelNetwork
from outlast.net.link import own_link_is_up
from outlast.net.options import Keepalive, read_keepalive
from outlast.net.sentry import Sentry
from outlast.net.tcpinfo import TCP_INFO, read_sample
from outlast.policy import Policy
from outlast.shims.run.explain import Explainer
from outlast.shims.run.processes import Processes, Task, cookie_of

__all__ = ["HeldInProgram", "Watching"]

SETTLED = 1.0  # seconds; most connections of programs that open many are closed by then
IN_TIME = 1.0  # seconds before the user timeout: two looks at data in flight (core.liveness)
LEAST, LEAST_OF_OTHERS = 3.0, 5.0  # seconds after the data; by then it was repeated four times
# Offsets in struct tcp_info, linux/tcp.h: backoff, rto, unacked, last_data_sent.
_TIMERS = struct.Struct("=4xB3xI12xI16xI")


class HeldInProgram:
    """A socket of the program's; see `net.held.Held`."""

    __slots__ = ("_explainer", "_limit", "_number", "_task", "address", "gone", "key")

    def __init__(
        self, task: Task, number: int, cookie: int, address: str, explainer: Explainer
    ) -> None:
        self._explainer = explainer
        self._limit = math.inf  # seconds that data may be in flight
        self._task = task  # of the whole process
        self._number = number
        self.key: Hashable = cookie
        self.address = address
        self.gone = False

    def _borrowed(self) -> socket.socket | None:
        try:
            sock = self._task.borrow(self._number)
        except OSError:
            self.gone = True
            return None
        if cookie_of(sock) != self.key:
            sock.close()
            self.gone = True
            return None
        return sock

    def state(self) -> Sample | None:
        """See `Stream.state`; None once it is gone."""
        sock = self._borrowed()
        if sock is None:
            return None
        with sock:
            sample = read_sample(sock)
            if sample is None or not (sample.backoff and sample.unacked and sample.window):
                return sample
            if self._overdue(sock, sample.silence) and own_link_is_up(sock):
                self._reset(sock)
            return read_sample(sock)

    def _overdue(self, sock: socket.socket, silence: float) -> bool:
        """Whether the peer has owed an acknowledgement for too long. A living one has answered
        keepalive's probes, so the silence before the data counts too (see `net.pooled`)."""
        since, keepalive = unacknowledged(sock), read_keepalive(sock)
        if keepalive is None:
            return since >= self._limit
        least = LEAST if keepalive.idle <= Keepalive().idle else LEAST_OF_OTHERS
        return since >= max(least, self._limit - max(0.0, silence - since))

    def linked(self) -> bool:
        """See `Stream.linked`."""
        sock = self._borrowed()
        if sock is None:
            return True
        with sock:
            return own_link_is_up(sock)

    @property
    def keepalive(self) -> Keepalive | None:
        """See `Held`."""
        sock = self._borrowed()
        if sock is None:
            return None
        with sock, contextlib.suppress(OSError):
            return read_keepalive(sock)
        return None

    def set_keepalive(self, keepalive: Keepalive) -> None:
        """See `Held`: nobody says that an answer is awaited, so nothing is ever hurried."""

    def limit(self, seconds: float) -> None:
        """See `Held`: here and not on the socket; 0 for none."""
        self._limit = seconds - IN_TIME if seconds > IN_TIME else math.inf

    def end(self) -> None:
        """See `Held.end`."""
        sock = self._borrowed()
        if sock is not None:
            with sock:
                self._reset(sock)

    def _reset(self, sock: socket.socket) -> None:
        end_at_once(sock)
        process, number = self._task.process, self._number
        self._explainer.connect(process, number, self.address, "dead: connection reset")


def unacknowledged(sock: socket.socket) -> float:
    """Seconds since the oldest data left that the peer has not acknowledged, by the kernel's own
    timers: how long it has waited before each repeat, and since the last one. 0 if it has not
    begun to repeat. However late we look, it is as exact as a user timeout. Raises OSError."""
    assert TCP_INFO is not None  # Linux has it
    raw = sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, _TIMERS.size)
    backoff, rto, unacked, sent = _TIMERS.unpack(raw)
    if not (backoff and unacked):
        return 0.0
    return float(rto / 1e6 * (1 - 0.5**backoff) + sent / 1e3)


class Watching:
    """All of the program's connections. One owner; the looks are the library's own thread's."""

    def __init__(
        self, world: KernelNetwork, processes: Processes, policy: Policy, explainer: Explainer
    ) -> None:
        self._explainer = explainer
        self._patience = policy.user_timeout
        self._wanted = policy.watch and policy.user_timeout > 0
        self._world = world
        self._processes = processes
        self._sentry = Sentry(world)
        self._fresh: deque[tuple[float, Task, int, int, str]] = deque()

    def add(self, task: Task, number: int, cookie: int, address: str) -> None:
        """A connection stands. Raises nothing."""
        if not self._wanted:
            return
        with contextlib.suppress(OSError):  # the process has ended
            whole = self._processes.whole(task)
            self._fresh.append((self._world.now() + SETTLED, whole, number, cookie, address))

    def settle(self) -> None:
        """Have those watched that have lasted; to be called now and then."""
        now = self._world.now()
        while self._fresh and self._fresh[0][0] <= now:
            _, task, number, cookie, address = self._fresh.popleft()
            held = HeldInProgram(task, number, cookie, address, self._explainer)
            if held.state() is not None:
                watched = self._sentry.take(self._world, held, self._patience)
                watched.set(abort=True)
