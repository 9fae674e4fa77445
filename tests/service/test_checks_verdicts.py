"""Active checks in virtual time: what they show, and what they hold against nobody."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from outlast import events
from outlast.core.health_plan import Evidence
from outlast.net.address import Address
from outlast.net.options import SocketPlan
from outlast.service.check_kinds import CheckWay, Outcome, Subject, TcpCheck
from outlast.service.checks import ActiveChecks
from outlast.testing import SimNet
from tests.service.checking import TARGET, TCP, TRIP, Owner, address_of, keep_using, owner_of


def running(owner: Owner) -> bool:
    return owner.checks.running


# --- what they show -----------------------------------------------------------------------------


def test_a_node_without_power_is_down_after_fall_checks_and_up_after_rise() -> None:
    net = SimNet()
    node = net.node("a")
    address = address_of(node.pod().endpoint)
    owner = Owner(net, TcpCheck(fast_interval=1.5), [address])
    net.at(5.0, node.power_off)
    net.at(30.0, node.power_on)
    with net.running():
        keep_using(net, owner, 40.0)
    # 6.0 is the first in vain; two more in the fast interval, each with a time-out of 1 s.
    assert owner.times(address)[:6] == [0.0, 2.0, 4.0, 6.0, 7.5, 9.0]
    (_, up), (down_at, down), (up_at, up_again) = owner.changes(address)
    assert (up, down, up_again) == (True, False, True)
    assert down_at == 10.0
    assert owner.times(address)[6:9] == [10.5, 12.0, 13.5]
    assert up_at == pytest.approx(31.5, abs=TRIP)  # the second of those at 30.0 and 31.5
    told = [each for each in owner.told if not each.up]
    assert told[0].why == "timed out after 1 s, waiting for a connection"
    assert {each.evidence for each in owner.told} == {Evidence.DEATH}


def test_refused_is_told_as_what_it_is() -> None:
    net = SimNet()
    node = net.node("a")
    pod = node.pod()
    owner = Owner(net, TCP, [address_of(pod.endpoint)])
    pod.kill()
    with net.running():
        keep_using(net, owner, 3.0)
    (told, *_) = owner.told
    assert not told.up
    assert told.why == f"connect to {pod.address}: Connection refused"
    assert owner.times(told.address)[:4] == [0.0, 0.5, 1.0, 1.5]
    assert told.at == pytest.approx(1.0, abs=TRIP)


def test_changes_are_events() -> None:
    net = SimNet()
    pod = net.node("a").pod()
    address = address_of(pod.endpoint)
    owner = Owner(net, TCP, [address])
    heard: list[events.CheckChanged] = []
    net.at(3.5, pod.kill)
    net.at(8.0, pod.start)
    with net.running(), events.subscribe(heard.append, events.CheckChanged):
        keep_using(net, owner, 10.0)
    assert [(each.at, each.up) for each in heard] == owner.changes(address)
    assert [str(each) for each in heard] != []
    assert {(each.target, each.address) for each in heard} == {(TARGET, str(address))}
    assert [each.why.split(":")[-1].strip() for each in heard] == [
        "connected",
        "Connection refused",
        "connected",
    ]


def test_what_changes_nothing_yet_is_not_told_but_can_be_seen() -> None:
    net = SimNet()
    node = net.node("a")
    pod = node.pod()
    address = address_of(pod.endpoint)
    owner = Owner(net, TCP, [address])
    net.at(1.0, pod.kill)
    with net.running():
        owner.use()
        net.sleep(2.0 + TRIP)
        assert [each.up for each in owner.told] == [True]
        state = owner.checks.state(address)
        assert (state.up, state.ok) == (True, False)
        assert state.why.endswith("Connection refused")
        assert state.at == pytest.approx(2.0, abs=TRIP)


# --- what is this machine's own fault -----------------------------------------------------------


def test_behind_a_pulled_cable_of_our_own_nobody_is_judged() -> None:
    net = SimNet()
    owner = owner_of(net, 2)
    net.at(3.0, net.client.unplug)
    net.at(20.0, net.client.heal)
    with net.running():
        keep_using(net, owner, 19.0)
        state = owner.checks.state(owner.members[0])
        assert (state.up, state.ok) == (True, None)
        assert "link is down" in state.why
        keep_using(net, owner, 30.0)
        assert owner.checks.state(owner.members[0]).ok is True
    assert all(each.up for each in owner.told)


def test_nor_is_anybody_by_an_error_that_comes_while_it_is_pulled() -> None:
    """Nobody answers for the neighbours of a machine without a link: no route, after 3 s."""
    net = SimNet()
    address = address_of(net.node("a").pod().endpoint)
    owner = Owner(net, TcpCheck(timeout=20.0, fall=1), [address])
    net.at(3.0, net.client.unplug)
    net.at(3.0, net.client.forget_neighbours)
    with net.running():
        keep_using(net, owner, 10.0)
        state = owner.checks.state(address)
    assert all(each.up for each in owner.told)
    assert state.ok is None
    assert state.why == f"connect to {address}: No route to host"


def test_a_local_address_that_is_not_ours_judges_nobody() -> None:
    net = SimNet()
    address = address_of(net.node("a").pod().endpoint)
    way = CheckWay(plan=SocketPlan(source=("10.99.99.99", 0)))
    owner = Owner(net, TCP, [address], way=way)
    with net.running():
        keep_using(net, owner, 5.0)
        state = owner.checks.state(address)
    assert owner.told == []
    assert state.ok is None
    assert "10.99.99.99" in state.why


class Skewed:
    """A network whose clock can be put forward: the process seems to have stood still."""

    def __init__(self, net: SimNet) -> None:
        self._net = net
        self.ahead = 0.0

    def now(self) -> float:
        return self._net.now() + self.ahead

    def __getattr__(self, name: str) -> object:
        return getattr(self._net, name)


class Leaping:
    """A check during which this process stands still for a while."""

    at_once = 100
    plan = TCP.plan

    def __init__(self, network: Skewed, seconds: float) -> None:
        self._network = network
        self._seconds = seconds

    async def probe(self, subject: Subject) -> Outcome:
        self._network.ahead += self._seconds
        return await TCP.probe(subject)


def test_a_process_that_stood_still_judges_nobody() -> None:
    net = SimNet()
    node = net.node("a")
    address = address_of(node.pod().endpoint)
    node.black_hole()
    network = Skewed(net)
    owner = Owner(network, Leaping(network, 5.0), [address])  # type: ignore[arg-type]  # by getattr
    with net.running():
        owner.use()
        net.sleep(1.0 + TRIP)
        state = owner.checks.state(address)
    assert owner.told == []
    assert (state.ok, state.why) == (None, "this process was held up for 5.0 s")


def test_what_had_come_meanwhile_counts() -> None:
    """Answers lie here when the process goes on: none of them is late."""
    net = SimNet()
    pods = [net.node(f"n{number}").pod() for number in range(5)]
    members = [address_of(pod.endpoint) for pod in pods]

    class Still:
        at_once = 100
        plan = TCP.plan

        async def probe(self, subject: Subject) -> Outcome:
            outcome = await TCP.probe(subject)
            network.ahead = 5.0  # as the first ends; the others have ended too, unseen
            return outcome

    network = Skewed(net)
    owner = Owner(network, Still(), members)  # type: ignore[arg-type]  # by getattr
    with net.running():
        owner.use()
        net.sleep(TRIP)
    told = [(each.address, each.up) for each in owner.told]
    assert told[:5] == [(each, True) for each in members]


# --- what goes wrong ----------------------------------------------------------------------------


class Broken:
    """A check with a mistake in it."""

    at_once = 100
    plan = TCP.plan

    async def probe(self, subject: Subject) -> Outcome:
        raise KeyError(subject.address.host)


def test_a_mistake_in_a_check_is_logged_and_judges_nobody(caplog: pytest.LogCaptureFixture) -> None:
    net = SimNet()
    address = address_of(net.node("a").pod().endpoint)
    owner = Owner(net, Broken(), [address])
    with net.running(), caplog.at_level(logging.ERROR, "outlast"):
        keep_using(net, owner, 5.0)
    assert len(owner.kind.begun) == 10
    assert owner.told == []
    assert running(owner)
    (record,) = caplog.records  # once, though it is met every time
    assert str(address) in record.getMessage()


class Threadless(Skewed):
    """A network on a system that has no threads left."""

    tries = 0

    def spawn(self, job: Callable[[], object]) -> None:
        self.tries += 1
        raise RuntimeError("can't start new thread")


def test_without_a_thread_calls_go_on_and_it_is_tried_again_after_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    net = SimNet()
    network = Threadless(net)
    owner = Owner(network, TCP, [Address(2, ("10.0.0.1", 80))])  # type: ignore[arg-type]  # by getattr
    with net.running(), caplog.at_level(logging.WARNING, "outlast"):
        for _ in range(25):
            owner.use()
            net.sleep(0.1)
    assert network.tries == 3
    assert len(caplog.records) == 3
    assert not running(owner)


def test_a_mistake_of_the_owners_does_not_make_a_storm(caplog: pytest.LogCaptureFixture) -> None:
    """Where it cannot tell its members, calls go on, and checks try again after a second."""
    net = SimNet()
    owner = Owner(net, TCP, [address_of(net.node("a").pod().endpoint)])
    asked: list[float] = []

    def mistaken() -> tuple[Address, ...]:
        asked.append(net.elapsed())
        raise KeyError("members")

    checks = ActiveChecks(net, "mistaken", TCP, mistaken, owner.hear)
    with net.running(), caplog.at_level(logging.ERROR, "outlast"):
        for _ in range(25):
            checks.touch(net.now())
            net.sleep(0.1)
    assert asked == pytest.approx([0.0, 1.0, 2.0], abs=0.11)
    assert [record.getMessage() for record in caplog.records] == ["a background job failed"] * 3
    assert not checks.running
