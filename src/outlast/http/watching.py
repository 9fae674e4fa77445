"""What watches the wait of an attempt or of an answer: is the peer slow, or gone?

A base of both rather than a part of them: a quick reply stores an instant or two and makes nothing.
The `Observer` is made at the first look, a tenth of a second into a wait (DESIGN section 6).
What follows from a verdict is its owner's to say. Refuses to call a connection dead that has
ended: the next read tells why, in the kernel's own words.
"""

from __future__ import annotations

import math

from outlast.core.liveness import HURRY_AFTER, LONGEST_GAP, Awaits, Liveness, Watch, first_look
from outlast.core.tolerance import PATIENCE
from outlast.http.call_context import CallContext
from outlast.http.connection import Lease
from outlast.net.observe import Observer

__all__ = ["NOTHING", "RESPONSE", "ROOM", "Watching", "never_acknowledged", "outcome"]


NOTHING, RESPONSE, ROOM = Awaits.NOTHING, Awaits.RESPONSE, Awaits.ROOM  # looked up at no cost


class Watching:
    """One wait at a time on a lease. Whoever inherits it sets all fields. Not thread-safe."""

    __slots__ = ("call", "next_look", "observer", "waiting", "waiting_since")

    call: CallContext
    observer: Observer | None  # made at the first look
    waiting: Awaits
    waiting_since: float
    next_look: float

    def expect(self, awaits: Awaits, now: float, patient: bool = False) -> None:
        """A wait begins. `patient`: nothing of ours is in flight and there is no alternative, so
        that nothing can be seen before keepalive is hurried."""
        self.waiting = awaits
        self.waiting_since = now
        self.next_look = now + (HURRY_AFTER if patient else PATIENCE)
        if self.observer is not None:
            self._begin(self.observer)

    def _begin(self, observer: Observer) -> None:
        observer.watch.sent(self.waiting_since)
        observer.expect(self.waiting, self.waiting_since)
        observer.watch.next_look = self.next_look

    def look(self, lease: Lease, limit: float, *, alternative: bool) -> Liveness:
        """Read the kernel's state if it is time to; see `Watch.look`. `limit`: the user timeout
        that is to stand, in seconds."""
        now = self.call.now()
        if now < self.next_look:
            return Liveness.ALIVE
        observer = self.observer
        if observer is None:
            connection = lease.connection
            due = first_look(self.waiting_since, connection.rtt, connection.tolerance)
            if now < due:  # reckoned only now: nearly every answer has come before
                self.next_look = due
                return Liveness.ALIVE
            observer = self.observer = self._observer(lease, limit)
        verdict = observer.look(now, alternative=alternative)
        watch = observer.watch
        self.next_look = min(watch.next_look, now + LONGEST_GAP)
        if verdict is Liveness.DEAD and watch.next_look == math.inf:
            return Liveness.QUIET
        if verdict is Liveness.SUSPECT or verdict is Liveness.DEAD:
            self.call.suspect(lease.connection, self.waiting_since, watch.why)
        return verdict

    def _observer(self, lease: Lease, limit: float) -> Observer:
        connection = lease.connection
        watch = Watch(
            self.waiting_since,
            rtt=connection.rtt,
            acked=lease.exchange.mark,
            user_timeout=limit,
            dead_after=self.call.user_timeout,
            tolerance=connection.tolerance,
        )
        observer = Observer(connection, watch, connection.limit)
        self._begin(observer)
        return observer

    @property
    def evidence(self) -> str:
        """What the last look has found against the peer, in words."""
        return "" if self.observer is None else self.observer.watch.why

    def heard(self) -> None:
        """What was waited for has come."""
        self.waiting = NOTHING
        if self.observer is not None:
            self.observer.watch.answered()
            self.unwatch()

    def unwatch(self) -> None:
        """Nobody waits any more: keepalive is put back. A connection that others share lives on."""
        if self.observer is not None:
            self.observer.end(self.call.now())


def never_acknowledged(lease: Lease) -> bool:
    """Whether the peer's kernel has not acknowledged one byte of the request, for certain."""
    state = lease.connection.stream.state()
    return state is not None and state.acked <= lease.exchange.mark


def outcome(lease: Lease) -> str:
    """How far the request has got, by what the peer's kernel has acknowledged."""
    state = lease.connection.stream.state()
    if state is not None and state.acked <= lease.exchange.mark:
        return "the request was sent and never acknowledged by the peer's kernel"
    if state is not None and state.acked >= lease.connection.stream.written:
        return "the request was sent and acknowledged by the peer's kernel, no response"
    return "the request was sent, no response"
