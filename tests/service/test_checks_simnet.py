"""Active checks in virtual time: when they are made, whom of, when they rest."""

from __future__ import annotations

import gc
import weakref

import pytest

from outlast.core.balance import RoundRobin
from outlast.core.health import Evidence, Standing
from outlast.net.address import Address
from outlast.net.seam import Wait
from outlast.service.check_kinds import CallCheck, CheckWay, TcpCheck
from outlast.service.table import service_of
from outlast.target import Target, TargetSettings
from outlast.testing import SimNet
from tests.service.checking import TCP, TRIP, Owner, address_of, keep_using, owner_of


def running(owner: Owner) -> bool:
    return owner.checks.running


# --- when ---------------------------------------------------------------------------------------


def test_the_first_pass_happens_at_once_and_side_by_side() -> None:
    net = SimNet()
    owner = owner_of(net, 20)
    with net.running():
        owner.use()
        net.sleep(TRIP)
        assert [(each.address, each.up) for each in owner.told] == [
            (address, True) for address in owner.members
        ]
        assert {at for at, _ in owner.kind.begun} == {0.0}
        assert owner.kind.most == 20


def test_then_each_has_its_interval_from_begin_to_begin() -> None:
    net = SimNet()
    owner = owner_of(net, 2)
    with net.running():
        keep_using(net, owner, 9.0)
    for address in owner.members:
        assert owner.times(address) == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert all(each.up for each in owner.told)
    assert len(owner.told) == 10


def test_chance_keeps_them_apart_and_the_seed_decides_it() -> None:
    def times(seed: int) -> list[float]:
        net = SimNet(seed=seed)
        pods = [net.node(f"n{number}").pod() for number in range(3)]
        owner = Owner(net, TCP, [address_of(pod.endpoint) for pod in pods], plan=TCP.plan)
        with net.running():
            keep_using(net, owner, 20.0)
        return [at for at, _ in owner.kind.begun]

    first, again, other = times(1), times(1), times(2)
    assert first == again
    assert first != other
    assert len(set(first[3:])) == len(first[3:])
    gaps = [first[6] - first[3], first[7] - first[4]]
    assert all(1.0 < gap < 4.0 for gap in gaps)


def test_no_more_than_may_be_are_made_at_once_and_all_have_their_turn() -> None:
    net = SimNet()
    nodes = [net.node(f"n{number}") for number in range(12)]
    members = [address_of(node.pod().endpoint) for node in nodes]
    owner = Owner(net, TCP, members, at_once=4)
    for node in nodes[:6]:
        node.black_hole()
    with net.running():
        keep_using(net, owner, 6.0)
    assert owner.kind.most == 4
    assert {whom for _, whom in owner.kind.begun} == set(members)
    assert {each.address for each in owner.told if each.up} == set(members[6:])


# --- endpoints come and go ----------------------------------------------------------------------


def test_a_newcomer_is_checked_at_once_when_it_is_told_and_at_the_next_check_if_not() -> None:
    net = SimNet()
    a, b, c = (address_of(net.node(name).pod().endpoint) for name in "abc")
    owner = Owner(net, TCP, [a])
    with net.running():
        owner.use()
        net.sleep(0.7)
        owner.members = (a, b)
        owner.checks.changed()
        net.sleep(0.5)
        owner.members = (a, b, c)
        net.sleep(1.0)
    assert owner.times(b) == [0.7]
    assert owner.times(c) == [2.0]


def test_one_that_has_left_is_checked_no_more_not_even_to_the_end() -> None:
    net = SimNet()
    nodes = [net.node(name) for name in "ab"]
    a, b = (address_of(node.pod().endpoint) for node in nodes)
    owner = Owner(net, TCP, [a, b])
    nodes[1].black_hole()
    with net.running():
        owner.use()
        net.sleep(0.5)
        owner.members = (a,)
        owner.checks.changed()
        net.sleep(TRIP)
        assert owner.kind.closed == 1
        assert owner.checks.state(b).why == ""
        net.sleep(5.0)
        owner.members = (a, b)
        owner.checks.changed()
        net.sleep(TRIP)
    assert owner.times(b) == [0.0, pytest.approx(5.5 + TRIP)]
    assert {each.address for each in owner.told} == {a}


def test_one_that_leaves_while_in_line_is_not_checked() -> None:
    net = SimNet()
    nodes = [net.node(name) for name in "abc"]
    a, b, c = (address_of(node.pod().endpoint) for node in nodes)
    owner = Owner(net, TCP, [a, b, c], at_once=1)
    nodes[0].black_hole()
    with net.running():
        owner.use()
        net.sleep(0.5)
        owner.members = (a, c)
        owner.checks.changed()
        net.sleep(1.0)
    assert owner.times(c) == [1.0]
    assert owner.times(b) == []


def test_a_target_without_endpoints_costs_nothing_and_has_its_first_when_it_comes() -> None:
    net = SimNet()
    address = address_of(net.node("a").pod().endpoint)
    owner = Owner(net, TCP, [])
    with net.running():
        owner.use()
        net.sleep(10.0)
        owner.members = (address, address)
        owner.checks.changed()
        net.sleep(TRIP)
    assert owner.times(address) == [10.0]


# --- rest ---------------------------------------------------------------------------------------


def test_they_rest_a_minute_after_the_last_call_and_begin_anew_with_the_next() -> None:
    net = SimNet()
    owner = owner_of(net, 1)
    (address,) = owner.members
    with net.running():
        owner.use()
        net.sleep(5.5)
        owner.use()
        net.sleep(59.9)
        assert running(owner)
        net.sleep(0.2)
        assert not running(owner)
        assert owner.times(address)[-1] == 64.0
        net.sleep(100.0)
        assert owner.times(address)[-1] == 64.0
        begin = net.elapsed()
        owner.use()
        net.sleep(TRIP)
        assert owner.times(address)[-1] == pytest.approx(begin)
        assert owner.checks.state(address).up is True


def test_they_rest_at_an_instant_that_is_no_round_number() -> None:
    """49.85 + 60 - 49.85 is less than 60, in floats: the job would ask for ever."""
    net = SimNet()
    owner = owner_of(net, 1)
    with net.running():
        net.sleep(49.85)
        owner.use()
        net.sleep(60.0 + TRIP)
        assert not running(owner)


def test_a_call_just_after_they_have_begun_to_rest_wakes_them() -> None:
    net = SimNet()
    owner = owner_of(net, 1)
    with net.running():
        owner.use()
        net.sleep(60.0 + TRIP)
        assert not running(owner)
        owner.use()
        net.sleep(TRIP)
    assert owner.times(owner.members[0])[-2:] == [58.0, pytest.approx(60.0 + TRIP)]


def test_they_rest_on_time_where_checks_are_rare() -> None:
    net = SimNet()
    owner = owner_of(net, 1, TcpCheck(interval=300.0))
    with net.running():
        owner.use()
        net.sleep(60.1)
        assert not running(owner)


def test_stop_is_for_good() -> None:
    net = SimNet()
    owner = owner_of(net, 2)
    net.nodes["n1"].black_hole()
    with net.running():
        owner.use()
        net.sleep(0.5)
        owner.checks.stop()
        owner.checks.stop()
        net.sleep(TRIP)
        assert owner.kind.closed == 1
        owner.use()
        assert not running(owner)
        net.sleep(5.0)
    assert len(owner.kind.begun) == 2


def test_nobody_is_kept_alive_by_its_checks() -> None:
    net = SimNet()
    owner = owner_of(net, 1)
    kind, checks = owner.kind, weakref.ref(owner.checks)
    with net.running():
        owner.use()
        net.sleep(1.0)
        gone = weakref.ref(owner)
        gc.disable()
        try:
            del owner
            assert gone() is None  # without the collector: there is no circle
        finally:
            gc.enable()
        assert checks() is None
        net.sleep(10.0)
    assert len(kind.begun) == 1


def test_so_they_end_where_only_whom_they_tell_is_gone() -> None:
    net = SimNet()
    owner = owner_of(net, 1)
    kind, checks = owner.kind, owner.checks
    with net.running():
        owner.use()
        net.sleep(1.0)
        del owner
        net.sleep(2.0)
        assert not checks.running
        checks.touch(net.now())
        assert not checks.running
        net.sleep(10.0)
    assert len(kind.begun) == 1


# --- users --------------------------------------------------------------------------------------


def test_threads_share_one_job() -> None:
    net = SimNet()
    owner = owner_of(net, 2)

    def work() -> None:
        keep_using(net, owner, 7.0)

    with net.running():
        net.gather(*[work] * 5)
    assert owner.times(owner.members[0]) == [0.0, 2.0, 4.0, 6.0]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_tasks_use_it_and_loops_come_and_go(backend: str) -> None:
    net = SimNet()
    owner = owner_of(net, 2)

    async def main() -> None:
        for _ in range(5):
            owner.use()
            await net.wait_async(Wait((), net.now() + 1.0))

    net.run(main, backend=backend)
    net.run(main, backend=backend)
    assert owner.times(owner.members[0]) == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_a_slow_callable_takes_no_virtual_time_where_nobody_else_runs() -> None:
    net = SimNet()
    asked: list[Address] = []

    def slow(address: Address) -> bool:
        asked.append(address)
        return sum(range(1_000_000)) > 0  # some 20 ms, many times what a thread needs to begin

    owner = owner_of(net, 1, CallCheck(slow))
    with net.running():
        owner.use()
        net.sleep(9.0)
    assert [(each.at, each.up) for each in owner.told] == [(t, True) for t in (0, 2, 4, 6, 8)]
    assert asked == list(owner.members) * 5


def test_what_a_check_still_says_when_its_checks_have_ended_puts_nobody_out() -> None:
    """Nobody would check it again, and let it in."""
    net = SimNet()
    pod = net.node("n").pod()
    address, target = address_of(pod.endpoint), Target(f"static://{pod.address}", check=TcpCheck())
    service = service_of(target, net)
    service.check(net, CheckWay())

    def standing() -> Standing:
        return service.look(lambda roster: next(iter(roster)).health.standing)

    service.checked(address, False, "no answer", 1.0, Evidence.DEATH)
    assert standing() is Standing.OUT
    service.settle(Target(target.text, balance=RoundRobin()).settings or TargetSettings(), 2.0)
    assert standing() is Standing.IN
    service.checked(address, False, "no answer", 2.0, Evidence.DEATH)
    assert standing() is Standing.IN
