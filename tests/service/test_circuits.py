"""Circuit limits under threads and across a fork; a target's response times; dry runs of the rules
that are no answer's."""

from __future__ import annotations

import threading
from random import Random

import pytest

from outlast import events
from outlast.core.call import Await, Try
from outlast.core.circuit import CircuitLimits
from outlast.core.health import Evidence, Rule
from outlast.core.hedge import HedgePlan
from outlast.net.address import Address, literal
from outlast.net.seam import Waiter
from outlast.service.circuits import Circuits
from outlast.service.doors import Berth, Full, Seat, Stand
from outlast.service.dry_run import DryRun
from outlast.service.response_times import ResponseTimes
from outlast.service.table import Service
from outlast.target import parse_target

BOUND = 20.0


def address(number: int) -> Address:
    found = literal(f"10.0.0.{number}", 80)
    assert found is not None
    return found


A, B = address(1), address(2)


class Bell:
    """A waiter that threads can wait on."""

    def __init__(self) -> None:
        self.rung = threading.Event()

    def wake(self) -> None:
        self.rung.set()


def no_waiter() -> Waiter:
    raise AssertionError("nobody has to wait")


def seat(entered: Seat | Full) -> Seat:
    assert isinstance(entered, Seat)
    return entered


def test_threads_never_exceed_the_limit_and_nobody_is_forgotten() -> None:
    circuits = Circuits("t", CircuitLimits(in_flight=3))
    under_way = most = done = 0
    lock = threading.Lock()

    def work(chance: Random) -> None:
        nonlocal under_way, most, done
        for _ in range(200):
            bell = Bell()
            one = seat(circuits.enter((A,), lambda: bell, 0.0, alone=True))  # noqa: B023  used at once
            if not one.inside:
                if chance.random() < 0.2:  # goes away, perhaps when it was just let in
                    one.leave(0.0)
                    continue
                assert bell.rung.wait(BOUND)
            with lock:
                under_way += 1
                most = max(most, under_way)
            with lock:
                under_way -= 1
                done += 1
            one.leave(0.0)

    threads = [threading.Thread(target=work, args=(Random(seed),)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
        assert not thread.is_alive()
    assert most <= 3
    assert done > 200
    assert not circuits.busy(0.0)
    assert not circuits._doors


def test_a_child_of_a_fork_begins_with_nothing_in_flight() -> None:
    circuits = Circuits("t", CircuitLimits(in_flight=1, connections=2))
    parents = seat(circuits.enter((A,), no_waiter, 0.0, alone=False))
    berth = circuits.connect(A, alone=False)
    circuits.renew()
    own = seat(circuits.enter((A,), no_waiter, 0.0, alone=False))
    parents.leave(0.0)  # an answer of the parent's, closed here
    assert isinstance(berth, Berth)
    berth.leave()
    assert circuits.busy(0.0) == {A}
    own.leave(0.0)
    own.leave(0.0)
    assert circuits.busy(0.0) == ()


def test_what_has_left_the_target_is_forgotten_when_it_is_not_used() -> None:
    from outlast.core.concurrency import AdaptivePlan

    circuits = Circuits("t", CircuitLimits(adaptive=AdaptivePlan()))
    one = seat(circuits.enter((A,), no_waiter, 0.0, alone=False))
    seat(circuits.enter((B,), no_waiter, 0.0, alone=False)).leave(0.0)
    circuits.forget([A, B])
    assert set(circuits._doors) == {A}  # in use
    one.leave(0.0)
    circuits.forget([A])
    assert not circuits._doors


def test_an_endpoint_that_is_passed_over_is_told_once_until_it_is_free() -> None:
    told: list[events.OutlastEvent] = []
    circuits = Circuits("t", CircuitLimits(in_flight=1))
    with events.subscribe(told.append, events.CircuitOpen):
        one = seat(circuits.enter((A, B), no_waiter, 0.0, alone=False))
        for now in (1.0, 2.0):
            assert circuits.busy(now) == {A}
        one.leave(3.0)
        assert not circuits.busy(3.0)
        one = seat(circuits.enter((A, B), no_waiter, 4.0, alone=False))
        circuits.busy(5.0)
    assert [event.at for event in told] == [1.0, 5.0]


def test_a_winner_of_another_address_counts_there() -> None:
    circuits = Circuits("t", CircuitLimits(connections=1))
    berth = circuits.connect(A, alone=False)
    assert isinstance(berth, Berth)
    assert list(circuits.connectable((A, B))) == [B]
    berth.move(B)
    assert list(circuits.connectable((A, B))) == [A]
    full = circuits.connect(B, alone=False)
    assert isinstance(full, Full)
    assert full.why == "1 connections of at most 1 (CircuitLimits)"
    berth.leave()
    assert not circuits._doors


def in_line(circuits: Circuits, where: Address = A) -> Stand:
    stand = circuits.line_up(where, 0.0, alone=False)
    assert isinstance(stand, Stand)
    return stand


def test_only_the_first_in_line_is_called_and_whoever_leaves_calls_the_next() -> None:
    circuits = Circuits("t", CircuitLimits(connections=1))
    berth = circuits.connect(A, alone=False)
    assert isinstance(berth, Berth)
    first, second = in_line(circuits), in_line(circuits)
    assert circuits.park(first, no_waiter) is None  # something may have come free meanwhile
    bells = Bell(), Bell()
    assert circuits.park(first, lambda: bells[0]) is bells[0]
    assert circuits.park(second, lambda: bells[1]) is bells[1]
    berth.stir()
    assert [bell.rung.is_set() for bell in bells] == [True, False]
    assert circuits.park(first, no_waiter) is None
    first.leave()
    assert bells[1].rung.is_set()
    assert circuits.park(second, no_waiter) is None
    second.leave()
    second.leave()
    berth.leave()
    assert not circuits._doors


def test_a_connection_that_moves_to_another_endpoint_leaves_room() -> None:
    circuits = Circuits("t", CircuitLimits(connections=1))
    berth = circuits.connect(A, alone=False)
    assert isinstance(berth, Berth)
    stand, bell = in_line(circuits), Bell()
    circuits.park(stand, no_waiter)
    circuits.park(stand, lambda: bell)
    berth.move(B)
    assert bell.rung.is_set()


def test_where_connections_are_shared_too_a_limit_on_them_is_none_on_requests() -> None:
    """HTTP/1.1 and HTTP/2 to one endpoint: who waits in line is let in as the next one leaves."""
    circuits = Circuits("t", CircuitLimits(connections=1))
    one = seat(circuits.enter((A,), no_waiter, 0.0, alone=True))
    waits = seat(circuits.enter((A,), Bell, 0.0, alone=True))
    assert not waits.inside
    assert circuits.busy(0.0) == {A}
    shared = seat(circuits.enter((A,), no_waiter, 0.0, alone=False))
    assert shared.inside
    assert not circuits.busy(0.0)
    one.leave(0.0)
    assert waits.inside


# -- response times ------------------------------------------------------------------------


def test_a_hedge_that_the_machine_refuses_takes_no_share() -> None:
    plan, times = HedgePlan(percentile=0.5), ResponseTimes()
    for _ in range(2):
        times.begun(plan)
    assert isinstance(times.start(plan, lambda: Await("the budget is spent")), Await)
    assert isinstance(times.start(plan, lambda: Try(1, 0.0, "late")), Try)
    refused = times.start(plan, lambda: Try(1, 0.0, "late"))
    assert refused == Await("waited for: late; 0.5 of the requests are not hedged")


# -- dry runs ------------------------------------------------------------------------------


def of(text: str) -> Service:
    return Service(parse_target(text), 0.0, Random(1))


def standing(service: Service, where: Address) -> str:
    return service.look(
        lambda roster: next(
            each.health.standing.value for each in roster if each.member.key == where
        )
    )


@pytest.mark.parametrize("rules", [frozenset({Rule.NODE}), frozenset({Rule.LATENCY})])
def test_a_node_s_evidence_may_only_count(rules: frozenset[Rule]) -> None:
    service = of("static://10.0.0.1:80;node=n,10.0.0.2:80;node=n,10.0.0.3:80;node=n")
    calls = DryRun(service, rules)
    calls.failed(A, 0.0)
    calls.failed(B, 0.1)
    assert standing(service, address(3)) == ("in" if Rule.NODE in rules else "out")


def test_checks_only_count_once_a_call_has_said_so() -> None:
    told: list[bool] = []
    service = of("static://10.0.0.1:80,10.0.0.2:80")
    service.checks = object()  # type: ignore[assignment]  # there are some; nobody asks them

    def hear(event: events.OutlastEvent) -> None:
        assert isinstance(event, events.EndpointEjected)
        told.append(event.enforced)

    with events.subscribe(hear, events.EndpointEjected):
        DryRun(service, frozenset({Rule.CHECK}))
        service.checked(A, False, "refused", 0.0, Evidence.DEATH)
        assert standing(service, A) == "in"
        service.dry_checks = frozenset()
        service.checked(A, False, "refused", 1.0, Evidence.DEATH)
        assert standing(service, A) == "out"
    assert told == [False, True]
