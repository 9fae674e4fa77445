"""The neighbour table of a host: whose link address is known, doubted, asked for, or not to be had.

States and times are the kernel's: REACHABLE for a random 15 to 45 s since the last confirmation,
STALE until the next packet, DELAY 5 s, three unicast probes 1 s apart, FAILED; a lookup asks three
times, 1 s apart. Only who has a packet queued hears of a failed lookup.

Source: linux-tcp facts 4, net/core/neighbour.c (neigh_timer_handler), arp(7). Both families behave
alike here. Leaves out the limits of the table and of the queue; lookups are never lost by chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.testing.simnet.alarm import Alarm
from outlast.testing.simnet.packet import Segment
from outlast.testing.simnet.rules import SECOND

if TYPE_CHECKING:
    from outlast.testing.simnet.host import Host

__all__ = ["Neighbour", "Neighbours"]

_BASE_REACHABLE = 30 * SECOND
_REDRAWN = 300 * SECOND  # neigh_periodic_work draws the reachable time anew so often
_FIRST_PROBE = 5 * SECOND
_RETRANS = SECOND
_PROBES = 3

FAILED, INCOMPLETE, REACHABLE, STALE, DELAY, PROBE = (
    *("FAILED", "INCOMPLETE", "REACHABLE", "STALE", "DELAY", "PROBE"),
)


class Neighbour:
    """What a host knows of one address on its link."""

    __slots__ = ("_alarm", "_host", "_probes", "_queue", "address", "confirmed", "state")

    def __init__(self, host: Host, address: str) -> None:
        self._host = host
        self.address = address
        self.state = FAILED
        self.confirmed = 0
        self._probes = 0
        self._queue: list[Segment] = []
        self._alarm = Alarm(host.timeline, self._ring, "neighbour", host.kernel.wheel)

    def send(self, segment: Segment) -> None:
        """Send a packet to it, now or when its link address is known."""
        if self.state == STALE:
            self._enter(DELAY, _FIRST_PROBE)
        if self.state in (REACHABLE, DELAY, PROBE):
            self._host.fabric.carry(self._host, segment)
            return
        segment.held = True
        self._queue.append(segment)
        if self.state == FAILED:
            self._enter(INCOMPLETE, _RETRANS)
            self._probes = 0
            self._ask()

    def heard(self) -> None:
        """It has asked for us, so we know where it is."""
        if self.state in (FAILED, INCOMPLETE):
            self._enter(STALE, None)
            self._flush()

    def stop(self) -> None:
        """The host is no more."""
        self._alarm.stop()
        for segment in self._queue:
            segment.held = False
        self._queue.clear()

    def _enter(self, state: str, then: int | None) -> None:
        host = self._host
        if host.fabric.trace is not None:
            host.fabric.trace(host.name, f"neighbour {self.address}: {state}")
        self.state = state
        if then is None:
            self._alarm.clear()
        else:
            self._alarm.after(then)

    def _ring(self) -> None:
        now = self._host.timeline.now
        if self.state == REACHABLE:
            self._host.fabric.settle()
            until = self.confirmed + self._host.neighbours.reachable_time()
            if now < until:
                self._alarm.set(until)
            else:
                self._enter(STALE, None)
        elif self.state == DELAY:
            if now <= self.confirmed + _FIRST_PROBE:
                self._reached(self.confirmed)
                return
            self._enter(PROBE, _RETRANS)
            self._probes = 0
            self._ask()
        elif self._probes >= _PROBES:
            self._fail()
        else:
            self._alarm.after(_RETRANS)
            self._ask()

    def _ask(self) -> None:
        host = self._host
        self._probes += 1
        owner = host.fabric.answers(host, self.address)
        if owner is None:
            return
        ways = (host.link.away, owner.link.towards, owner.link.away, host.link.towards)
        owner.neighbours.heard_from(host.address)
        host.timeline.after(sum(way.delay for way in ways), self._answered, "ARP reply")

    def _answered(self) -> None:
        if self._host.up and self.state != FAILED:
            self._reached(self._host.timeline.now)
            self._flush()

    def _reached(self, confirmed: int) -> None:
        self.confirmed = confirmed
        until = confirmed + self._host.neighbours.reachable_time()
        self._enter(REACHABLE, max(1, until - self._host.timeline.now))

    def _flush(self) -> None:
        queue, self._queue = self._queue, []
        for segment in queue:
            segment.held = False
            self.send(segment)

    def _fail(self) -> None:
        self._enter(FAILED, None)
        queue, self._queue = self._queue, []
        for segment in queue:
            segment.held = False
            self._host.lost_neighbour(segment)


class Neighbours:
    """All that a host knows of its link."""

    __slots__ = ("_host", "_table")

    def __init__(self, host: Host) -> None:
        self._host = host
        self._table: dict[str, Neighbour] = {}

    def send(self, segment: Segment) -> None:
        """Send a packet to the host that has its destination address."""
        entry = self._table.get(segment.dst[0])
        if entry is None:
            entry = self._new(segment.dst[0])
        elif entry.state == REACHABLE:
            self._host.fabric.carry(self._host, segment)
            return
        entry.send(segment)

    def confirm(self, address: str) -> None:
        """A connection got an answer from there: somebody is at home."""
        entry = self._table.get(address)
        if entry is not None:
            entry.confirmed = self._host.timeline.now

    def heard_from(self, address: str) -> None:
        """Somebody has asked for us."""
        entry = self._table.get(address)
        (entry or self._new(address)).heard()

    def reachable(self, address: str) -> Neighbour | None:
        """The entry of an address that is held for reachable."""
        entry = self._table.get(address)
        return entry if entry is not None and entry.state == REACHABLE else None

    def state(self, address: str) -> str:
        """The state of an address's entry, as ip-neighbour(8) calls it; NONE without one."""
        entry = self._table.get(address)
        return "NONE" if entry is None else entry.state

    def flush(self, address: str = "") -> None:
        """Forget an address, or all, as `ip neigh flush` does; what is queued is lost."""
        for known in [address] if address else list(self._table):
            entry = self._table.pop(known, None)
            if entry is not None:
                entry.stop()

    def reachable_time(self) -> int:
        """For how long a confirmation counts at present."""
        host = self._host
        number = host.timeline.now // _REDRAWN
        share = host.fabric.draws.uniform(f"reachable/{host.name}", number)
        return _BASE_REACHABLE // 2 + int(share * _BASE_REACHABLE)

    def _new(self, address: str) -> Neighbour:
        entry = self._table[address] = Neighbour(self._host, address)
        return entry
