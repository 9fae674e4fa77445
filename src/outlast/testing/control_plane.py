"""The cluster's control plane, as far as clients notice it: it learns late that a node is gone.

After a node lost power, its endpoints leave every Service once the lag has passed, unless the node
is back by then. After it is back, those that were taken out return.

Source: node-monitor-grace-period 40 s (50 s in newer clusters) plus the time to pass it on; return
within 1 to 3 s. Takes note of power only: killed pods, pulled cables and black holes are for the
test to script.
"""

from __future__ import annotations

from collections.abc import Mapping

from outlast.testing.node import Node
from outlast.testing.pod import Pod
from outlast.testing.schedule import Schedule
from outlast.testing.service import Service


class ControlPlane:
    """Watches the power of nodes and adjusts Services after a lag, on the schedule's thread."""

    def __init__(
        self, lag: float, recovery: float, schedule: Schedule, services: Mapping[str, Service]
    ) -> None:
        if lag < 0 or recovery < 0:
            raise ValueError(f"lag={lag!r}, recovery={recovery!r}; right: lag=40.0, recovery=3.0")
        self._lag = lag
        self._recovery = recovery
        self._schedule = schedule
        self._services = services
        self._changes: dict[Node, int] = {}
        self._taken: dict[Node, list[tuple[Service, list[Pod]]]] = {}

    def power_changed(self, node: Node) -> None:
        """Note that a node has lost or regained power, and act on it later."""
        change = self._changes[node] = self._changes.get(node, 0) + 1
        act, wait = (self._restore, self._recovery) if node.on else (self._take, self._lag)

        def later() -> None:
            if self._changes[node] == change:  # else its power has changed since
                act(node)

        self._schedule.at(self._schedule.elapsed() + wait, later)

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
