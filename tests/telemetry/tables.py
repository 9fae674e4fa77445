"""Snapshots for tests of what is read from them."""

from __future__ import annotations

from outlast.service.snapshot import EndpointSnapshot, Snapshot, TargetSnapshot
from tests.event_samples import ADDRESS, TARGET


class Table:
    """Stands for the endpoint table: keeps what it was asked for."""

    def __init__(self, *endpoints: EndpointSnapshot) -> None:
        self.endpoints = endpoints
        self.taken: list[Snapshot] = []

    @property
    def asked(self) -> int:
        """How often."""
        return len(self.taken)

    def snapshot(self) -> Snapshot:
        target = TargetSnapshot(
            target=TARGET, endpoints=self.endpoints, panic=True, retry_budget_left=12.5
        )
        self.taken.append(Snapshot(at=100.0, targets=(target,)))
        return self.taken[-1]


def healthy(address: str = ADDRESS) -> EndpointSnapshot:
    return EndpointSnapshot(
        address=address,
        pending=2,
        latency=0.003,
        check="up",
        connections=8,
        idle=6,
        in_flight=2,
        limit=2,
        waiting=3,
        full="2 requests in flight of at most 2 (CircuitLimits)",
    )


def out(address: str) -> EndpointSnapshot:
    return EndpointSnapshot(
        address=address, standing="out", evidence="death", until=104.0, weight=0.5, suspect=True
    )
