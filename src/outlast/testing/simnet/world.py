"""The world of a simulation: nodes, pods, Services, and the faults that befall them.

It is the kernel lab's vocabulary (`node`, `service`, `at`, `control_plane`, `silent_address`,
`unrouted_address`) over a timeline. It is pure: nothing runs unless the timeline does, nothing
waits, and the same seed and script give the same events in the same order.

Source: addresses as `outlast.testing.kernel_lab` gives them. Programs, waiting, and the seam to the
library are not here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec

from outlast.testing.simnet.draws import Draws
from outlast.testing.simnet.fabric import Fabric, Trace
from outlast.testing.simnet.node import CLIENT, Node
from outlast.testing.simnet.packet import Endpoint
from outlast.testing.simnet.pod import Pod
from outlast.testing.simnet.proxy import Proxy
from outlast.testing.simnet.rules import SECOND, Kernel
from outlast.testing.simnet.service import Service
from outlast.testing.simnet.timeline import Timeline

__all__ = ["World"]

_P = ParamSpec("_P")
_MOST_NODES = 253  # 10.244.254.* and 10.244.255.* are kept for silent and unrouted addresses
_MOST_ADDRESSES = 254


class World:
    """Everything but the programs. Not thread-safe: one thread at a time."""

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
        self.client = self._equip(Node(self, "client", CLIENT, self.kernel))

    @property
    def trace(self) -> Trace | None:
        """Hears every packet, fault and timer of note; None: nothing is even formatted."""
        return self.fabric.trace

    @trace.setter
    def trace(self, trace: Trace | None) -> None:
        self.fabric.trace = trace

    def node(self, name: str, *, kernel: Kernel | None = None) -> Node:
        """Add a node."""
        if not name or name in self._nodes or name == self.client.name:
            raise ValueError(f"node name {name!r} is empty or taken; right: net.node('a')")
        if len(self._nodes) >= _MOST_NODES:
            raise RuntimeError(f"a world has at most {_MOST_NODES} nodes")
        node = Node(self, name, len(self._nodes) + 1, kernel or self.kernel)
        self._nodes[name] = self._equip(node)
        return node

    def _equip(self, node: Node) -> Node:
        node.kernel.translation = Proxy(node.kernel, self._vips)
        return node

    def service(
        self,
        name: str,
        pods: Sequence[Pod] = (),
        *,
        balance: str = "random",
        affinity: float = 0.0,
    ) -> Service:
        """Add a Service, `name.namespace.svc:port`; the pods' own ports may differ from it.

        `balance`: random, round-robin or source-hash. `affinity`: sessionAffinity ClientIP, in
        seconds; 0 for none.
        """
        host, _, port = name.rpartition(":")
        if not (host and port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(f"service {name!r} lacks a port; right: 'orders.shop.svc:8080'")
        if name in self._services:
            raise ValueError(f"service {name!r} exists already; right: another name or port")
        number = len(self._services) + 1
        vip = (f"10.96.{number // 250}.{number % 250 + 1}", int(port))
        service = Service(name, vip, self.draws, self.note, balance=balance, affinity=affinity)
        self._services[name] = self._vips[vip] = service
        if pods:
            service.add(*pods)
        return service

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
        """Hear that a node has lost or regained power."""
