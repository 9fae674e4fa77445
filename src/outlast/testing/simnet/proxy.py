"""What kube-proxy does on a node: Service addresses become pods' addresses.

On the node where a connection begins its packets are translated on their way out; packets that
come from outside for a NodePort are translated and passed on, with the node's own address as source
unless the pod is local and the policy is Local. A Service without endpoints is refused with ICMP
port unreachable.

Source: kubernetes pkg/proxy (nftables and iptables modes), linux-tcp facts 9. Packets for a Local
NodePort on a node without a local pod are dropped, as kube-proxy does.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from outlast.testing.simnet.conntrack import Entry, Table
from outlast.testing.simnet.packet import ACK, RST, SYN, Endpoint, Segment, Unreachable

if TYPE_CHECKING:
    from outlast.testing.simnet.host import Host
    from outlast.testing.simnet.service import Service

__all__ = ["Proxy"]


class Proxy:
    """The translation of one host; see `Translation`."""

    def __init__(self, host: Host, services: dict[Endpoint, Service]) -> None:
        self._host = host
        self._services = services
        self.table = Table()

    def outgoing(self, segment: Segment) -> bool:
        """See `Translation.outgoing`."""
        service = self._services.get(segment.dst)
        if service is None:
            return True
        now = self._host.timeline.now
        entry = self.table.find(segment.src, segment.dst, now)
        if entry is None:
            entry = self._track(service, segment, now)
            if entry is None:
                return False
        entry.seen(segment, now, reply=False)
        segment.dst = entry.there
        return True

    def _track(self, service: Service, segment: Segment, now: int) -> Entry | None:
        """The draw. A packet in the middle of a connection that was forgotten is a new one too."""
        host = self._host
        pod = service.choose(segment.src[0], segment.label, now)
        if pod is None:
            if not segment.flags & RST:
                host.fabric.carry_error(host, Unreachable(errno.ECONNREFUSED, segment))
            return None
        if host.fabric.trace is not None and segment.flags & (SYN | ACK) == SYN:
            host.fabric.trace(segment.label, f"{service.name} draws {pod.name}")
        entry = Entry(segment.src, segment.dst, segment.src, pod.endpoint)
        self.table.add(entry, now)
        return entry

    def incoming(self, segment: Segment) -> bool:
        """See `Translation.incoming`."""
        now = self._host.timeline.now
        entry = self.table.find_reply(segment.src, segment.dst, now)
        if entry is not None:
            entry.seen(segment, now, reply=True)
            segment.src = entry.vip
        return True

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
