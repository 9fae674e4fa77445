"""The world of a simulation: nodes, pods, Services, and the faults that befall them.

It is the kernel lab's vocabulary (`node`, `service`, `at`, `control_plane`, `silent_address`,
`unrouted_address`) over a timeline. It is pure: nothing runs unless the timeline does, nothing
waits, and the same seed and script give the same events in the same order.

Source: addresses as `outlast.testing.kernel_lab` gives them. Programs, waiting, and the seam to the
library are not here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec

from outlast.testing.simnet.control import ControlPlane
from outlast.testing.simnet.counting import SegmentCount
from outlast.testing.simnet.dns import Zone
from outlast.testing.simnet.draws import Draws
from outlast.testing.simnet.fabric import Fabric, Trace
from outlast.testing.simnet.host import Host
from outlast.testing.simnet.node import CLIENT, Node
from outlast.testing.simnet.packet import Endpoint, Segment
from outlast.testing.simnet.pod import Pod
from outlast.testing.simnet.proxy import Proxy
from outlast.testing.simnet.rules import SECOND, Kernel
from outlast.testing.simnet.service import NodePort, Service
from outlast.testing.simnet.timeline import Timeline

__all__ = ["World"]

_P = ParamSpec("_P")
_MOST_NODES = 253  # 10.244.254.* and 10.244.255.* are kept for silent and unrouted addresses
_MOST_ADDRESSES = 254


class World:
    """Everything but the programs. Not thread-safe: one thread at a time."""

    node_type: type[Node] = Node  # a child may have more to say of its nodes

    def __init__(
        self, timeline: Timeline, seed: int | str = 0, *, kernel: Kernel | None = None
    ) -> None:
        self.timeline = timeline
        self.draws = Draws(seed)
        self.fabric = Fabric(timeline, self.draws)
        self.kernel = kernel or Kernel()
        self.log: list[tuple[float, str]] = []
        self._nodes: dict[str, Node] = {}
        self._services: dict[str, Service] = {}
        self._vips: dict[Endpoint, Service] = {}
        self._node_ports: dict[int, Service] = {}
        self._control: ControlPlane | None = None
        self._void: Host | None = None
        self._silent = itertools.count(1)
        self._unrouted = itertools.count(1)
        self.dns = Zone(timeline, self.draws, self.note)
        self.client = self.node_type(self, "client", CLIENT, self.kernel)
        self._equip(self.client)

    @property
    def trace(self) -> Trace | None:
        """Hears every packet, fault and timer of note; None: nothing is even formatted."""
        return self.fabric.trace

    @trace.setter
    def trace(self, trace: Trace | None) -> None:
        self.fabric.trace = trace

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by their names, without the client's."""
        return self._nodes

    @property
    def services(self) -> Mapping[str, Service]:
        """The Services by their names."""
        return self._services

    def node(self, name: str, *, kernel: Kernel | None = None, routed: bool = False) -> Node:
        """Add a node. `routed`: behind a router, so that its death is silence and nothing else;
        on the client's own link it ends in EHOSTUNREACH after half a minute or so.
        """
        if not name or name in self._nodes or name == self.client.name:
            raise ValueError(f"node name {name!r} is empty or taken; right: net.node('a')")
        if len(self._nodes) >= _MOST_NODES:
            raise RuntimeError(f"a world has at most {_MOST_NODES} nodes")
        node = self.node_type(self, name, len(self._nodes) + 1, kernel or self.kernel)
        node.kernel.link.routed = routed
        self._nodes[name] = self._equip(node)
        return node

    def _equip(self, node: Node) -> Node:
        node.kernel.translation = Proxy(node.kernel, self._vips, self._node_ports)
        for service in self._services.values():
            self._open_port(node, service)
        return node

    def _open_port(self, node: Node, service: Service) -> None:
        outside = service.node_port
        if outside is None or node.host == self.client.host:
            return
        if outside.health_check:
            node.serve_health(service, outside.health_check)
        if outside.mute:
            node.accept_and_be_mute(outside.port)

    def service(
        self,
        name: str,
        pods: Sequence[Pod] = (),
        *,
        balance: str = "random",
        affinity: float = 0.0,
        headless: bool = False,
        dual_stack: bool = False,
        node_port: NodePort | None = None,
    ) -> Service:
        """Add a Service, `name.namespace.svc:port`; the pods' own ports may differ from it.

        Its name is known to `dns`: it stands for the virtual address, or, `headless`, for the
        addresses of the ready pods. `balance`: random, round-robin or source-hash. `affinity`:
        sessionAffinity ClientIP, in seconds; 0 for none. `dual_stack`: IPv6 addresses too, first in
        the answer, as getaddrinfo sorts. `node_port`: reached from outside too, by IPv4.
        """
        host, _, port = name.rpartition(":")
        if not (host and port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(f"service {name!r} lacks a port; right: 'orders.shop.svc:8080'")
        if name in self._services:
            raise ValueError(f"service {name!r} exists already; right: another name or port")
        number = len(self._services) + 1
        vip = (f"10.96.{number // 250}.{number % 250 + 1}", int(port))
        service = Service(
            name,
            vip,
            self.draws,
            self.note,
            balance=balance,
            affinity=affinity,
            node_port=node_port,
        )
        self._services[name] = service
        if headless:
            self.dns.set(host, lambda: _addresses_of(service, both=dual_stack))
        else:
            self._vips[vip] = service
            if dual_stack:
                service.host6 = f"fd00:10:96::{number:x}"
                self._vips[service.host6, vip[1]] = service
            self.dns.set(host, [service.host6, vip[0]] if dual_stack else [vip[0]])
        if node_port is not None:
            self._add_node_port(service, node_port)
        if pods:
            service.add(*pods)
        return service

    def _add_node_port(self, service: Service, outside: NodePort) -> None:
        if outside.port in self._node_ports:
            taken = self._node_ports[outside.port].name
            raise ValueError(f"node port {outside.port} is taken by {taken}; right: another port")
        self._node_ports[outside.port] = service
        for node in self._nodes.values():
            self._open_port(node, service)

    def silent_address(self, port: int = 8080) -> str:
        """A new address whose host is there (ARP answers) and never answers anything."""
        host = _address("10.244.254", next(self._silent))
        if self._void is None:
            self._void = Host(self.fabric, "void", host, self.kernel)
            self._void.link.towards.hole = True
        self._void.add_address(host)
        return f"{host}:{port}"

    def unrouted_address(self, port: int = 8080) -> str:
        """A new address of nobody: connecting to it ends in EHOSTUNREACH after 3 s."""
        return f"{_address('10.244.255', next(self._unrouted))}:{port}"

    # -- faults ----------------------------------------------------------------------------

    def control_plane(
        self, *, lag: float = 40.0, recovery: float = 3.0, spread: float = 0.0
    ) -> ControlPlane:
        """Have endpoints of nodes without power leave all Services after `lag` seconds.

        They come back `recovery` seconds after power on. `spread`: up to so many seconds more,
        drawn. Without this call nothing happens by itself. What is returned can be taken down.
        """
        self._control = ControlPlane(
            self.timeline,
            self.draws,
            self._services,
            self.note,
            lag=lag,
            recovery=recovery,
            spread=spread,
        )
        return self._control

    def partition(self, one: Node, other: Node) -> None:
        """Cut two nodes off from each other; both go on talking to everybody else."""
        self.fabric.part(one.kernel, other.kernel)
        self.note(f"partition: {one.name} and {other.name}")

    def join(self, one: Node, other: Node) -> None:
        """Undo `partition`."""
        self.fabric.part(one.kernel, other.kernel, parted=False)
        self.note(f"joined: {one.name} and {other.name}")

    def at_segment(
        self,
        number: int,
        fn: Callable[_P, object],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> None:
        """Call `fn` when the `number`-th segment from now (1 is the next) is about to be sent.

        `when` narrows what is counted: `world.when(lambda segment: ...).at_segment(3, fn)`.
        """
        SegmentCount(self.fabric, lambda _: True).at_segment(number, fn, *args, **kwargs)

    def when(self, counted: Callable[[Segment], bool]) -> SegmentCount:
        """Segments that `counted` is true of, to be counted by `at_segment`."""
        return SegmentCount(self.fabric, counted)

    # -- time ------------------------------------------------------------------------------

    def at(self, t: float, fn: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Call `fn` at `t` seconds of virtual time (now, when that is past)."""
        if not t >= 0:
            raise ValueError(f"time {t!r} is before the start; right: net.at(3.0, node.power_off)")
        self.timeline.at(round(t * SECOND), lambda: fn(*args, **kwargs), "scheduled")

    def elapsed(self) -> float:
        """Seconds of virtual time."""
        return self.timeline.now / SECOND

    def note(self, what: str) -> None:
        """Add a line to `log`: seconds, and what happened."""
        self.log.append((self.elapsed(), what))
        if self.fabric.trace is not None:
            self.fabric.trace("world", what)

    def power_changed(self, node: Node) -> None:
        """Tell the control plane, if there is one."""
        if self._control is not None:
            self._control.power_changed(node)


def _addresses_of(service: Service, *, both: bool) -> list[str]:
    six = [pod.host6 for pod in service.pods] if both else []
    return [*six, *(pod.host for pod in service.pods)]


def _address(network: str, number: int) -> str:
    if number > _MOST_ADDRESSES:
        raise RuntimeError(f"all {_MOST_ADDRESSES} addresses of {network}.* are given out")
    return f"{network}.{number}"
