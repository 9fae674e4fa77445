"""The wire between hosts: who has which address, and what becomes of a packet on its way.

All hosts are on one link, as the lab's nodes are, so that a neighbour's silence looks as it does
between real nodes. Addresses in `ON_LINK` networks are asked for on it; others have no route.

Source: addresses as kubeadm's users choose them, see `kernel_lab`. Refuses fragmentation: segments
of any size go through whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple

from outlast.testing.simnet.draws import Draws
from outlast.testing.simnet.packet import ACK, Segment, Unreachable
from outlast.testing.simnet.states import ESTABLISHED
from outlast.testing.simnet.timeline import Timeline

if TYPE_CHECKING:
    from outlast.testing.simnet.host import Host
    from outlast.testing.simnet.tcp import Connection

__all__ = ["Fabric", "Trace", "Way"]

# Who it is about, and what happened; time is the timeline's.
Trace = Callable[[str, str], None]
# Sees a packet that is about to leave. What it returns is done before the packet goes on its way.
Tap = Callable[["Segment"], "Callable[[], object] | None"]

_ON_LINK = tuple(
    ip_network(text)
    for text in ("10.244.0.0/16", "10.96.0.0/12", "fd00:10:244::/48", "fd00:10:96::/112")
)
_LOOPBACK = 10  # microseconds from a host to itself


class Way(NamedTuple):
    """A connection's way to its far end, while nothing can go wrong on it."""

    peer: Connection
    round_trip: int
    confirm: Callable[[int], None]


class Fabric:
    """One link with everybody on it."""

    def __init__(self, timeline: Timeline, draws: Draws) -> None:
        self.timeline = timeline
        self.draws = draws
        self.trace: Trace | None = None
        self.resting: dict[Connection, None] = {}
        self.taps: list[Tap] = []  # these see every packet that is sent
        self._behind: list[tuple[Host, Segment]] = []  # held up by what a tap has in store
        self._owners: dict[str, Host] = {}
        self._parted: set[frozenset[Host]] = set()
        self._routes: dict[str, bool] = {}

    # -- addresses -------------------------------------------------------------------------

    def own(self, address: str, host: Host) -> None:
        """Give `host` an address."""
        self._owners[address] = host

    def owner(self, address: str) -> Host | None:
        """Whose address it is."""
        return self._owners.get(address)

    def has_route(self, address: str) -> bool:
        """Whether a host would know where to send a packet for `address`."""
        known = self._routes.get(address)
        if known is None:
            ip = ip_address(address)
            known = self._routes[address] = any(ip in network for network in _ON_LINK)
        return known or address in self._owners

    # -- packets ---------------------------------------------------------------------------

    def carry(self, source: Host, segment: Segment) -> None:
        """Take a packet from `source` to the host that has its destination address."""
        if self._behind:
            self._behind.append((source, segment))
        elif not self.taps or not self._tapped(source, segment):
            self._carry(source, segment)

    def _tapped(self, source: Host, segment: Segment) -> bool:
        """Show a packet to the taps; whether it has to wait for what they have in store.

        That is an event of its own: who sends is in the middle of its work, and may be its victim.
        """
        found = [action for tap in tuple(self.taps) if (action := tap(segment)) is not None]
        if found:
            self._behind.append((source, segment))
            self.timeline.after(0, partial(self._act, found), "at a segment")
        return bool(found)

    def _act(self, actions: Sequence[Callable[[], object]]) -> None:
        try:
            for action in actions:
                action()
        finally:
            (source, segment), *others = self._behind
            self._behind = []
            self._carry(source, segment)
            for each in others:
                self.carry(*each)

    def _carry(self, source: Host, segment: Segment) -> None:
        if self.trace is not None and (segment.data or segment.flags != ACK):
            self.trace(segment.label, f"{source.name} sends {segment!r}")
        target = self._owners.get(segment.dst[0])
        if target is None:
            return
        if target is source:
            self.timeline.after(_LOOPBACK, partial(target.receive, segment))
            return
        delay = self._judge(source, target, segment)
        if delay is not None:
            self.timeline.after(delay, partial(target.receive, segment))
        elif self.trace is not None:
            self.trace(segment.label, f"lost: {segment!r}")

    def _judge(self, source: Host, target: Host, segment: Segment) -> int | None:
        """How long a packet takes; None if it does not arrive."""
        if not source.up or (self._parted and frozenset((source, target)) in self._parted):
            return None
        box = source.link.box
        if box is not None and not box.passes(segment, towards=False):
            return None
        away = source.link.away.judge(segment)
        if away is None:
            return None
        box = target.link.box
        if box is not None and not box.passes(segment, towards=True):
            return None
        towards = target.link.towards.judge(segment)
        return None if towards is None else away + towards

    def speak_for(self, host: Host, segment: Segment) -> None:
        """Take a packet that somebody on `host`'s link sends in its name."""
        target = self._owners.get(segment.dst[0])
        if target is not None and target.up:
            delay = host.link.away.delay + target.link.towards.delay
            self.timeline.after(delay, partial(target.receive, segment))

    def carry_error(self, source: Host, error: Unreachable) -> None:
        """Take an ICMP error to whoever sent the packet that it is about."""
        target = self._owners.get(error.segment.src[0])
        if target is None:
            return
        delay = _LOOPBACK
        if target is not source:
            if not self.joined(source, target):
                return
            delay = source.link.away.delay + target.link.towards.delay
        self.timeline.after(delay, partial(target.hear, error))

    # -- the link layer --------------------------------------------------------------------

    def joined(self, one: Host, other: Host) -> bool:
        """Whether two hosts hear each other on the link."""
        parted = bool(self._parted) and frozenset((one, other)) in self._parted
        return one.up and other.up and not parted

    def answers(self, asker: Host, address: str) -> Host | None:
        """Who answers when `asker` asks for an address: its host, or what stands before it."""
        owner = self._owners.get(address)
        if owner is None:
            return None
        before = owner.link.routed or owner.link.box is not None
        return owner if self.joined(asker, owner) or (before and asker.up) else None

    def part(self, one: Host, other: Host, *, parted: bool = True) -> None:
        """Cut two hosts off from each other, or join them again."""
        self.disturbed()
        pair = frozenset((one, other))
        if parted:
            self._parted.add(pair)
        else:
            self._parted.discard(pair)

    # -- connections at rest ---------------------------------------------------------------

    def disturbed(self) -> None:
        """Something is about to change that packets may notice: whoever rests wakes up."""
        for conn in tuple(self.resting):
            conn.keepalive.wake()

    def settle(self) -> None:
        """Bring what resting connections have heard up to date."""
        for conn in self.resting:
            conn.keepalive.settle()

    def clear_way(self, conn: Connection) -> Way | None:
        """The way of an idle connection, if keepalive probes cannot but be answered on it."""
        source = conn.host
        if conn.state != ESTABLISHED or not conn.sender.idle or conn.receiver.owes:
            return None
        if self.taps or self._parted or not source.up or not source.link.plain:
            return None
        there = source.way_out(conn)
        if there is None:
            return None
        target = self._owners.get(there[0])
        if target is None or not target.up or not target.link.plain or target is source:
            return None
        peer = target.way_in(conn.local, there)
        if peer is None or peer.state != ESTABLISHED or peer.settings.keepalive:
            return None
        if not peer.sender.idle or peer.receiver.owes or peer.rest_with is not None:
            return None
        near = source.neighbours.reachable(there[0])
        far = target.neighbours.reachable(conn.local[0])
        if near is None or far is None:
            return None

        def confirm(when: int) -> None:
            near.confirmed = max(near.confirmed, when)
            far.confirmed = max(far.confirmed, when)

        delays = (source.link.away, source.link.towards, target.link.away, target.link.towards)
        return Way(peer, sum(each.delay for each in delays), confirm)
