"""A Service: one virtual address in front of a changing set of pods.

A pod is drawn for each new connection among those that are ready, or, if there is none, among
those that still serve while they end. Established connections are not touched by any change.

Source: linux-tcp facts 9.1 (kube-proxy: uniform; IPVS: round robin or source hashing), KEP-1669 for
terminating endpoints, sessionAffinity ClientIP with 10800 s. Refuses UDP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outlast.testing.addressed import Addressed
from outlast.testing.simnet.packet import Endpoint
from outlast.testing.simnet.rules import SECOND

if TYPE_CHECKING:
    from outlast.testing.simnet.draws import Draws
    from outlast.testing.simnet.host import Host
    from outlast.testing.simnet.node import Node
    from outlast.testing.simnet.pod import Pod

__all__ = ["BALANCES", "NodePort", "Service"]

BALANCES = ("random", "round-robin", "source-hash")


@dataclass(frozen=True, slots=True)
class NodePort:
    """How a Service is reached from outside: at `port` of every node.

    `local`: externalTrafficPolicy Local. `health_check`: the port at which nodes tell whether they
    have an endpoint, 0 for none. `mute`: a node without an endpoint accepts connections and lets
    them hang, as was seen in the field; else it loses them.
    """

    port: int
    local: bool = False
    health_check: int = 0
    mute: bool = False

    def __post_init__(self) -> None:
        for name, value in (("port", self.port), ("health_check", self.health_check or 30000)):
            if not 30000 <= value <= 32767:
                raise ValueError(
                    f"{name}={value!r} is not within 30000..32767, the range of node ports"
                )
        if (self.mute or self.health_check) and not self.local:
            raise ValueError("mute= and health_check= go with local=True only")


class Service(Addressed):
    """One Service. Made by `World.service`."""

    def __init__(
        self,
        name: str,
        vip: Endpoint,
        draws: Draws,
        note: Callable[[str], None],
        *,
        balance: str = "random",
        affinity: float = 0.0,
        node_port: NodePort | None = None,
    ) -> None:
        if balance not in BALANCES:
            raise ValueError(f"balance={balance!r} is none of {', '.join(BALANCES)}")
        if affinity < 0:
            raise ValueError(f"affinity={affinity!r} s; right: affinity=10800.0, or 0 for none")
        self.name = name
        self.host, self.port = vip
        self.host6 = ""  # its IPv6 address, if it has both families
        self.node_port = node_port
        self._draws = draws
        self._note = note
        self._balance = balance
        self._affinity = round(affinity * SECOND)
        self._ready: tuple[Pod, ...] = ()
        self._ending: tuple[Pod, ...] = ()  # serving and terminating
        self._ever: set[Pod] = set()
        self._numbers: dict[str, int] = {}
        self._turn = 0
        self._pins: dict[str, tuple[Pod, int]] = {}

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The present endpoints, those that are ready."""
        return self._ready

    @property
    def local(self) -> bool:
        """Whether nodes pass connections on to their own pods only."""
        return self.node_port is not None and self.node_port.local

    @property
    def mute(self) -> bool:
        """Whether a node without an endpoint lets connections hang instead of losing them."""
        return self.node_port is not None and self.node_port.mute

    def on(self, host: Host) -> Callable[[Pod], bool]:
        """Which pods are a host's own."""
        return lambda pod: pod.node.kernel is host

    def has_local(self, host: Host) -> bool:
        """Whether a host has an endpoint of its own."""
        return any(pod.node.kernel is host for pod in (*self._ready, *self._ending))

    def local_endpoints(self, host: Host) -> int:
        """How many endpoints of its own a host has, as its health check tells."""
        return sum(pod.node.kernel is host for pod in self._ready)

    # -- endpoints -------------------------------------------------------------------------

    def add(self, *what: Node | Pod) -> None:
        """Make pods (all of a node's) endpoints; those that are already stay."""
        pods = _pods_of(what)
        if not pods:
            raise ValueError(f"{what!r} has no pods; right: orders.add(node.pod())")
        self._ready = tuple(dict.fromkeys([*self._ready, *pods]))
        self._ending = tuple(pod for pod in self._ending if pod not in pods)
        self._ever.update(pods)
        self._note(f"{self.name}: add {_names(pods)}")

    def remove(self, *what: Node | Pod) -> None:
        """Take pods (all of a node's) out for new connections; established ones go on.

        Taking out what is out already changes nothing; what never was in raises ValueError.
        """
        pods = self._known(what)
        self._ready = tuple(pod for pod in self._ready if pod not in pods)
        self._ending = tuple(pod for pod in self._ending if pod not in pods)
        self._note(f"{self.name}: remove {_names(pods)}")

    def end(self, *what: Node | Pod) -> None:
        """Mark pods as terminating: they still serve, and are drawn only if nobody is ready."""
        pods = self._known(what)
        self._ready = tuple(pod for pod in self._ready if pod not in pods)
        self._ending = tuple(dict.fromkeys([*self._ending, *pods]))
        self._note(f"{self.name}: terminating {_names(pods)}")

    def _known(self, what: Iterable[Node | Pod]) -> list[Pod]:
        pods = [pod for pod in _pods_of(what) if pod in self._ever]
        if not pods:
            raise ValueError(f"{what!r} never was in {self.name}, which has {_names(self._ready)}")
        return pods

    # -- the draw --------------------------------------------------------------------------

    def choose(
        self, client: str, label: str, now: int, only: Callable[[Pod], bool] | None = None
    ) -> Pod | None:
        """The pod of a new connection of `client`; None if there is none to draw.

        `label` names the connection, so that its chance is its own. `only` restricts the choice.
        """
        pods = self._eligible(only)
        if not pods:
            return None
        if self._affinity:
            pod, until = self._pins.get(client, (None, 0))
            if pod is None or until <= now or pod not in pods:
                pod = self._draw(pods, client, label)
            self._pins[client] = (pod, now + self._affinity)
            return pod
        return self._draw(pods, client, label)

    def _eligible(self, only: Callable[[Pod], bool] | None) -> Sequence[Pod]:
        for pods in (self._ready, self._ending):
            found = pods if only is None else tuple(pod for pod in pods if only(pod))
            if found:
                return found
        return ()

    def _draw(self, pods: Sequence[Pod], client: str, label: str) -> Pod:
        if self._balance == "round-robin":
            self._turn += 1
            return pods[(self._turn - 1) % len(pods)]
        if self._balance == "source-hash":
            return pods[self._draws.below(len(pods), f"source/{self.name}/{client}")]
        number = self._numbers.get(label, 0)
        self._numbers[label] = number + 1
        return pods[self._draws.below(len(pods), f"vip/{self.name}/{label}", number)]

    def __repr__(self) -> str:
        return f"<Service {self.name} {self.address} {_names(self._ready)}>"


def _pods_of(what: Iterable[Node | Pod]) -> list[Pod]:
    pods: list[Pod] = []
    for one in what:
        inside: tuple[Pod, ...] | None = getattr(one, "pods", None)
        pods += inside if inside is not None else [one]  # type: ignore[list-item]  # then a pod
    return pods


def _names(pods: Iterable[Pod]) -> str:
    return ", ".join(pod.name for pod in pods) or "no endpoint"
