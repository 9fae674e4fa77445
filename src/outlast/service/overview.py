"""`snapshot()`: what this process knows of its targets, read out of the endpoint table.

A look, not a subscription: the figures of one target belong together, those of two may be an
instant apart. Refuses to wait: each target's lock is held for the copying alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from outlast.core.endpoint import Endpoint
from outlast.core.health import Standing
from outlast.net.address import Address
from outlast.net.kernel import kernel
from outlast.net.seam import Network
from outlast.service.checks import ActiveChecks
from outlast.service.doors import Counts
from outlast.service.holdings import Sums, holdings
from outlast.service.service import Service
from outlast.service.snapshot import EndpointSnapshot, Snapshot, TargetSnapshot
from outlast.service.table import services_of

__all__ = ["snapshot"]


def snapshot(network: Network | None = None) -> Snapshot:
    """The endpoint table now: `print` it, or read it (`Snapshot`).

    network: another one than the kernel's, such as a `SimNet`. Thread-safe; never blocks.
    """
    world = kernel() if network is None else network
    now = world.now()
    services = sorted(services_of(world), key=lambda service: service.target.text)
    sums = holdings(world)
    return Snapshot(at=now, targets=tuple(_target(service, now, sums) for service in services))


def _target(service: Service, now: float, sums: Sums | None) -> TargetSnapshot:
    circuits = service.circuits
    counts = None if circuits is None else circuits.look()
    endpoints = service.look(
        lambda roster: tuple(_endpoint(service, each, now, sums, counts) for each in roster)
    )
    return TargetSnapshot(
        target=service.target.text,
        endpoints=endpoints,
        panic=service.look(lambda roster: roster.panic),
        retry_budget_left=service.repeats_left(now),
        held_back=sum(service.held_back.copy().values()),
        redials_left=service.memory.redials_left(now),
        calls=service.calls,
    )


def _endpoint(
    service: Service,
    each: Endpoint[Address],
    now: float,
    sums: Sums | None,
    counts: Callable[[Address], Counts] | None,
) -> EndpointSnapshot:
    health, member = each.health, each.member
    out = health.standing is not Standing.IN
    check, why = _check(service.checks, each.key)
    held = idle = None
    if sums is not None:
        held, idle = sums.get((service, each.key), (0, 0))
    limited = None if counts is None else counts(each.key)
    return EndpointSnapshot(
        address=str(each.key),
        standing=health.standing.value,
        evidence=health.evidence.value if out and health.evidence is not None else "",
        rule=health.rule.value if out and health.rule is not None else "",
        why=health.why if out else "",
        until=health.until if out else None,
        ejections=health.ejections,
        pending=each.load.pending,
        latency=each.load.latency(now),
        weight=member.weight * each.part(now),
        priority=member.priority,
        zone=member.zone,
        node=member.node,
        suspect=service.is_suspect(each.key),
        last_success=None if health.last_success == -math.inf else health.last_success,
        check=check,
        check_why=why,
        connections=held,
        idle=idle,
        in_flight=limited and limited.in_flight,
        waiting=limited and limited.waiting,
        limit=limited and limited.limit,
        full=limited.full if limited else "",
    )


def _check(checks: ActiveChecks | None, address: Address) -> tuple[str, str]:
    if checks is None:
        return "", ""
    state = checks.state(address)
    if state.up is None:
        return "", ""
    return ("up" if state.up else "down"), state.why
