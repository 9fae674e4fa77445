"""A node of the lab and what can befall it: power loss, a black hole, a pulled cable, a slow link.

A node is one network namespace joined to the lab's bridge by a veth pair; its pods' addresses live
in it. Power off takes the bridge's end down: ARP stops and nothing answers, and nothing that the
node's kernel or processes still do gets out. Power on is a reboot: a new namespace, new pod
processes, old connections unknown to it, so that their packets are answered with RST.

Source: veth(4), RFC 7042 section 2.1 for the link addresses. Refuses to switch the client node off,
and pods on a node that is off.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Sequence
from typing import Protocol

from outlast.testing import rtnetlink, service_nat
from outlast.testing.namespaces import Hand, Namespace, run_tool, set_sysctl
from outlast.testing.pod import Pod, reference_to
from outlast.testing.slow_link import SlowLink, without_offload

# All nodes are on one link, so that a neighbour's silence looks as it does between real nodes.
PREFIX = 16
BRIDGE = "br0"
CLIENT = 0
# A pod's address ends in its number + 1.
_MOST_PODS = 250


class Lab(Protocol):
    """What a node knows of its lab."""

    hand: Hand
    fabric: Namespace

    def note(self, what: str) -> None:
        """Write a line into the lab's log."""

    def power_changed(self, node: Node) -> None:
        """Hear that a node has lost or regained power."""


class Node:
    """One node. Made by `KernelLab.node`; its methods may be called from any thread."""

    def __init__(self, lab: Lab, name: str, number: int) -> None:
        self.name = name
        self.host = f"10.244.{number}.1"
        self._lab = lab
        self._number = number
        self._link = f"port{number}"  # the bridge's end of the node's cable
        self._pods: list[Pod] = []
        self._numbers = itertools.count(1)
        self._on = True
        self._slow: SlowLink | None = None
        self._space = self._build()
        self._plug(up=True)

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The node's pods, in the order of their making."""
        return tuple(self._pods)

    @property
    def on(self) -> bool:
        """Whether the node has power."""
        return self._on

    @property
    def space(self) -> Namespace:
        """The namespace that the node is at present."""
        return self._space

    def pod(
        self,
        *,
        port: int = 8080,
        name: str | None = None,
        app: str | Callable[..., object] | None = None,
        raw: str | Callable[..., object] | None = None,
    ) -> Pod:
        """Start a pod. It serves the built-in HTTP behaviour, or `app` (ASGI), or `raw`
        (`async def handler(reader, writer)`); either is `module:name` or an importable function.

        It listens by the time that a Service takes it or the run begins; `wait_ready()` waits too.
        """
        if not 1 <= port <= 65535:
            raise ValueError(f"port={port!r} is not a TCP port; right: port=8080")
        if app is not None and raw is not None:
            raise ValueError("app= and raw= exclude each other; right: node.pod(app='module:app')")
        if not self._on:
            raise RuntimeError(f"node {self.name} is off; power_on() it first")
        references = (reference_to("app", app), reference_to("raw", raw))
        number = next(self._numbers)
        if number > _MOST_PODS:
            raise RuntimeError(f"node {self.name} is full: it has {_MOST_PODS} pods")
        host = f"10.244.{self._number}.{number + 1}"
        pod = Pod(self, name or f"{self.name}-{number}", host, port, *references)
        self._lab.hand.do(self._space, rtnetlink.add_address, "eth0", host, PREFIX)
        self._pods.append(pod)
        pod.launch()
        return pod

    def power_off(self) -> None:
        """Take the node's power: silence at once, no farewell to anybody. About 1 ms."""
        if self._number == CLIENT:
            raise RuntimeError("the client node stays on; right: net.client.unplug()")
        self._plug(up=False)
        self._on = False
        self.note(f"{self.name}: power off")
        self._lab.power_changed(self)

    def power_on(self) -> None:
        """Boot the node: new pod processes, faults gone, old connections unknown. About 0.1 s.

        A node that is on is left alone.
        """
        if self._on:
            return
        self._end_processes()
        self._lab.hand.do(self._lab.fabric, rtnetlink.delete_link, self._link)
        self._space.close()
        self._space = self._build()
        for pod in self._pods:
            self._lab.hand.do(self._space, rtnetlink.add_address, "eth0", pod.host, PREFIX)
            pod.launch()
        for pod in self._pods:
            pod.wait_ready()
        self._plug(up=True)
        self._on = True
        self.note(f"{self.name}: power on")
        self._lab.power_changed(self)

    def unplug(self) -> None:
        """Pull the node's cable: silence as with power off, but the node lives on."""
        self._plug(up=False)
        self.note(f"{self.name}: unplug")

    def black_hole(self) -> None:
        """Lose every packet to and from the node's addresses, while ARP goes on answering."""
        self._rules(service_nat.drop_nothing() + service_nat.drop_everything(answers=True))
        self.note(f"{self.name}: black hole")

    def unreachable(self) -> None:
        """Have packets to the node answered with "host unreachable", as a router would."""
        self._rules(service_nat.drop_nothing() + service_nat.say_unreachable())
        self.note(f"{self.name}: unreachable")

    def heal(self) -> None:
        """Undo `black_hole`, `unreachable` and `unplug`; established connections go on."""
        self._rules(service_nat.drop_nothing())
        if self._on:
            self._plug(up=True)
        self.note(f"{self.name}: heal")

    def delay(self, seconds: float) -> None:
        """Make packets towards the node, and so its answers, take `seconds` longer. 0 ends it."""
        if not 0 <= seconds <= 60:
            raise ValueError(f"delay of {seconds!r} s is not within 0..60; right: node.delay(0.05)")
        if self._slow is None:
            self._lab.hand.do(self._space, without_offload, "eth0")
            self._slow = SlowLink(self._lab.hand, self._lab.fabric, BRIDGE, self._link)
        self._slow.set(seconds)
        self.note(f"{self.name}: delay {seconds:g} s")

    def spawn(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a process on the node, with pipes to its input and from its output."""
        return self._lab.hand.do(self._space, _spawn, argv)

    def note(self, what: str) -> None:
        """Write a line into the lab's log."""
        self._lab.note(what)

    def close(self) -> None:
        """End the pods and let go of the namespace."""
        self._end_processes()
        self._space.close()

    def _end_processes(self) -> None:
        for pod in self._pods:
            pod.end()
        slow, self._slow = self._slow, None
        if slow is not None:
            slow.close()

    def _plug(self, *, up: bool) -> None:
        hand, fabric = self._lab.hand, self._lab.fabric
        hand.do(fabric, rtnetlink.set_link, self._link, up=up)
        if up:
            hand.do(fabric, rtnetlink.await_up, self._link)
            hand.do(self._space, rtnetlink.await_up, "eth0")

    def _rules(self, text: str) -> None:
        self._lab.hand.do(self._space, run_tool, ("nft", "-f", "-"), text)

    def _build(self) -> Namespace:
        """A fresh namespace, cabled to the bridge by a link that is still down."""
        hand = self._lab.hand
        space = hand.make(self.name)
        hand.do(self._lab.fabric, _cable, self._link, space.fd, self._number)
        hand.do(space, _boot, self.host)
        return space

    def __repr__(self) -> str:
        return f"<Node {self.name} {self.host}{'' if self._on else ' (off)'}>"


def _cable(link: str, namespace: int, number: int) -> None:
    """Runs in the fabric. The link address is the node's own for life, as a real card's is."""
    mac = bytes((2, 0, 10, 244, number, 1))  # 2: locally administered
    rtnetlink.add_veth(link, peer="eth0", peer_namespace=namespace, peer_mac=mac)
    rtnetlink.join_bridge(link, BRIDGE)


def _boot(host: str) -> None:
    """Runs in the node."""
    # Only IPv4 is used; IPv6 would send its own solicitations over every new link.
    set_sysctl("net.ipv6.conf.eth0.disable_ipv6", "1")
    rtnetlink.set_link("lo", up=True)
    rtnetlink.set_link("eth0", up=True)
    rtnetlink.add_address("eth0", host, PREFIX)


def _spawn(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    # In a session of its own: a Ctrl-C is for the program that owns the lab, which ends its pods.
    return subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
    )
