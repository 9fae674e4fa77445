"""Active checks under whatever happens: endpoints come and go, die and return, users pause."""

from __future__ import annotations

import itertools
from collections import defaultdict
from random import Random

import pytest

from outlast.core.health_plan import Evidence
from outlast.http.check_http import HttpCheck
from outlast.net.address import Address
from outlast.service.check_kinds import CheckSchedule, Outcome, Subject, TcpCheck
from outlast.testing import SimNet
from outlast.testing.simnet.net import SimNode
from tests.service.checking import TRIP, Noted, Owner, address_of

LENGTH = 200.0  # seconds of virtual time
MOST = 8  # endpoints
FAULTS = ["heal", "heal", "hole", "freeze", "thaw", "kill", "start", "lose", "unreachable"]


class Watchful(Owner):
    """An owner that holds its checks to what they promise."""

    def hear(self, address: Address, up: bool, why: str, now: float, evidence: Evidence) -> None:
        assert address in self.members, "told of one that has left"
        assert self.checks.state(address).up is up
        assert why
        super().hear(address, up, why, now, evidence)


class OneByOne(Noted):
    """A kind that notices two checks of one endpoint at a time."""

    def __init__(self, inner: Noted) -> None:
        super().__init__(inner, inner.plan)
        self.now_at: set[Address] = set()

    async def probe(self, subject: Subject) -> Outcome:
        assert subject.address not in self.now_at
        self.now_at.add(subject.address)
        try:
            return await super().probe(subject)
        finally:
            self.now_at.discard(subject.address)


def strike(rng: Random, node: SimNode) -> None:
    """Something befalls a node, or it heals."""
    what = rng.choice(
        ["heal", "heal", "hole", "freeze", "thaw", "kill", "start", "lose", "unreachable"]
    )
    pod = node.pods[0]
    if what == "hole":
        node.black_hole()
    elif what == "lose":
        node.lose(0.3)
    elif what == "kill" and pod.running and not pod.frozen:
        pod.kill()
    elif what == "start" and not pod.running:
        pod.start()
    elif what in ("heal", "freeze", "thaw", "unreachable"):
        getattr(node, what)()


def mend(node: SimNode) -> None:
    node.heal()
    node.thaw()
    if not node.pods[0].running:
        node.pods[0].start()


@pytest.mark.parametrize("kind", [TcpCheck(), HttpCheck()])
@pytest.mark.parametrize("seed", range(3))
def test_promises_hold(
    kind: TcpCheck | HttpCheck, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    net = SimNet(seed=seed)
    rng = Random(seed)
    nodes = [net.node(f"n{number}") for number in range(MOST)]
    addresses = [address_of(node.pod().endpoint) for node in nodes]
    noted = OneByOne(Noted(kind, kind.plan))
    owner = Watchful(net, noted, addresses[:3], plan=kind.plan)
    resting: list[tuple[float, float]] = []
    joined: dict[Address, list[float]] = defaultdict(list)
    with net.running():
        used = net.elapsed()
        while net.elapsed() < LENGTH:
            owner.use()
            pause = rng.choice([0.05, 0.3, 1.0, 1.0, 5.0] + [90.0] * (rng.random() < 0.1))
            if pause > 60.0:
                resting.append((net.elapsed() + 60.0, net.elapsed() + pause))
            if rng.random() < 0.3:
                owner.members = tuple(rng.sample(addresses, rng.randint(0, MOST)))
                owner.checks.changed()
                for address in owner.members:
                    joined[address].append(net.elapsed())
            if rng.random() < 0.4:
                strike(rng, rng.choice(nodes))
            net.sleep(pause)
            used = net.elapsed()
        for node in nodes:
            mend(node)
        owner.members = tuple(addresses)
        owner.checks.changed()
        while net.elapsed() < used + 10.0:
            owner.use()
            net.sleep(1.0)
        assert [owner.checks.state(address).up for address in addresses] == [True] * MOST
    assert caplog.records == []  # what fails in the background is logged
    for begin, end in resting:
        assert not [at for at, _ in noted.begun if begin < at < end]
    assert_on_time(noted, kind, addresses, end=used)


def assert_on_time(
    noted: Noted, kind: CheckSchedule, addresses: list[Address], *, end: float
) -> None:
    """In the last ten seconds all are members, and the checks of each are never far apart."""
    longest = kind.plan.interval * (1.0 + kind.plan.jitter)
    for address in addresses:
        times = [at for at, whom in noted.begun if whom == address and at >= end]
        assert times[0] <= end + longest + TRIP
        assert all(b - a <= longest + TRIP for a, b in itertools.pairwise(times))
