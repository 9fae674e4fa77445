"""A host's kernel: addresses, ports, connections, and what becomes of packets that arrive.

A segment for nobody is answered with RST, so a host that was rebooted ends the connections it does
not know. A host that is off neither sends nor hears.

Source: net/ipv4/tcp_ipv4.c (tcp_v4_rcv, tcp_v4_err), inet_hash_connect; linux-tcp facts 2.2, 3.4.
Refuses raw sockets and UDP.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from outlast.testing.simnet.link import Link
from outlast.testing.simnet.neighbours import Neighbours
from outlast.testing.simnet.packet import ACK, RST, SYN, Endpoint, Segment, Unreachable
from outlast.testing.simnet.rules import Kernel
from outlast.testing.simnet.settings import Settings, write_option
from outlast.testing.simnet.sockets import Listener, SimSocket
from outlast.testing.simnet.states import ESTABLISHED
from outlast.testing.simnet.tcp import Connection

if TYPE_CHECKING:
    from outlast.testing.simnet.fabric import Fabric

__all__ = ["Host", "Option", "Translation"]

Option = tuple[int, int, "int | bytes"]

_SPACING = 1 << 40  # between the sequence numbers of one connection and the next


class Translation(Protocol):
    """Address translation in a host's hooks. It changes segments in place."""

    def outgoing(self, segment: Segment) -> bool:
        """A packet that this host sends; False if it goes nowhere."""

    def incoming(self, segment: Segment) -> bool:
        """A packet that has arrived; False if it is not for this host's own connections."""

    def original(self, segment: Segment) -> Segment:
        """A translated packet of this host's as its connection sent it."""

    def destination(self, source: Endpoint, target: Endpoint) -> Endpoint | None:
        """Where a connection's packets really go; None if that is not known."""

    def delivery(self, source: Endpoint, target: Endpoint) -> Endpoint | None:
        """Which of this host's own addresses gets what arrives for `target`; None if none does."""


class Host:
    """One kernel. `label`s of connections are to be stable names: their chance is keyed by them."""

    def __init__(
        self, fabric: Fabric, name: str, address: str, kernel: Kernel, *, address6: str = ""
    ) -> None:
        self.fabric = fabric
        self.timeline = fabric.timeline
        self.name = name
        self.kernel = kernel
        self.address = address
        self.address6 = address6  # none: a host without IPv6
        self.addresses: set[str] = set()
        self.link = Link(name, fabric.draws, fabric.disturbed)
        self.on = True
        self.refusal = 0  # an errno that it answers everything with, as a router would
        self.translation: Translation | None = None
        self.neighbours = Neighbours(self)
        self.connections: dict[tuple[Endpoint, Endpoint], Connection] = {}
        self.listeners: dict[Endpoint, Listener] = {}
        self._ports: dict[int, int] = {}  # local ports in use, and how often
        self._next_port = kernel.ports[0]
        self._made = 0
        self.add_address(address)
        if address6:
            self.add_address(address6)

    @property
    def up(self) -> bool:
        """Whether it has power and a cable."""
        return self.on and self.link.plugged

    def add_address(self, address: str) -> None:
        """Be at `address` too."""
        self.addresses.add(address)
        self.fabric.own(address, self)

    # -- what programs do ------------------------------------------------------------------

    def settings(self, options: Iterable[Option] = ()) -> Settings:
        """A new socket's settings. Raises OSError for an option that the kernel refuses."""
        settings = Settings.of(self.kernel)
        for level, number, value in options:
            write_option(settings, level, number, value, lambda _: None)
        return settings

    def connect(
        self,
        remote: Endpoint,
        options: Iterable[Option] = (),
        *,
        label: str = "",
        source: Endpoint | None = None,
    ) -> SimSocket:
        """Begin a connection; writable when it stands or has failed. Raises OSError."""
        settings = self.settings(options)
        if not self.fabric.has_route(remote[0]):
            raise _error(errno.ENETUNREACH)
        local = self._bind(remote, source, settings)
        name = label or f"{self.name}:{local[1]}>{remote[0]}:{remote[1]}"
        conn = Connection(self, local, remote, settings, name)
        self._add(conn)
        conn.open()
        return SimSocket(conn)

    def listen(
        self,
        endpoint: Endpoint | int,
        backlog: int = 128,
        owner: object = None,
        *,
        also: Iterable[Endpoint] = (),
    ) -> Listener:
        """Listen at an address and port, or at a port of the host's own address.

        `also`: further addresses of the same listener, as a socket of both families has.
        """
        first = (self.address, endpoint) if isinstance(endpoint, int) else endpoint
        places = (first, *also)
        for where in places:
            if where[0] not in self.addresses:
                raise _error(errno.EADDRNOTAVAIL)
            if where in self.listeners:
                raise _error(errno.EADDRINUSE)
        listener = Listener(self, first, backlog, owner)
        self.listeners.update(dict.fromkeys(places, listener))
        return listener

    def unlisten(self, listener: Listener) -> None:
        """The listener was closed."""
        for where, known in tuple(self.listeners.items()):
            if known is listener:
                del self.listeners[where]

    def _bind(self, remote: Endpoint, source: Endpoint | None, settings: Settings) -> Endpoint:
        host = self.address6 if ":" in remote[0] else self.address
        if not host:
            raise _error(errno.ENETUNREACH)
        if source is not None:
            host = source[0] if source[0] not in ("", "0.0.0.0", "::") else host
            if host not in self.addresses:
                raise _error(errno.EADDRNOTAVAIL)
            if source[1]:
                if source[1] in self._ports and not settings.reuse_address:
                    raise _error(errno.EADDRINUSE)
                if ((host, source[1]), remote) in self.connections:
                    raise _error(errno.EADDRNOTAVAIL)
                return host, source[1]
        return host, self._free_port()

    def _free_port(self) -> int:
        first, last = self.kernel.ports
        for _ in range(last - first + 1):
            port = self._next_port
            self._next_port = first if port == last else port + 1
            if port not in self._ports:
                return port
        raise _error(errno.EADDRNOTAVAIL)

    # -- what connections do ---------------------------------------------------------------

    def initial_sequence(self) -> int:
        """A range of sequence numbers that nobody else has."""
        self._made += 1
        return self._made * _SPACING

    def send(self, segment: Segment) -> None:
        """Send a packet of this host's."""
        if not self.on:
            return
        if self.translation is not None and not self.translation.outgoing(segment):
            return
        self.forward(segment)

    def forward(self, segment: Segment) -> None:
        """Put a packet on its way, whoever it is from."""
        if segment.dst[0] in self.addresses:
            self.fabric.carry(self, segment)
        else:
            self.neighbours.send(segment)

    def refuse(self, segment: Segment) -> None:
        """Answer a segment that belongs to nothing here with RST."""
        if segment.flags & RST:
            return
        answer = Segment(segment.dst, segment.src, RST | ACK, 0, segment.end, label=segment.label)
        if segment.flags & ACK:
            answer.flags, answer.seq = RST, segment.ack
        self.send(answer)

    def forget(self, conn: Connection) -> None:
        """A connection is over."""
        key = (conn.local, conn.remote)
        if self.connections.get(key) is conn:
            del self.connections[key]
            port = conn.local[1]
            self._ports[port] -= 1
            if not self._ports[port]:
                del self._ports[port]
        if conn.listener is not None:
            conn.listener.pending.pop(conn, None)

    def _add(self, conn: Connection) -> None:
        self.connections[conn.local, conn.remote] = conn
        port = conn.local[1]
        self._ports[port] = self._ports.get(port, 0) + 1

    def way_out(self, conn: Connection) -> Endpoint | None:
        """Where a connection's packets really go."""
        if self.translation is None:
            return conn.remote
        return self.translation.destination(conn.local, conn.remote)

    def way_in(self, source: Endpoint, target: Endpoint) -> Connection | None:
        """The connection of this host's that gets what `source` sends to `target`."""
        there = target
        if self.translation is not None:
            found = self.translation.delivery(source, target)
            if found is None:
                return None
            there = found
        return self.connections.get((there, source))

    # -- packets in ------------------------------------------------------------------------

    def receive(self, segment: Segment) -> None:
        """A packet has arrived."""
        if not (self.on and self.link.plugged):
            return
        if self.refusal:
            self.fabric.carry_error(self, Unreachable(self.refusal, segment))
            return
        sender = segment.src[0]
        if self.translation is not None and not self.translation.incoming(segment):
            return
        conn = self.connections.get((segment.dst, segment.src))
        if conn is not None:
            conn.take(segment)
            if conn.state == ESTABLISHED:
                self.neighbours.confirm(sender)
            return
        if segment.flags & (SYN | ACK | RST) == SYN:
            listener = self.listeners.get(segment.dst)
            if listener is not None:
                self._greet(listener, segment)
                return
        self.refuse(segment)

    def _greet(self, listener: Listener, syn: Segment) -> None:
        if listener.full:
            if self.fabric.trace is not None:
                self.fabric.trace(syn.label, f"SYN dropped: accept queue of {self.name} is full")
            return
        name = f"{syn.label} at {self.name}"
        conn = Connection(self, syn.dst, syn.src, self.settings(), name)
        conn.settings.nodelay = True  # as servers do; a program can take it back
        conn.listener = listener
        listener.pending[conn] = None
        self._add(conn)
        conn.answer(syn)

    def hear(self, error: Unreachable) -> None:
        """An ICMP error has arrived about a packet of ours."""
        if not self.on:
            return
        segment = error.segment
        if self.translation is not None:
            segment = self.translation.original(segment)
        conn = self.connections.get((segment.src, segment.dst))
        if conn is not None:
            conn.unreachable(error.errno, segment.seq)
        elif segment.src[0] not in self.addresses:  # it was only passed on here
            self.fabric.carry_error(self, Unreachable(error.errno, segment))

    def lost_neighbour(self, segment: Segment) -> None:
        """Nobody answers for the address that a packet is for."""
        self.fabric.carry_error(self, Unreachable(errno.EHOSTUNREACH, segment))

    # -- power -----------------------------------------------------------------------------

    def power_off(self) -> None:
        """All is gone, and nobody is told."""
        self.fabric.disturbed()
        self.on = False
        for listener in tuple(self.listeners.values()):
            listener.on_change = None
        for conn in tuple(self.connections.values()):
            conn.notify = None
            conn.die(0)
        self.listeners.clear()
        self.connections.clear()
        self._ports.clear()
        self.neighbours.flush()

    def power_on(self) -> None:
        """Boot with nothing in memory."""
        self.fabric.disturbed()
        self.on = True
        self.refusal = 0


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))
