"""A Service of the lab: one virtual address in front of a changing set of pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from outlast.testing import service_nat
from outlast.testing.node import Node
from outlast.testing.pod import Pod


class Service:
    """One Service. Made by `KernelLab.service`; its methods may be called from any thread."""

    def __init__(
        self,
        name: str,
        vip: service_nat.Address,
        chain: str,
        apply: Callable[[str], None],
        note: Callable[[str], None],
    ) -> None:
        self.name = name
        self.host, self.port = vip
        self._chain = chain
        self._apply = apply
        self._note = note
        self._pods: list[Pod] = []
        self._ever: set[Pod] = set()
        apply(service_nat.new_service(chain, vip))

    @property
    def address(self) -> str:
        """The virtual address and port."""
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The Service's HTTP address."""
        return f"http://{self.address}"

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The present endpoints."""
        return tuple(self._pods)

    def add(self, *what: Node | Pod) -> None:
        """Make pods (all of a node's) endpoints; those that are already stay. Awaits their listening."""
        pods = _pods_of(what)
        for pod in pods:
            if pod.running and pod not in self._ever:
                pod.wait_ready()
        self._ever.update(pods)
        self._replace([*self._pods, *(pod for pod in pods if pod not in self._pods)])
        self._note(f"{self.name}: add {', '.join(pod.name for pod in pods)}")

    def remove(self, *what: Node | Pod) -> None:
        """Take pods (all of a node's) out for new connections; established ones go on.

        Taking out what is out already changes nothing; what never was in raises ValueError.
        """
        gone = [pod for pod in _pods_of(what) if pod in self._ever]
        if not gone:
            raise ValueError(f"{what!r} never was an endpoint of {self.name}; it has {self._pods!r}")
        self._replace([pod for pod in self._pods if pod not in gone])
        self._note(f"{self.name}: remove {', '.join(pod.name for pod in gone)}")

    def _replace(self, pods: list[Pod]) -> None:
        old = [(pod.host, pod.port) for pod in self._pods]
        new = [(pod.host, pod.port) for pod in pods]
        if new != old:
            text = service_nat.replace_endpoints(self._chain, (self.host, self.port), old, new)
            self._apply(text)
        self._pods = pods

    def __repr__(self) -> str:
        return f"<Service {self.name} {self.address} {self._pods!r}>"


def _pods_of(what: Iterable[Node | Pod]) -> list[Pod]:
    pods: list[Pod] = []
    for one in what:
        pods += one.pods if isinstance(one, Node) else [one]
    return pods
