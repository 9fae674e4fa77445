"""Faults drawn at random: what befalls which node, when, and for how long.

A fault is a value that says how to replay it, so a failing run prints its faults as the lines of a
script. Nodes that must stay alive are simply not among those that faults are drawn for.

Source: what `Node` and `Pod` can suffer. Two faults of one node may overlap, and then the end of
one (`heal`) may end the other too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outlast.testing.simnet.node import Node
    from outlast.testing.simnet.pod import Pod
    from outlast.testing.simnet.world import World

__all__ = ["KINDS", "Fault", "Kind", "draw_faults", "schedule"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault: how it begins and ends, as a script says it, and the range of its amount.

    In the texts {n} is the node and {x} the amount.
    """

    begin: str
    end: str
    act: Callable[[Node, float], None]
    undo: Callable[[Node], None]
    least: float = 0.0
    most: float = 0.0


def _pods(action: Callable[[Pod], None], *, running: bool) -> Callable[[Node], None]:
    def act(node: Node) -> None:
        if node.on:
            for pod in node.pods:
                if pod.running == running:
                    action(pod)

    return act


def _plain(action: Callable[[Node], None]) -> Callable[[Node, float], None]:
    return lambda node, _: action(node)


def _pod_kind(
    name: str, undo: str, action: Callable[[Pod], None], after: Callable[[Pod], None]
) -> Kind:
    ended = undo == "start"
    return Kind(
        f"{{n}}.pods[0].{name}",
        f"{{n}}.pods[0].{undo}",
        _plain(_pods(action, running=True)),
        _pods(after, running=not ended),
    )


def _restart(node: Node) -> None:
    """Start pods that were stopped, also those that have not ended yet."""
    for pod in node.pods if node.on else ():
        if pod.stopping:
            pod.kill()
        pod.start()


def _freeze(pod: Pod) -> None:
    if not pod.frozen:
        pod.freeze()


def _thaw(pod: Pod) -> None:
    if pod.frozen:
        pod.thaw()


KINDS: Mapping[str, Kind] = {
    "power": Kind(
        "{n}.power_off", "{n}.power_on", lambda n, _: n.power_off(), lambda n: n.power_on()
    ),
    "unplug": Kind("{n}.unplug", "{n}.heal", lambda n, _: n.unplug(), lambda n: n.heal()),
    "hole": Kind("{n}.black_hole", "{n}.heal", lambda n, _: n.black_hole(), lambda n: n.heal()),
    "hole-towards": Kind(
        "lambda: {n}.black_hole(away=False)",
        "{n}.heal",
        lambda n, _: n.black_hole(away=False),
        lambda n: n.heal(),
    ),
    "hole-away": Kind(
        "lambda: {n}.black_hole(towards=False)",
        "{n}.heal",
        lambda n, _: n.black_hole(towards=False),
        lambda n: n.heal(),
    ),
    "unreachable": Kind(
        "{n}.unreachable", "{n}.heal", lambda n, _: n.unreachable(), lambda n: n.heal()
    ),
    "fins": Kind("{n}.lose_fins", "{n}.heal", lambda n, _: n.lose_fins(), lambda n: n.heal()),
    "loss": Kind(
        "{n}.lose, {x}", "{n}.heal", lambda n, x: n.lose(x), lambda n: n.heal(), 0.01, 0.3
    ),
    "late": Kind(
        "{n}.overtake, {x}, 0.01",
        "{n}.heal",
        lambda n, x: n.overtake(x, 0.01),
        lambda n: n.heal(),
        0.01,
        0.3,
    ),
    "slow": Kind(
        "{n}.delay, {x}",
        "{n}.delay, 0",
        lambda n, x: n.delay(x),
        lambda n: n.delay(0),
        0.001,
        0.3,
    ),
    "freeze": _pod_kind("freeze", "thaw", _freeze, _thaw),
    "kill": _pod_kind("kill", "start", lambda pod: pod.kill(), lambda pod: pod.start()),
    "reset": _pod_kind("reset", "start", lambda pod: pod.reset(), lambda pod: pod.start()),
    "stop": Kind(
        "{n}.pods[0].stop",
        "{n}.pods[0].start",
        _plain(_pods(lambda pod: pod.stop(), running=True)),
        _restart,
    ),
    "queue": _pod_kind(
        "fill_accept_queue",
        "empty_accept_queue",
        lambda pod: pod.fill_accept_queue(),
        lambda pod: pod.empty_accept_queue(),
    ),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What befalls a node `at` (seconds), for how long, and how much of it."""

    at: float
    lasts: float
    kind: str
    node: str
    amount: float = 0.0

    def __str__(self) -> str:
        """As the lines of a script; `net` is the world."""
        kind = KINDS[self.kind]
        begin, end = (
            text.format(n=self.node, x=f"{self.amount:g}") for text in (kind.begin, kind.end)
        )
        return f"net.at({self.at:g}, {begin}); net.at({self.at + self.lasts:g}, {end})"


def draw_faults(
    rng: Random,
    nodes: Sequence[str],
    *,
    until: float,
    most: int = 4,
    kinds: Iterable[str] = tuple(KINDS),
) -> list[Fault]:
    """Up to `most` faults of `nodes`, all begun before `until` seconds.

    The same for the same state of `rng`. Raises ValueError for a kind that there is not.
    """
    names = tuple(kinds)
    for name in names:
        if name not in KINDS:
            raise ValueError(f"kind {name!r} is none of {', '.join(KINDS)}")
    found = []
    for _ in range(rng.randint(0, most) if nodes else 0):
        name = rng.choice(names)
        kind = KINDS[name]
        found.append(
            Fault(
                at=round(rng.uniform(0, until), 3),
                lasts=round(rng.choice((0.05, 1.0, 10.0, until)) * rng.uniform(0.5, 1.5), 3),
                kind=name,
                node=rng.choice(nodes),
                amount=round(rng.uniform(kind.least, kind.most), 3),
            )
        )
    return sorted(found, key=lambda fault: (fault.at, fault.kind, fault.node))


def schedule(world: World, faults: Iterable[Fault]) -> None:
    """Have the faults happen in `world`. Raises ValueError for a node that is not there."""
    for fault in faults:
        kind = KINDS[fault.kind]
        node = world.nodes.get(fault.node)
        if node is None:
            raise ValueError(f"no node {fault.node!r}; there are {', '.join(world.nodes)}")
        world.at(fault.at, kind.act, node, fault.amount)
        world.at(fault.at + fault.lasts, kind.undo, node)
