"""What kube-proxy does on a node: Service addresses become pods' addresses.

On the node where a connection begins its packets are translated on their way out. Packets that
come from outside for a NodePort are translated and passed on: with the node's own address as source
under the Cluster policy, as they came under the Local one, which only takes pods of the node
itself. A Service without endpoints is refused with ICMP port unreachable; a Local NodePort on a
node without a pod loses what comes.

Source: kubernetes pkg/proxy (nftables and iptables modes), linux-tcp facts 9. Leaves out hairpins
and the node's own connections to its NodePorts.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

from outlast.testing.simnet.conntrack import Entry, Table
from outlast.testing.simnet.packet import ACK, RST, SYN, Endpoint, Segment, Unreachable

if TYPE_CHECKING:
    from outlast.testing.simnet.host import Host
    from outlast.testing.simnet.pod import Pod
    from outlast.testing.simnet.service import Service

__all__ = ["Proxy"]


class Proxy:
    """The translation of one host; see `Translation`."""

    def __init__(
        self, host: Host, services: dict[Endpoint, Service], node_ports: dict[int, Service]
    ) -> None:
        self._host = host
        self._services = services
        self._node_ports = node_ports
        self.table = Table()

    # -- this host's own packets -----------------------------------------------------------

    def outgoing(self, segment: Segment) -> bool:
        """See `Translation.outgoing`."""
        service = self._services.get(segment.dst)
        now = self._host.timeline.now
        if service is None:
            if self._node_ports:
                self._answer(segment, now)
            return True
        entry = self.table.find(segment.src, segment.dst, now)
        if entry is None or (entry.closed and segment.flags & SYN):
            entry = self._track(service, segment, segment.src)
            if entry is None:
                return False
        entry.seen(segment, now, reply=False)
        segment.dst = entry.there
        return True

    def _answer(self, segment: Segment, now: int) -> None:
        """A local pod answers what came through this node's own port."""
        entry = self.table.find_reply(segment.src, segment.dst, now)
        if entry is not None and entry.vip[0] == self._host.address:
            entry.seen(segment, now, reply=True)
            segment.src, segment.dst = entry.vip, entry.client

    def _track(
        self,
        service: Service,
        segment: Segment,
        via: Endpoint,
        only: Callable[[Pod], bool] | None = None,
    ) -> Entry | None:
        """The draw. A packet in the middle of a connection that was forgotten is a new one too."""
        host = self._host
        pod = service.choose(segment.src[0], segment.label, host.timeline.now, only)
        if pod is None:
            if not segment.flags & RST:
                host.fabric.carry_error(host, Unreachable(errno.ECONNREFUSED, segment))
            return None
        trace = host.fabric.trace
        if trace is not None and segment.flags & (SYN | ACK) == SYN:
            trace(segment.label, f"{service.name} draws {pod.name}")
        there = pod.endpoint6 if ":" in segment.dst[0] else pod.endpoint
        if via != segment.src:
            via = self._free(via, there)
        entry = Entry(segment.src, segment.dst, via, there)
        self.table.add(entry, host.timeline.now)
        return entry

    def _free(self, via: Endpoint, there: Endpoint) -> Endpoint:
        """A source of ours that no other connection to that pod has."""
        first, last = self._host.kernel.ports
        port = via[1]
        while (there, (via[0], port)) in self.table.back:
            port = first if port >= last else port + 1
        return via[0], port

    # -- packets that have arrived ---------------------------------------------------------

    def incoming(self, segment: Segment) -> bool:
        """See `Translation.incoming`."""
        host = self._host
        now = host.timeline.now
        entry = self.table.find_reply(segment.src, segment.dst, now)
        if entry is not None:
            entry.seen(segment, now, reply=True)
            segment.src = entry.vip
            if entry.client == entry.via:
                return True
            segment.dst = entry.client
            host.forward(segment)
            return False
        service = self._node_ports.get(segment.dst[1])
        if service is None or segment.dst[0] != host.address:
            return True
        return self._pass_on(service, segment, now)

    def _pass_on(self, service: Service, segment: Segment, now: int) -> bool:
        """A packet for a NodePort; True if a pod of this host is to have it."""
        host = self._host
        entry = self.table.find(segment.src, segment.dst, now)
        if entry is None or (entry.closed and segment.flags & SYN):
            if not service.local:
                via = (host.address, segment.src[1])
                entry = self._track(service, segment, via)
            elif service.has_local(host):
                entry = self._track(service, segment, segment.src, service.on(host))
            else:
                return service.mute
            if entry is None:
                return False
        entry.seen(segment, now, reply=False)
        segment.src, segment.dst = entry.via, entry.there
        if entry.via == entry.client:
            return True
        host.forward(segment)
        return False

    # -- what others ask -------------------------------------------------------------------

    def original(self, segment: Segment) -> Segment:
        """See `Translation.original`."""
        entry = self.table.back.get((segment.dst, segment.src))
        return segment if entry is None else segment.between(entry.client, entry.vip)

    def destination(self, source: Endpoint, target: Endpoint) -> Endpoint | None:
        """See `Translation.destination`."""
        if target not in self._services:
            return target
        entry = self.table.find(source, target, self._host.timeline.now)
        return None if entry is None else entry.there

    def delivery(self, source: Endpoint, target: Endpoint) -> Endpoint | None:
        """See `Translation.delivery`."""
        if target[0] != self._host.address or target[1] not in self._node_ports:
            return target
        entry = self.table.find(source, target, self._host.timeline.now)
        if entry is None:
            return target
        return entry.there if entry.via == entry.client else None
