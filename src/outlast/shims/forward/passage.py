"""One connection of the forwarder: its two sockets, and the steps that its relay asks for.

Thin: `relay.Relay` decides, this carries out by `net.moving`. A pipe is borrowed for bytes that
came in bulk, and given back as soon as it is empty, so that an idle connection holds nothing but
two sockets. Not thread-safe; one owner.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from outlast.net.moving import (
    CannotSplice,
    Pipe,
    Pipes,
    SinkFailed,
    SourceFailed,
    abort,
    copy,
    failure,
    pass_end_on,
)
from outlast.net.ready_set import FAILED, ReadySet
from outlast.net.seam import READ, WRITE
from outlast.shims.forward.relay import CLIENT, UPSTREAM, Do, End, Relay

if TYPE_CHECKING:
    import socket

    from outlast.net.sentry import Watched
    from outlast.shims.forward.route import Route

__all__ = ["Passage"]


class Passage:
    """A client, and upstream once it stands.

    `name`: the client's, in words. `where`: what was dialled. `why`: what a side failed of.
    `place`: a descriptor that is kept for upstream.
    """

    __slots__ = (
        "_deaf",
        "_keys",
        "_pipes",
        "_place",
        "_socks",
        "local_port",
        "name",
        "number",
        "opened",
        "relay",
        "route",
        "watches",
        "where",
        "why",
    )

    def __init__(
        self,
        number: int,
        route: Route,
        client: tuple[socket.socket, str],
        now: float,
        place: int | None,
    ) -> None:
        self.number = number
        self.route = route
        sock, self.name = client
        self.opened = now
        self.where = ""
        self.local_port = 0
        self.why: OSError | None = None
        self.relay: Relay | None = None
        self.watches: tuple[Watched | None, Watched | None] = (None, None)  # by side
        self._socks: list[socket.socket | None] = [sock, None]
        self._place = place
        self._pipes: list[Pipe | None] = [None, None]
        self._deaf = [False, False]  # failure without an errno is told again and again
        self._keys = ((self, CLIENT), (self, UPSTREAM))

    def make_room(self) -> None:
        """Upstream is about to be dialled: the descriptor that was kept for it is free."""
        place, self._place = self._place, None
        if place is not None:
            os.close(place)

    def join(self, upstream: socket.socket, relay: Relay) -> None:
        """Upstream stands: the passage is open."""
        self._socks[UPSTREAM] = upstream
        self.relay = relay

    def sock(self, side: int) -> socket.socket:
        """A side's socket, which has to stand."""
        found = self._socks[side]
        assert found is not None
        return found

    @property
    def over(self) -> bool:
        """Whether its sockets are closed."""
        return self._socks[CLIENT] is None

    # -- steps -----------------------------------------------------------------------------

    def happened(self, side: int, mask: int, pipes: Pipes, buffer: memoryview, now: float) -> None:
        """A socket is ready; everything that follows from it."""
        relay = self.relay
        assert relay is not None
        if mask & WRITE:
            relay.writable(side)
            self._run(relay, 1 - side, pipes, buffer, now)
        if mask & READ:
            relay.readable(side)
            self._run(relay, side, pipes, buffer, now)
        if mask & FAILED and relay.end is None:
            self._failed(relay, side, now)
        if relay.failed is not None and relay.end is None:
            self._run(relay, relay.failed, pipes, buffer, now)

    def _failed(self, relay: Relay, side: int, now: float) -> None:
        error = failure(self.sock(side))
        if error is not None:
            self._lost(relay, side, error, now)
        elif not relay.wants(side):
            self.deafen(side)

    def _lost(self, relay: Relay, side: int, error: OSError, now: float) -> None:
        if self.why is None:
            self.why = error
        relay.lost(side, now)

    def _run(self, relay: Relay, side: int, pipes: Pipes, buffer: memoryview, now: float) -> None:
        """Steps of the flow from `side`, until it rests."""
        while (do := relay.next(side)) is not Do.REST:
            try:
                self._step(relay, side, do, pipes, buffer, now)
            except SourceFailed as failed:
                self._lost(relay, side, failed.args[0], now)
            except SinkFailed as failed:
                self._lost(relay, 1 - side, failed.args[0], now)

    def _step(
        self, relay: Relay, side: int, do: Do, pipes: Pipes, buffer: memoryview, now: float
    ) -> None:
        source, sink = self.sock(side), self.sock(1 - side)
        if do is Do.SHUT:
            self._relax(side)
            pass_end_on(sink)
            relay.passed_on(side)
        elif do is Do.POUR:
            pipe = self._pipes[side]
            assert pipe is not None
            relay.poured(side, pipe.pour(sink), now)
            self._return_empty(side, pipes)
        elif do is Do.SPLICE and self._borrow(side, pipes) is not None:
            self._fill(relay, side, source, pipes)
        else:
            count, full = copy(source, sink, buffer)
            relay.copied(side, count, full=full, now=now)

    def _fill(self, relay: Relay, side: int, source: socket.socket, pipes: Pipes) -> None:
        pipe = self._pipes[side]
        assert pipe is not None
        try:
            relay.filled(side, pipe.fill(source))
        except CannotSplice:
            pipes.forbid()
        finally:
            self._return_empty(side, pipes)

    def _borrow(self, side: int, pipes: Pipes) -> Pipe | None:
        self._pipes[side] = pipes.borrow()
        return self._pipes[side]

    def _return_empty(self, side: int, pipes: Pipes) -> None:
        pipe = self._pipes[side]
        if pipe is not None and not pipe.held:
            pipes.give_back(pipe)
            self._pipes[side] = None

    def _relax(self, side: int) -> None:
        """Once our end is passed on, a connection may close of itself while what it brought is
        still to be read: the watch must not end it for that. The kernel's keepalive goes on."""
        watched = self.watches[1 - side]
        if watched is not None:
            watched.set(abort=False)

    def deafen(self, side: int) -> None:
        """Do not be told of this side's end any more: it is known, and nothing follows yet."""
        self._deaf[side] = True

    # -- what to wait for, and the end -----------------------------------------------------------

    def listen(self, ready: ReadySet[object]) -> None:
        """Have `ready` tell what is of interest now."""
        for side in (CLIENT, UPSTREAM):
            sock = self._socks[side]
            if sock is None:
                continue
            mask = 0 if self.relay is None else self.relay.wants(side)
            failed = self.relay is not None and self.relay.failed == side
            if not mask and (self._deaf[side] or failed):
                ready.remove(sock.fileno())
            else:
                ready.set(sock.fileno(), self._keys[side], mask)

    def close(self, ready: ReadySet[object], pipes: Pipes) -> None:
        """Close both sockets: in good order if both flows have ended so, else with a reset."""
        self.make_room()
        orderly = self.relay is not None and self.relay.end is End.CLOSED
        for side in (CLIENT, UPSTREAM):
            sock, pipe = self._socks[side], self._pipes[side]
            self._socks[side] = self._pipes[side] = None
            if pipe is not None:
                pipes.give_back(pipe)
            if sock is not None:
                ready.remove(sock.fileno())
                if orderly:
                    sock.close()
                else:
                    abort(sock)
