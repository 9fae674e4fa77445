"""A target's owner for tests of active checks: who its members are, what was checked and told."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from outlast.core.check import CheckPlan
from outlast.core.health_plan import Evidence
from outlast.net.address import Address, literal
from outlast.net.run import Strands, run_sync
from outlast.net.seam import Network
from outlast.service.check_kinds import CheckKind, CheckWay, Outcome, Subject, TcpCheck
from outlast.service.checks import ActiveChecks
from outlast.testing import SimNet

TARGET = "orders.shop.svc:8080"
TRIP = 0.001  # seconds; more than a connection between two simulated hosts takes
TCP = TcpCheck()


class Told(NamedTuple):
    at: float
    address: Address
    up: bool
    why: str
    evidence: Evidence


def address_of(endpoint: tuple[str, int]) -> Address:
    """The address of a pod's, or a server's, host and port."""
    found = literal(*endpoint)
    assert found is not None
    return found


def steady(kind: CheckKind) -> CheckPlan:
    """The plan of a kind without chance."""
    return dataclasses.replace(kind.plan, jitter=0.0)


class Noted:
    """A kind whose every check is noted: when it began, of whom, and how many were under way."""

    def __init__(self, kind: CheckKind, plan: CheckPlan, at_once: int | None = None) -> None:
        self._kind = kind
        self.plan = plan
        self.at_once = kind.at_once if at_once is None else at_once
        self.begun: list[tuple[float, Address]] = []
        self.under_way = self.most = 0
        self.closed = 0  # checks that were ended from outside

    async def probe(self, subject: Subject) -> Outcome:
        self.begun.append((subject.network.now(), subject.address))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            return await self._kind.probe(subject)
        except GeneratorExit:
            self.closed += 1
            raise
        finally:
            self.under_way -= 1


class Owner:
    """What holds the checks of a target, as the table of endpoints does."""

    def __init__(
        self,
        network: Network,
        kind: CheckKind,
        members: Iterable[Address],
        *,
        plan: CheckPlan | None = None,
        at_once: int | None = None,
        way: CheckWay | None = None,
    ) -> None:
        self.network = network
        self.members = tuple(members)
        self.told: list[Told] = []
        self.on_told: Callable[[], object] = lambda: None
        self.kind = Noted(kind, plan or steady(kind), at_once)
        self.checks = ActiveChecks(
            network, TARGET, self.kind, self.current, self.hear, way=way or CheckWay()
        )

    def current(self) -> tuple[Address, ...]:
        return self.members

    def hear(self, address: Address, up: bool, why: str, now: float, evidence: Evidence) -> None:
        self.told.append(Told(now, address, up, why, evidence))
        self.on_told()

    def use(self) -> None:
        """A call of the target's."""
        self.checks.touch(self.network.now())

    def changes(self, address: Address) -> list[tuple[float, bool]]:
        """When an endpoint was first told to be up, or down, after it was not."""
        told = [each for each in self.told if each.address == address]
        groups = itertools.groupby(told, key=lambda each: each.up)
        return [(next(group).at, up) for up, group in groups]

    def times(self, address: Address) -> list[float]:
        """When the checks of an endpoint began."""
        return [at for at, whom in self.kind.begun if whom == address]


def probe_once(
    network: Network,
    kind: CheckKind,
    address: Address,
    *,
    timeout: float = 10.0,
    way: CheckWay | None = None,
) -> Outcome | BaseException | None:
    """One check, in this thread: its outcome or its error; None if it was not over in time."""

    async def main() -> Outcome | BaseException | None:
        strands: Strands[int, Outcome] = Strands(network)
        strands.start(0, kind.probe(Subject(network, way or CheckWay(), address)))
        try:
            ended = await strands.next(network.now() + timeout)
        finally:
            strands.close()
        return None if ended is None else ended[1]

    return run_sync(network, main())


def owner_of(net: SimNet, count: int = 3, kind: CheckKind = TCP) -> Owner:
    """The owner of so many pods, each on a node of its own."""
    pods = [net.node(f"n{number}").pod() for number in range(count)]
    return Owner(net, kind, [address_of(pod.endpoint) for pod in pods])


def keep_using(net: SimNet, owner: Owner, until: float) -> None:
    """A call each second."""
    while net.elapsed() < until:
        owner.use()
        net.sleep(1.0)
