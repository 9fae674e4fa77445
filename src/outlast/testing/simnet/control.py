"""The cluster's control plane, as far as clients notice it: it learns late that a node is gone.

After a node lost power its endpoints leave every Service once the lag has passed, unless the node
is back by then; after it is back, those that were taken out return. A control plane that is down
does nothing; once it is up again it does what was due.

Source: linux-tcp facts 10: node-monitor-grace-period 40 s (50 s in newer clusters), looked at every
5 s, and 1 to 3 s to pass it on. Takes note of power only, as the kernel lab's does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from outlast.testing.simnet.rules import SECOND

if TYPE_CHECKING:
    from outlast.testing.simnet.draws import Draws
    from outlast.testing.simnet.node import Node
    from outlast.testing.simnet.pod import Pod
    from outlast.testing.simnet.service import Service
    from outlast.testing.simnet.timeline import Timeline

__all__ = ["ControlPlane"]


class ControlPlane:
    """Watches the power of nodes and adjusts Services after a lag."""

    def __init__(
        self,
        timeline: Timeline,
        draws: Draws,
        services: Mapping[str, Service],
        note: Callable[[str], None],
        *,
        lag: float,
        recovery: float,
        spread: float,
    ) -> None:
        if lag < 0 or recovery < 0 or spread < 0:
            raise ValueError(
                f"lag={lag!r}, recovery={recovery!r}, spread={spread!r}; "
                "right: lag=40.0, recovery=3.0, spread=8.0"
            )
        self._timeline = timeline
        self._draws = draws
        self._services = services
        self._note = note
        self._lag, self._recovery, self._spread = lag, recovery, spread
        self._changes: dict[Node, int] = {}
        self._taken: dict[Node, list[tuple[Service, list[Pod]]]] = {}
        self._is_up = True
        self._due: list[Callable[[], None]] = []

    def down(self) -> None:
        """Stop: nothing changes until it is up again."""
        self._is_up = False
        self._note("control plane: down")

    def up(self) -> None:
        """Go on, with what has become due meanwhile."""
        self._is_up = True
        self._note("control plane: up")
        due, self._due = self._due, []
        for action in due:
            action()

    def power_changed(self, node: Node) -> None:
        """Note that a node has lost or regained power, and act on it later."""
        change = self._changes[node] = self._changes.get(node, 0) + 1
        act, wait = (self._restore, self._recovery) if node.on else (self._take, self._lag)
        if self._spread and not node.on:
            wait += self._spread * self._draws.uniform(f"control/{node.name}", change)

        def later() -> None:
            if not self._is_up:
                self._due.append(later)
            elif self._changes[node] == change:  # else its power has changed since
                act(node)

        self._timeline.after(round(wait * SECOND), later, "control plane")

    def _take(self, node: Node) -> None:
        taken = self._taken.setdefault(node, [])
        for service in self._services.values():
            pods = [pod for pod in service.pods if pod.node is node]
            if pods:
                service.remove(*pods)
                taken.append((service, pods))

    def _restore(self, node: Node) -> None:
        for service, pods in self._taken.pop(node, []):
            service.add(*pods)
