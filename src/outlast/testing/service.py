"""A Service of the lab: one virtual address in front of a changing set of pods.

The set is changed on the lab's own thread, so that changes from a test and from its schedule never
mix. Source and rules: `service_nat`. Refuses to take out what never was in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from outlast.testing import service_nat
from outlast.testing.addressed import Addressed
from outlast.testing.namespaces import Hand, Namespace, run_tool
from outlast.testing.node import Node
from outlast.testing.pod import Pod


class Service(Addressed):
    """One Service. Made by `KernelLab.service`; its methods may be called from any thread."""

    def __init__(
        self,
        name: str,
        vip: service_nat.Address,
        chain: str,
        where: tuple[Hand, Namespace],
        note: Callable[[str], None],
    ) -> None:
        self.name = name
        self.host, self.port = vip
        self._chain = chain
        self._hand, self._space = where
        self._note = note
        self._pods: tuple[Pod, ...] = ()
        self._ever: set[Pod] = set()
        self._hand.do(self._space, _load, service_nat.new_service(chain, vip))

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The present endpoints."""
        return self._pods

    def add(self, *what: Node | Pod) -> None:
        """Make pods (all of a node's) endpoints; those that are already stay.

        A pod that has just been made is waited for until it listens.
        """
        pods = _pods_of(what)
        if not pods:
            raise ValueError(f"{what!r} has no pods; right: orders.add(node.pod())")
        for pod in pods:
            if pod.running:
                pod.wait_ready()
        self._hand.do(self._space, self._change, pods, [])
        self._note(f"{self.name}: add {_names(pods)}")

    def remove(self, *what: Node | Pod) -> None:
        """Take pods (all of a node's) out for new connections; established ones go on.

        Taking out what is out already changes nothing; what never was in raises ValueError.
        """
        pods = [pod for pod in _pods_of(what) if pod in self._ever]
        if not pods:
            raise ValueError(f"{what!r} never was in {self.name}, which has {_names(self._pods)}")
        self._hand.do(self._space, self._change, [], pods)
        self._note(f"{self.name}: remove {_names(pods)}")

    def _change(self, come: list[Pod], go: list[Pod]) -> None:
        """Runs on the lab's thread, on the client node."""
        new = tuple(pod for pod in dict.fromkeys([*self._pods, *come]) if pod not in go)
        if new != self._pods:
            old_and_new = (_addresses(self._pods), _addresses(new))
            vip = (self.host, self.port)
            _load(service_nat.replace_endpoints(self._chain, vip, *old_and_new))
        self._ever.update(come)
        self._pods = new

    def __repr__(self) -> str:
        return f"<Service {self.name} {self.address} {_names(self._pods)}>"


def _load(text: str) -> None:
    run_tool(("nft", "-f", "-"), text)


def _pods_of(what: Iterable[Node | Pod]) -> list[Pod]:
    pods: list[Pod] = []
    for one in what:
        pods += one.pods if isinstance(one, Node) else [one]
    return pods


def _addresses(pods: Iterable[Pod]) -> list[service_nat.Address]:
    return [(pod.host, pod.port) for pod in pods]


def _names(pods: Iterable[Pod]) -> str:
    return ", ".join(pod.name for pod in pods) or "no endpoint"
