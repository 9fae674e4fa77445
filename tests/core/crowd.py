"""Rosters for tests: made in one line, spoilt in another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from random import Random

from outlast.core.balance import (
    P2C,
    Balance,
    ConsistentHash,
    LeastRequest,
    PickFirst,
    RoundRobin,
)
from outlast.core.endpoint import Endpoint, Member
from outlast.core.health import Evidence, Fault, HealthPlan, Rule
from outlast.core.roster import Roster

PLAN = HealthPlan()
BALANCES: list[Balance] = [
    P2C(),
    LeastRequest(),
    RoundRobin(),
    PickFirst(),
    ConsistentHash(header="x-user"),
]


def names(count: int) -> list[str]:
    return [f"e{at}" for at in range(count)]


def roster_of(
    members: int | Sequence[Member[str]],
    balance: Balance | None = None,
    *,
    zone: str = "",
    panic: float = 0.5,
    seed: int = 1,
) -> Roster[str]:
    """A roster of so many equal endpoints e0, e1 ..., or of these members, at 0.0 s."""
    roster: Roster[str] = Roster(balance or P2C(), PLAN, Random(seed), zone=zone, panic=panic)
    if isinstance(members, int):
        members = [Member(name) for name in names(members)]
    roster.resolved(members, 0.0)
    return roster


def of(roster: Roster[str], key: str) -> Endpoint[str]:
    endpoint = roster.get(key)
    assert endpoint is not None
    return endpoint


def bury(roster: Roster[str], keys: Collection[str], now: float = 0.0) -> None:
    """These are out on evidence of death."""
    _eject(roster, keys, Evidence.DEATH, now)


def blame(roster: Roster[str], keys: Collection[str], now: float = 0.0) -> None:
    """These are out on their answers."""
    _eject(roster, keys, Evidence.ANSWERS, now)


def _eject(roster: Roster[str], keys: Collection[str], evidence: Evidence, now: float) -> None:
    rule = Rule.NODE if evidence is Evidence.DEATH else Rule.GATEWAY_ERRORS
    for key in keys:
        endpoint = of(roster, key)
        endpoint.health.eject(rule, evidence, "the test says so", now, Random(7))
        roster.changed(endpoint)


def answer(roster: Roster[str], key: str, now: float) -> None:
    """It gave a good answer."""
    endpoint = of(roster, key)
    endpoint.health.succeeded(now)
    roster.changed(endpoint)


def fail(roster: Roster[str], key: str, fault: Fault, now: float) -> None:
    endpoint = of(roster, key)
    endpoint.health.failed(fault, now, Random(7))
    roster.changed(endpoint)


def shares(
    roster: Roster[str],
    picks: int = 4000,
    *,
    now: float = 1.0,
    seed: int = 3,
    avoid: Collection[str] = (),
) -> dict[str, float]:
    """Which part of so many picks each endpoint got; nothing is begun and nothing ends."""
    rng = Random(seed)
    counts: Counter[str] = Counter()
    for _ in range(picks):
        pick = roster.pick(now, rng, avoid=avoid)
        assert pick is not None
        counts[pick.endpoint.key] += 1
    return {endpoint.key: counts[endpoint.key] / picks for endpoint in roster}
