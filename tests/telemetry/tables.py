"""Snapshots for tests of what is read from them."""

from __future__ import annotations

from outlast.service.snapshot import EndpointSnapshot, Snapshot, TargetSnapshot
from tests.event_samples import ADDRESS, TARGET


class Table:
    """Stands for the endpoint table: counts how often it is asked."""

    def __init__(self, *endpoints: EndpointSnapshot) -> None:
        self.endpoints = endpoints
        self.asked = 0

    def snapshot(self) -> Snapshot:
        self.asked += 1
        target = TargetSnapshot(
            target=TARGET, endpoints=self.endpoints, panic=True, retry_budget_left=12.5
        )
        return Snapshot(at=100.0, targets=(target,))


def healthy(address: str = ADDRESS) -> EndpointSnapshot:
    return EndpointSnapshot(
        address=address, pending=2, latency=0.003, check="up", connections=8, idle=6
    )


def out(address: str) -> EndpointSnapshot:
    return EndpointSnapshot(
        address=address, standing="out", evidence="death", until=104.0, weight=0.5, suspect=True
    )
