"""`KernelLab`: a small cluster on this machine's own kernel, to lose nodes of.

A client node, any number of nodes with pods, a bridge between them, and Services whose address
translation is in the client's own output hooks as kube-proxy writes it. Everything lives in network
namespaces that only this process holds, so that it vanishes with the process; labs do not see each
other, nor the machine's network.

`python -m outlast.testing.kernel_lab -- COMMAND` runs a command where it may build labs: as it is
for root, else below `unshare --user --map-root-user --net --mount`, else as it is (then `missing`
says why not).

Source: addresses as kubeadm's users choose them, pods 10.244.0.0/16 and Services 10.96.0.0/12.
Refuses IPv6, UDP and name service: clients use the Service's address.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec

from outlast.testing import privileges, rtnetlink, service_nat
from outlast.testing.control_plane import ControlPlane
from outlast.testing.namespaces import Hand, Namespace, entered, run_tool, set_sysctl
from outlast.testing.node import BRIDGE, CLIENT, PREFIX, Node
from outlast.testing.pod import Pod
from outlast.testing.schedule import Schedule
from outlast.testing.service import Service

_P = ParamSpec("_P")
# 10.244.254.* and 10.244.255.* are kept for the silent and the unrouted addresses.
_MOST_NODES = 253
_MOST_ADDRESSES = 254


class KernelLab:
    """A cluster to break. A context manager; `close` ends it, and so does the end of the process.

    Methods may be called from any thread. Raises RuntimeError where labs are not possible.
    """

    def __init__(self) -> None:
        if (reason := privileges.missing()) is not None:
            raise RuntimeError(f"no kernel lab here: {reason}")
        self.log: list[tuple[float, str]] = []
        self._schedule = Schedule()
        self._nodes: dict[str, Node] = {}
        self._services: dict[str, Service] = {}
        self._silent: list[str] = []
        self._unrouted: list[str] = []
        self._control_plane: ControlPlane | None = None
        with contextlib.ExitStack() as stack:
            self.hand = stack.enter_context(contextlib.closing(Hand()))
            self.fabric: Namespace = stack.enter_context(
                contextlib.closing(self.hand.make("fabric"))
            )
            self.hand.do(self.fabric, _build_fabric)
            self.client = stack.enter_context(contextlib.closing(Node(self, "client", CLIENT)))
            self.hand.do(self.client.space, _equip_client)
            self._closing = stack.pop_all()

    @staticmethod
    def missing() -> str | None:
        """What keeps this process from building a lab, or None; found out once, by trying."""
        return privileges.missing()

    def node(self, name: str) -> Node:
        """Add a node."""
        if not name or name in self._nodes or name == self.client.name:
            raise ValueError(f"node name {name!r} is empty or taken; right: net.node('a')")
        if len(self._nodes) >= _MOST_NODES:
            raise RuntimeError(f"a lab has at most {_MOST_NODES} nodes")
        node = self._closing.enter_context(
            contextlib.closing(Node(self, name, len(self._nodes) + 1))
        )
        self._nodes[name] = node
        return node

    def service(self, name: str, pods: Sequence[Pod] = ()) -> Service:
        """Add a Service, `name.namespace.svc:port`; the pods' own ports may differ from it."""
        host, _, port = name.rpartition(":")
        if not (host and port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(f"service {name!r} lacks a port; right: 'orders.shop.svc:8080'")
        if name in self._services:
            raise ValueError(f"service {name!r} exists already; right: another name or port")
        number = len(self._services) + 1
        vip = (f"10.96.{number // 250}.{number % 250 + 1}", int(port))
        where = (self.hand, self.client.space)
        service = Service(name, vip, f"service-{number}", where, self.note)
        self._services[name] = service
        if pods:
            service.add(*pods)
        return service

    def silent_address(self, port: int = 8080) -> str:
        """A new address whose host is there (ARP answers) and never answers anything."""
        host = _next_address("10.244.254", self._silent)
        if len(self._silent) == 1:
            text = service_nat.drop_everything(answers=False)
            self.hand.do(self.fabric, run_tool, ("nft", "-f", "-"), text)
        self.hand.do(self.fabric, rtnetlink.add_address, BRIDGE, host, PREFIX)
        return f"{host}:{port}"

    def unrouted_address(self, port: int = 8080) -> str:
        """A new address of nobody: connecting to it ends in EHOSTUNREACH after 3 s."""
        return f"{_next_address('10.244.255', self._unrouted)}:{port}"

    def control_plane(self, *, lag: float = 40.0, recovery: float = 3.0) -> None:
        """Have endpoints of nodes without power leave all Services after `lag` seconds.

        They come back `recovery` seconds after power on. Without this call nothing happens by
        itself. It acts while the lab is `running`; what is due before counts from its start.
        """
        self._control_plane = ControlPlane(lag, recovery, self._schedule, self._services)

    def at(self, t: float, fn: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Call `fn` `t` seconds after `running` began (at once when that is past)."""
        if not t >= 0:
            raise ValueError(f"time {t!r} is before the start; right: net.at(3.0, node.power_off)")
        self._schedule.at(t, lambda: fn(*args, **kwargs))

    def elapsed(self) -> float:
        """Seconds since `running` began; 0 before, the run's length after."""
        return self._schedule.elapsed()

    @contextlib.contextmanager
    def running(self) -> Iterator[KernelLab]:
        """Be on the client node, in this thread and threads started by it, with the schedule.

        A failure of a scheduled action is raised at the end, unless the block itself failed.
        """
        if self._schedule.running:
            raise RuntimeError("this lab is running already")
        for node in (self.client, *self._nodes.values()):
            for pod in node.pods:
                if pod.running:
                    pod.wait_ready()
        with entered(self.client.space):
            self._schedule.start()
            try:
                yield self
            finally:
                failure = self._schedule.stop()
        if failure is not None:
            raise failure

    def note(self, what: str) -> None:
        """Add a line to `log`: seconds since the start, and what happened."""
        self.log.append((self.elapsed(), what))

    def power_changed(self, node: Node) -> None:
        """Tell the control plane, if there is one."""
        if self._control_plane is not None:
            self._control_plane.power_changed(node)

    def close(self) -> None:
        """End every pod and let go of every namespace. May be called again."""
        self._schedule.stop()
        self._closing.close()

    def __enter__(self) -> KernelLab:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _next_address(network: str, given: list[str]) -> str:
    """Hand out the next address of a network of 254."""
    if len(given) >= _MOST_ADDRESSES:
        raise RuntimeError(f"all {_MOST_ADDRESSES} addresses of {network}.* are given out")
    given.append(f"{network}.{len(given) + 1}")
    return given[-1]


def _build_fabric() -> None:
    # Before any link exists: the bridge and its ports need no addresses, let alone IPv6 ones.
    set_sysctl("net.ipv6.conf.default.disable_ipv6", "1")
    rtnetlink.add_bridge(BRIDGE)
    rtnetlink.set_link(BRIDGE, up=True)


def _equip_client() -> None:
    rtnetlink.add_route("10.96.0.0", 12, link="eth0")
    run_tool(("nft", "-f", "-"), service_nat.base())


def main(argv: Sequence[str]) -> int:
    """Become the command after `--`, put where labs are possible if such a place can be had."""
    if len(argv) < 2 or argv[0] != "--":
        sys.stderr.write("usage: python -m outlast.testing.kernel_lab -- COMMAND...\n")
        return 2
    command = privileges.wrapped(argv[1:])
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error}\n")
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
