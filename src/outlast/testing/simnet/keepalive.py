"""Keepalive: the tick, the probes, and how an idle connection costs nothing.

The tick is the kernel's own (linux-tcp facts 6.1). While nothing can go wrong on the way (both
hosts are up, no loss, no middlebox, nobody else's timer) the probes and their answers are a plain
series in time, so they are computed when somebody looks instead of being played: the connection
*rests*. Whatever could change the series ends the rest first: see `Fabric.disturbed`.

Source: net/ipv4/tcp_timer.c, tcp_keepalive_timer. Refuses to rest where the peer probes too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.testing.simnet.alarm import Alarm
from outlast.testing.simnet.rules import SECOND
from outlast.testing.simnet.states import CLOSED, LISTEN, SYN_SENT

if TYPE_CHECKING:
    from outlast.testing.simnet.fabric import Way
    from outlast.testing.simnet.tcp import Connection

__all__ = ["Keepalive"]


class Keepalive:
    """The keepalive timer of one connection."""

    __slots__ = ("_alarm", "_before", "_conn", "_rest", "_way")

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        wheel = conn.host.kernel.wheel
        self._alarm = Alarm(conn.timeline, self._tick, "keepalive", wheel)
        self._rest = 0  # when the probe left that the present rest began with
        self._way: Way | None = None  # not None: resting
        self._before = (0, 0)  # segments out and in, when the rest began

    @property
    def resting(self) -> bool:
        """Whether probes are computed at present, not played."""
        return self._way is not None

    def start(self) -> None:
        """The connection stands, or the option was switched on."""
        if self._conn.settings.keepalive and self._conn.state not in (CLOSED, LISTEN, SYN_SENT):
            self._alarm.after(self._conn.settings.idle * SECOND)

    def stop(self) -> None:
        """The option was switched off, or the connection is over."""
        self.settle()
        self._get_up()
        self._alarm.stop()

    def idle_changed(self) -> None:
        """TCP_KEEPIDLE was set: it counts from when the peer was last heard."""
        if self._conn.settings.keepalive and self._conn.state not in (CLOSED, LISTEN, SYN_SENT):
            self.wake()
            self._alarm.after(max(0, self._conn.settings.idle * SECOND - self._conn.silent()))

    def _tick(self) -> None:
        conn = self._conn
        settings = conn.settings
        if not settings.keepalive or conn.state in (CLOSED, SYN_SENT):
            return
        idle = settings.idle * SECOND
        if not conn.sender.idle or conn.sender.flight:
            self._alarm.after(idle)
            return
        silent = conn.silent()
        if silent < idle:
            self._alarm.after(idle - silent)
            return
        limit = settings.user_timeout
        if conn.probes >= settings.count if not limit else conn.probes and silent >= limit:
            conn.give_up(reset=True)
            return
        if conn.probes == 0 and self._lie_down():
            return
        conn.probe()
        self._alarm.after(settings.interval * SECOND)

    # -- resting ---------------------------------------------------------------------------

    def _lie_down(self) -> bool:
        conn = self._conn
        way = conn.host.fabric.clear_way(conn)
        if way is None or way.round_trip >= conn.settings.interval * SECOND:
            return False
        self._way = way
        self._rest = conn.timeline.now
        self._before = (conn.segments_out, conn.segments_in)
        way.peer.rest_with = conn
        conn.rest_with = way.peer
        conn.host.fabric.resting[conn] = None
        return True

    def _period(self, way: Way) -> int:
        settings = self._conn.settings
        return max(settings.interval * SECOND, settings.idle * SECOND + way.round_trip)

    def settle(self) -> None:
        """Bring what TCP_INFO and the neighbour tables show up to date, still resting."""
        way = self._way
        if way is None:
            return
        conn = self._conn
        now = conn.timeline.now
        period = self._period(way)
        last = self._rest + (now - self._rest) // period * period
        answered = last + way.round_trip <= now
        conn.probes = 0 if answered else 1
        self._count((last - self._rest) // period + 1, way)
        heard = last if answered else last - period
        if heard >= self._rest:
            conn.heard_at = heard + way.round_trip
            way.peer.heard_at = heard + way.round_trip // 2
            way.confirm(conn.heard_at)

    def _count(self, probes: int, way: Way) -> None:
        """Have the counters of both ends show `probes` since the rest began."""
        conn, peer = self._conn, way.peer
        answers = probes - conn.probes
        more = answers - (conn.segments_in - self._before[1])
        conn.segments_out = self._before[0] + probes
        conn.segments_in += more
        peer.segments_in += more
        peer.segments_out += more

    def wake(self) -> None:
        """End the rest: the next tick is played."""
        way = self._way
        if way is None:
            return
        self.settle()
        self._get_up()
        conn = self._conn
        now = conn.timeline.now
        period = self._period(way)
        last = self._rest + (now - self._rest) // period * period
        tick = last + conn.settings.interval * SECOND
        if conn.probes:  # it is on its way just now: it goes the rest of the way as a new one
            conn.probes = 0
            conn.segments_out -= 1
            conn.probe()
        elif tick <= now:
            tick = conn.heard_at + conn.settings.idle * SECOND
        self._alarm.set(max(tick, now))

    def _get_up(self) -> None:
        way, self._way = self._way, None
        if way is not None:
            self._conn.rest_with = way.peer.rest_with = None
            self._conn.host.fabric.resting.pop(self._conn, None)
