"""The forwarder's loop: engine code in one thread, whatever the number of connections.

It waits by the seam for one thing that stands for all (`net.ready_set`), and steps the dials of new
clients beside it. `gate` decides who comes in, `relay` what moves, `core.race` how upstream is
dialled; here is who is asked, and in which order.

Refuses to block: a slow client or a dead upstream holds up nobody else.
"""

from __future__ import annotations

import heapq
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outlast.core.report import Report
from outlast.net.dial import DialError, Won
from outlast.net.kernel import KernelNetwork
from outlast.net.listening import BACKLOG, EXHAUSTED, Listener, NoRoom
from outlast.net.moving import CHUNK, Pipes, failure
from outlast.net.options import SocketPlan, apply, fitting_user_timeout
from outlast.net.ready_set import FAILED, ReadySet, ready_set
from outlast.net.run import Strands
from outlast.net.seam import READ, Wait
from outlast.net.sentry import watch
from outlast.policy import Policy
from outlast.service.handed import watch_by_policy
from outlast.service.reach import dial_request, reach
from outlast.shims.forward.gate import Gate
from outlast.shims.forward.news import News
from outlast.shims.forward.passage import Passage
from outlast.shims.forward.relay import CLIENT, Relay
from outlast.shims.forward.route import Route, close_routes

if TYPE_CHECKING:
    import socket

    from outlast.net.sentry import Watched

__all__ = ["Engine", "Limits"]

AT_ONCE = 64  # connections accepted before the others get their turn
FEW = 256  # timers that are not worth a clean-up


@dataclass(frozen=True, slots=True)
class Limits:
    """`idle`: seconds without a byte, inf for none. `connections`: at once."""

    idle: float
    connections: int


class Engine:
    """Everything that is open. `serve` runs it; `drain` and `cut` may be called from any thread
    and from a signal handler."""

    def __init__(
        self, world: KernelNetwork, routes: list[Route], policy: Policy, limits: Limits, news: News
    ) -> None:
        self._world = world
        self._routes = routes
        self._policy = policy
        self._limits = limits
        self._news = news
        self._gate = Gate(limits.connections)
        self._ready: ReadySet[object] = ready_set()
        self._pipes = Pipes()
        self._buffer = memoryview(bytearray(CHUNK))
        self._passages: dict[int, Passage] = {}
        self._dials: Strands[int, tuple[Won | DialError, Report]] = Strands(world)
        self._timers: list[tuple[float, int]] = []
        self._listening: bool | None = None
        self._number = 0
        self._wish: float | None = None  # seconds to drain; None: nobody wants the end
        self._until = math.inf  # the end of the drain

    # -- from outside ----------------------------------------------------------------------

    def drain(self, seconds: float) -> None:
        """Take no more connections; end when those that are open have ended, or after so long.
        A second call may shorten it: 0 ends at once."""
        self._wish = seconds
        self._ready.ring()

    # -- the loop ----------------------------------------------------------------------------

    async def serve(self) -> None:
        """Until it was drained."""
        try:
            while True:
                happened = self._ready.look()
                self._obey()  # after the look, which takes note of the ring that came with a wish
                self._open_gate()
                now = self._world.now()
                for key, mask in happened:
                    self._dispatch(key, mask, now)
                if self._gate.closed and not self._passages:
                    return
                await self._dials_or_time(waiting=not happened)
                self._time_out()
        finally:
            self.close()

    def _dispatch(self, key: object, mask: int, now: float) -> None:
        if isinstance(key, tuple):
            passage, side = key
            if not passage.over:
                self._happened(passage, side, mask, now)
        else:
            assert isinstance(key, _Door)
            self._accept(key, now)

    async def _dials_or_time(self, *, waiting: bool) -> None:
        """Step the dials; wait for anything at all, if there was nothing to do."""
        until = self._due() if waiting else -math.inf
        if not len(self._dials):
            if waiting:
                await Wait(self._ready.interests, until)
            return
        ended = await self._dials.next(until, also=tuple(self._ready.interests))
        if ended is not None:
            self._dialled(*ended)

    def _due(self) -> float:
        timer = self._timers[0][0] if self._timers else math.inf
        return min(timer, self._gate.due, self._until)

    # -- coming in -----------------------------------------------------------------------------

    def _open_gate(self) -> None:
        now = self._world.now()
        self._gate.opened(now)
        admits = self._gate.admits(now)
        if admits is self._listening:
            return
        if self._gate.full_is_news():
            self._news.full(self._gate.most)
        self._listening = admits
        for route in self._routes:
            for listener in route.listeners:
                self._ready.set(listener.fileno(), _Door(route, listener), READ * admits)

    def _accept(self, door: _Door, now: float, most: int = AT_ONCE) -> None:
        for _ in range(most):
            if not self._gate.admits(now):
                return
            try:
                entered = self._enter(door)
            except NoRoom as error:
                self._pause(error, now)
                return
            except OSError as error:
                self._news.broken(str(door.listener.address), error)
                self._ready.remove(door.listener.fileno())
                door.route.listeners.remove(door.listener)
                door.listener.close()
                return
            if not entered:
                return

    def _pause(self, error: BaseException, now: float) -> None:
        """Nobody is let in for a moment, for want of descriptors or memory."""
        pause = self._gate.no_room(now)
        if pause is not None:
            self._news.no_room(getattr(error, "strerror", None) or str(error), pause)

    def _enter(self, door: _Door) -> bool:
        """Take one in, if anybody is there and there is a descriptor for upstream too."""
        place = door.listener.place()
        try:
            client = door.listener.accept()
        except BaseException:
            _give_up(place)
            raise
        if client is None:
            _give_up(place)
            return False
        self._number += 1
        passage = Passage(self._number, door.route, client, self._world.now(), place)
        self._passages[passage.number] = passage
        self._gate.entered()
        self._news.accepted()
        _tune(*client, self._policy)
        passage.listen(self._ready)
        self._dials.start(passage.number, self._dial(passage))
        return True

    async def _dial(self, passage: Passage) -> tuple[Won | DialError, Report]:
        report = Report(self._world.now())
        request = dial_request(self._world, passage.route.target, self._policy)
        passage.make_room()
        return await reach(self._world, request, report), report

    def _dialled(
        self, number: int, outcome: tuple[Won | DialError, Report] | BaseException
    ) -> None:
        passage, now = self._passages[number], self._world.now()
        self._gate.joined()
        if isinstance(outcome, BaseException):
            self._news.fault(passage, outcome)
            self._leave(passage)
            return
        found, report = outcome
        if isinstance(found, DialError):
            self._news.unreached(passage, found, report)
            self._leave(passage)
            if found.errno in EXHAUSTED:  # the next one would fare no better
                self._pause(found.cause or found, now)
            return
        self._join(passage, found, report, now)

    def _join(self, passage: Passage, won: Won, report: Report, now: float) -> None:
        passage.where, passage.local_port = str(won.stream.address), won.stream.local_port
        sock = won.stream.detach()
        passage.join(sock, Relay(now, self._limits.idle))
        watched = watch_by_policy(self._world, won.stream, sock, self._policy, report)
        if watched is not None:
            watched.set(abort=True)
        passage.watches = (self._watch_client(passage), watched)
        passage.listen(self._ready)
        self._arm(passage)
        self._news.opened(passage, won, report, now)

    def _watch_client(self, passage: Passage) -> Watched | None:
        """A client on another machine can die as silently as an upstream."""
        policy = self._policy
        if not (policy.watch and policy.user_timeout and self._world.tells):
            return None
        if _is_near(passage.name):
            return None
        limit = fitting_user_timeout(policy.user_timeout, policy.keepalive)
        try:
            return watch(passage.sock(CLIENT), abort=True, user_timeout=limit)
        except (OSError, RuntimeError):  # gone already: its socket will say so
            return None

    # -- bytes -------------------------------------------------------------------------------

    def _happened(self, passage: Passage, side: int, mask: int, now: float) -> None:
        relay = passage.relay
        if relay is None:
            if mask & FAILED:
                self._client_ended(passage)
            return
        before = relay.failed
        passage.happened(side, mask, self._pipes, self._buffer, now)
        if relay.end is not None:
            self._end(passage, now)
            return
        if relay.failed != before:
            self._arm(passage)
        passage.listen(self._ready)

    def _client_ended(self, passage: Passage) -> None:
        """While upstream is dialled. One that was reset has left; what else one has said before it
        ended may be all that it wanted to say."""
        error = failure(passage.sock(CLIENT))
        if error is None:
            passage.deafen(CLIENT)
            passage.listen(self._ready)
            return
        self._dials.cancel(passage.number)
        self._gate.joined()
        self._news.gone(passage, f"the client has left: {error.strerror}")
        self._leave(passage)

    def _leave(self, passage: Passage) -> None:
        del self._passages[passage.number]
        passage.close(self._ready, self._pipes)
        self._gate.left()

    def _end(self, passage: Passage, now: float) -> None:
        self._news.ended(passage, now)  # before its peers can know
        self._leave(passage)

    # -- time ----------------------------------------------------------------------------------

    def _arm(self, passage: Passage) -> None:
        assert passage.relay is not None
        due = passage.relay.due
        if due == math.inf:
            return
        if len(self._timers) > 2 * len(self._passages) + FEW:  # most are of those who have left
            self._timers = [each for each in self._timers if each[1] in self._passages]
            heapq.heapify(self._timers)
        heapq.heappush(self._timers, (due, passage.number))

    def _time_out(self) -> None:
        now = self._world.now()
        while self._timers and self._timers[0][0] <= now:
            _, number = heapq.heappop(self._timers)
            passage = self._passages.get(number)
            if passage is None or passage.relay is None:
                continue
            if passage.relay.late(now):
                self._end(passage, now)
            else:
                self._arm(passage)
        if now >= self._until:
            self._cut_all(now)

    # -- the end -------------------------------------------------------------------------------

    def _obey(self) -> None:
        wish, self._wish = self._wish, None
        if wish is None:
            return
        now = self._world.now()
        self._until = min(self._until, now + wish)
        if not self._gate.closed:
            self._take_those_who_wait(now)
            self._gate.close()
            for route in self._routes:
                for listener in route.listeners:
                    self._ready.remove(listener.fileno())
            close_routes(self._routes)
            self._news.draining(wish)

    def _take_those_who_wait(self, now: float) -> None:
        """A listener that is closed resets those who wait in its queue. One that was handed to us
        stays open with whoever did, who will see to them."""
        if self._until <= now:
            return
        for route in self._routes:
            for listener in list(route.listeners):
                if listener.ours:
                    self._accept(_Door(route, listener), now, BACKLOG)

    def _cut_all(self, now: float) -> None:
        self._until = math.inf
        for passage in list(self._passages.values()):
            if passage.relay is None:
                self._dials.cancel(passage.number)
                self._gate.joined()
            else:
                passage.relay.cut()
            self._end(passage, now)

    def close(self) -> None:
        """Cut whatever is open, and close the listeners. Not while `serve` runs."""
        self._cut_all(self._world.now())
        self._dials.close()
        close_routes(self._routes)
        self._pipes.close()
        self._ready.close()


@dataclass(eq=False)
class _Door:
    """A listener, as the key of its readiness."""

    route: Route
    listener: Listener


def _give_up(place: int | None) -> None:
    if place is not None:
        os.close(place)


def _tune(client: socket.socket, name: str, policy: Policy) -> None:
    """Options of a client's socket: no delay for small packets, and keepalive for who may die
    silently."""
    if name.startswith("a local"):
        return
    apply(client, SocketPlan(keepalive=None if _is_near(name) else policy.keepalive))


def _is_near(name: str) -> bool:
    """Whether a client is on this machine."""
    return name.startswith(("127.", "[::1]", "a local"))
