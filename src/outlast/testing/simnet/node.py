"""A node of the simulated network and what can befall it: power loss, silence, a slow link.

The names are the kernel lab's, so that a scenario runs on either. Power off is silence at once;
power on is a reboot, and old connections are answered with RST.

Source: `outlast.testing.node`. Refuses to switch the client node off, and pods on a node that is
off.
"""

from __future__ import annotations

import errno
import itertools
from typing import TYPE_CHECKING

from outlast.testing.simnet.health import HealthCheck
from outlast.testing.simnet.host import Host
from outlast.testing.simnet.middlebox import Middlebox
from outlast.testing.simnet.packet import FIN
from outlast.testing.simnet.pod import Pod, Program
from outlast.testing.simnet.rules import SECOND, Kernel

if TYPE_CHECKING:
    from outlast.testing.simnet.service import Service
    from outlast.testing.simnet.world import World

__all__ = ["CLIENT", "Node"]

CLIENT = 0
_MOST_PODS = 250  # a pod's address ends in its number + 1


class Node:
    """One node. Made by `World.node`. Every fault takes effect at the present virtual time."""

    def __init__(self, world: World, name: str, number: int, kernel: Kernel) -> None:
        self.name = name
        self.host = f"10.244.{number}.1"
        self.host6 = f"fd00:10:244:{number:x}::1"
        self.kernel = Host(world.fabric, name, self.host, kernel, address6=self.host6)
        self._world = world
        self._number = number
        self._pods: list[Pod] = []
        self._numbers = itertools.count(1)
        self._daemons: list[HealthCheck] = []
        self._mute: list[int] = []
        self.frozen = False  # its programs are stopped
        self.proxy_healthy = True  # what its health check node ports say of its proxy

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The node's pods, in the order of their making."""
        return tuple(self._pods)

    @property
    def on(self) -> bool:
        """Whether the node has power."""
        return self.kernel.on

    def place(self, program: Program, *, port: int = 8080, name: str | None = None) -> Pod:
        """Start a pod that runs `program`."""
        if not 1 <= port <= 65535:
            raise ValueError(f"port={port!r} is not a TCP port; right: port=8080")
        if not self.on:
            raise RuntimeError(f"node {self.name} is off; power_on() it first")
        number = next(self._numbers)
        if number > _MOST_PODS:
            raise RuntimeError(f"node {self.name} is full: it has {_MOST_PODS} pods")
        host = f"10.244.{self._number}.{number + 1}"
        hosts = (host, f"fd00:10:244:{self._number:x}::{number + 1:x}")
        for address in hosts:
            self.kernel.add_address(address)
        pod = Pod(self, name or f"{self.name}-{number}", hosts, port, program)
        self._pods.append(pod)
        pod.launch()
        return pod

    # -- power -----------------------------------------------------------------------------

    def power_off(self) -> None:
        """Take the node's power: silence at once, no farewell to anybody."""
        if self._number == CLIENT:
            raise RuntimeError("the client node stays on; right: net.client.unplug()")
        if self.on:
            self.kernel.power_off()
            for pod in self._pods:
                pod.crash()
        self.note(f"{self.name}: power off")
        self._world.power_changed(self)

    def power_on(self) -> None:
        """Boot the node: pods start anew, faults are gone, old connections unknown.

        A node that is on is left alone.
        """
        if self.on:
            return
        self.kernel.power_on()
        self._clear_faults()
        self.frozen = False
        for daemon in self._daemons:
            daemon.boot()
        for port in self._mute:
            self._listen_mute(port)
        for pod in self._pods:
            pod.launch()
        self.note(f"{self.name}: power on")
        self._world.power_changed(self)

    def freeze(self) -> None:
        """Stop every program of the node; its kernel goes on."""
        self.frozen = True
        for pod in self._pods:
            if pod.running:
                pod.freeze()

    def thaw(self) -> None:
        """Let them go on."""
        self.frozen = False
        for pod in self._pods:
            if pod.frozen:
                pod.thaw()
        for daemon in self._daemons:
            daemon.thaw()

    def serve_health(self, service: Service, port: int) -> None:
        """Tell at `port` whether the node has an endpoint of a Service."""
        daemon = HealthCheck(self, service, port)
        self._daemons.append(daemon)
        if self.on:
            daemon.boot()

    def accept_and_be_mute(self, port: int) -> None:
        """Accept connections at a port of the node's and let them hang."""
        self._mute.append(port)
        if self.on:
            self._listen_mute(port)

    def _listen_mute(self, port: int) -> None:
        self.kernel.listen((self.host, port), backlog=1 << 30, owner=self)

    # -- the network -----------------------------------------------------------------------

    def unplug(self) -> None:
        """Pull the node's cable: silence as with power off, but the node lives on."""
        self.kernel.fabric.disturbed()
        self.kernel.link.plugged = False
        self.note(f"{self.name}: unplug")

    def black_hole(self, *, towards: bool = True, away: bool = True) -> None:
        """Lose every packet to and from the node's addresses, while ARP goes on answering.

        `towards`, `away`: which of the two directions.
        """
        if not (towards or away):
            raise ValueError("a black hole in no direction; right: node.black_hole(away=False)")
        self.kernel.fabric.disturbed()
        self.kernel.link.towards.hole |= towards
        self.kernel.link.away.hole |= away
        which = "" if towards and away else f" ({'towards' if towards else 'away from'} it)"
        self.note(f"{self.name}: black hole{which}")

    def unreachable(self, code: int = errno.EHOSTUNREACH) -> None:
        """Have packets to the node answered with an ICMP error, as a router would.

        `code`: EHOSTUNREACH, ENETUNREACH, ECONNREFUSED (port) or ENOPROTOOPT (protocol).
        """
        known = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ECONNREFUSED, errno.ENOPROTOOPT)
        if code not in known:
            raise ValueError(f"code={code!r} is no ICMP error; right: errno.EHOSTUNREACH")
        self.kernel.fabric.disturbed()
        self.kernel.refusal = code
        self.note(f"{self.name}: unreachable")

    def heal(self) -> None:
        """Undo every fault of the network; established connections go on."""
        self.kernel.fabric.disturbed()
        self._clear_faults()
        self.note(f"{self.name}: heal")

    def _clear_faults(self) -> None:
        link = self.kernel.link
        link.plugged = True
        self.kernel.refusal = 0
        for way in (link.towards, link.away):
            way.hole = False
            way.loss = way.late = 0.0
            way.rules.clear()

    def delay(self, seconds: float) -> None:
        """Make packets towards the node, and so its answers, take `seconds` longer. 0 ends it."""
        if not 0 <= seconds <= 60:
            raise ValueError(f"delay of {seconds!r} s is not within 0..60; right: node.delay(0.05)")
        self.kernel.link.slow(round(seconds * SECOND))
        self.note(f"{self.name}: delay {seconds:g} s")

    def lose(self, share: float, *, towards: bool = True, away: bool = True) -> None:
        """Lose a share of the packets, drawn for each. 0 ends it."""
        if not 0 <= share <= 1:
            raise ValueError(f"a share of {share!r} is not within 0..1; right: node.lose(0.05)")
        self.kernel.fabric.disturbed()
        for way, wanted in ((self.kernel.link.towards, towards), (self.kernel.link.away, away)):
            if wanted:
                way.loss = share
        self.note(f"{self.name}: loses {share:.0%}")

    def overtake(self, share: float, by: float) -> None:
        """Have a share of the packets come `by` seconds late, so that others overtake them."""
        if not (0 <= share <= 1 and 0 <= by <= 60):
            raise ValueError(f"share={share!r}, by={by!r}; right: node.overtake(0.1, by=0.01)")
        self.kernel.fabric.disturbed()
        for way in (self.kernel.link.towards, self.kernel.link.away):
            way.late, way.late_by = share, round(by * SECOND)
        self.note(f"{self.name}: {share:.0%} of the packets come {by:g} s late")

    def middlebox(
        self,
        *,
        idle: float | None = None,
        resets: bool = False,
        acknowledges: bool = False,
        accepts: bool = False,
    ) -> Middlebox:
        """Put a box that keeps state before the node; connections that stand are unknown to it.

        `idle`: seconds after which it forgets a silent flow. `resets`: what it does not know it
        resets, instead of losing it. `acknowledges`: it acknowledges data and probes for a node
        that is beyond reach, `accepts`: connections too.
        """
        box = Middlebox(
            self.kernel,
            idle=idle,
            resets=resets,
            acknowledges=acknowledges,
            accepts=accepts,
            note=self.note,
        )
        self.kernel.link.put(box)
        self.note(f"{self.name}: middlebox")
        return box

    def forget_neighbours(self) -> None:
        """Forget who has which address on the link: the next packet to each asks anew.

        Towards a host that is off it ends in EHOSTUNREACH 3 s later.
        """
        self.kernel.fabric.disturbed()
        self.kernel.neighbours.flush()
        self.note(f"{self.name}: forgets its neighbours")

    def lose_ipv6(self) -> None:
        """Lose every IPv6 packet to and from the node, as where only IPv4 is really routed."""
        self.kernel.fabric.disturbed()
        for way in (self.kernel.link.towards, self.kernel.link.away):
            way.rules.append(lambda segment: ":" in segment.dst[0])
        self.note(f"{self.name}: loses IPv6")

    def lose_fins(self) -> None:
        """Lose every FIN of the node's: the other side never hears that a connection has ended."""
        self.kernel.fabric.disturbed()
        self.kernel.link.away.rules.append(lambda segment: bool(segment.flags & FIN))
        self.note(f"{self.name}: loses every FIN")

    def note(self, what: str) -> None:
        """Write a line into the world's log."""
        self._world.note(what)

    def __repr__(self) -> str:
        return f"<Node {self.name} {self.host}{'' if self.on else ' (off)'}>"
