"""A target to which calls tell what they met whose policy has rules of ejection only count.

The rules of other calls hold as ever: what one call's evidence would have put out stays in, and an
event says so. Only a fault is weighed in this way, for good news is no rule's. What active checks
find is no call's: once a call has come whose policy has them only count, they do for the target.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from outlast.core.classify import answer_fault
from outlast.core.health import Fault, Health, Rule
from outlast.core.health_plan import HealthPlan
from outlast.net.address import Address
from outlast.service.news import BadNews

if TYPE_CHECKING:
    from outlast.service.service import Service

__all__ = ["DryRun", "only_counting"]

T = TypeVar("T")

CHECKS = frozenset({Rule.CHECK})


def only_counting(rules: frozenset[Rule], tell: Callable[[Health], T]) -> Callable[[Health], T]:
    """`tell`, where these rules only count, those of the endpoint's own plan beside them."""
    if not rules:
        return tell

    def told(health: Health) -> T:
        plan = health.plan
        health.plan = _counting(plan, rules)
        try:
            return tell(health)
        finally:
            health.plan = plan

    return told


@functools.lru_cache(maxsize=64)
def _counting(plan: HealthPlan, rules: frozenset[Rule]) -> HealthPlan:
    return dataclasses.replace(plan, count_only=plan.count_only | rules)


class DryRun(BadNews):
    """See `Service`, whose methods of these names these are. Thread-safe."""

    __slots__ = ("_rules", "_service", "arrange", "connected", "resolved")

    def __init__(self, service: Service, rules: frozenset[Rule]) -> None:
        self._service = service
        self._rules = rules
        if Rule.CHECK in rules:
            service.dry_checks = CHECKS
        self.arrange: Callable[[Sequence[Address], float], Sequence[Address]] = service.arrange
        self.connected: Callable[[Address, float], None] = service.connected
        self.resolved: Callable[[Sequence[Address], float], None] = service.resolved

    def answered(self, address: Address, status: int, now: float) -> None:
        """See `Service.answered`."""
        fault = answer_fault(status)
        if fault is None:
            self._service.answered(address, status, now)
        else:
            self._service.spoke(address)
            self.fault(address, fault, now)

    def fault(
        self,
        address: Address,
        fault: Fault,
        now: float,
        dry: frozenset[Rule] = frozenset(),
        *,
        reached: bool = False,
    ) -> None:
        """See `Service.fault`."""
        self._service.fault(address, fault, now, self._rules | dry, reached=reached)

    def suspect(self, address: Address, now: float) -> None:
        """See `Service.suspect`."""
        self._service.suspect(address, now, self._rules)
