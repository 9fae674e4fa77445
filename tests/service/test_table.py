"""What a process knows of a target: turns, evidence, and one table for all."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from outlast import events
from outlast.core.balance import P2C, PickFirst
from outlast.core.endpoint import Endpoint
from outlast.core.health import HealthPlan, Rule
from outlast.net.address import Address
from outlast.service.table import MAX_TARGETS, Service, service_of
from outlast.target import Target, parse_target, target_of
from tests.net.far_side import PATIENCE
from tests.net.scripted import Scripted, at

A, B, C = at("10.0.0.1"), at("10.0.0.2"), at("10.0.0.3")
V6 = at("fd00::1")
THREE = "static://10.0.0.1:80,10.0.0.2:80,10.0.0.3:80"


def made(text: str = THREE, seed: int = 1, **settings: Any) -> Service:
    """The service of a target, nothing known of its endpoints."""
    return Service(Target(text, **settings), 0.0, Random(seed))


def named(*addresses: Address) -> Service:
    """Of a name that has these addresses."""
    service = made("dns://db.test:80")
    service.resolved(addresses, 0.0)
    return service


@pytest.fixture
def service() -> Service:
    """Three endpoints, nothing known of them."""
    return made()


def first(service: Service, now: float = 0.0) -> Address:
    return service.order(now)[0]


def firsts(service: Service, now: float = 0.0) -> Counter[Address]:
    return Counter(first(service, now) for _ in range(60))


# --- order ------------------------------------------------------------------------------------


def test_endpoints_are_picked_alike(service: Service) -> None:
    assert min(firsts(service)[each] for each in (A, B, C)) > 8
    assert all(sorted(service.order(0.0), key=str) == [A, B, C] for _ in range(6))


def test_only_the_first_is_looked_for_until_more_is_asked(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Address] = []

    def others(first: Endpoint[Address], now: float) -> list[Address]:
        asked.append(first.key)
        return [A, B, C]

    monkeypatch.setattr(service, "_others", others)
    order = service.order(0.0)
    assert len(order) == 3
    assert (order[0],) == tuple(order[:1])
    assert not asked
    assert sorted(order, key=str) == [A, B, C]
    assert next(iter(order)) == order[0]
    assert asked == [order[0]]


def test_processes_do_not_begin_with_the_same_endpoint() -> None:
    begins = Counter(first(made(seed=seed)) for seed in range(60))
    assert min(begins[each] for each in (A, B, C)) > 8


def test_the_resolvers_word_on_families_holds() -> None:
    """RFC 6724 has chosen the first one; the others are a spare."""
    service = named(V6, A, B)
    for _ in range(6):
        order = service.arrange([V6, A, B], 0.0)
        assert order[0] == V6
        assert sorted(order[1:], key=str) == [A, B]
    service.failed(V6, 0.0)
    assert V6 not in firsts(service)


def test_what_was_tried_comes_last(service: Service) -> None:
    assert all(service.order(0.0, avoid={A, B})[0] == C for _ in range(20))
    assert service.order(0.0, avoid={A, B, C})[0] in (A, B, C)


@pytest.mark.parametrize("addresses", [[], [A]])
def test_few_addresses_are_in_order(service: Service, addresses: Sequence[Address]) -> None:
    assert list(service.arrange(addresses, 0.0)) == addresses


def test_an_address_that_is_not_known_yet_is_dialled_last(service: Service) -> None:
    assert service.arrange([V6, A, B, C], 0.0)[-1] == V6


def test_a_name_has_no_endpoints_until_it_is_resolved() -> None:
    service = made("dns://db.test:80")
    assert list(service.order(0.0)) == []
    service.resolved([A, B], 0.0)
    assert sorted(service.order(0.0), key=str) == [A, B]
    assert service.has(A)
    service.resolved([], 0.0)
    assert list(service.order(0.0)) == []
    assert not service.has(A)
    assert service.departures == 1


def test_weights_and_priorities_of_a_static_target() -> None:
    service = made("static://10.0.0.1:80;weight=9,10.0.0.2:80,10.0.0.3:80;priority=1")
    found = firsts(service)
    assert found[A] > 3 * found[B] > 0
    assert not found[C]


# --- evidence ---------------------------------------------------------------------------------


def test_an_endpoint_that_failed_is_last_for_a_while(service: Service) -> None:
    service.failed(A, 10.0)
    for moment in (10.0, 13.9):
        assert all(service.order(moment)[-1] == A for _ in range(6))
    assert A in firsts(service, 16.1)


def test_silence_counts_when_it_repeats(service: Service) -> None:
    for _ in range(2):
        service.silent(A, 0.0)
    assert A in firsts(service)
    service.silent(A, 0.0)
    assert A not in firsts(service)


def test_a_connection_takes_back_what_dials_have_said(service: Service) -> None:
    service.failed(A, 0.0)
    for _ in range(2):
        service.silent(B, 0.0)
    service.connected(A, 0.0)
    service.connected(B, 0.0)
    service.silent(B, 0.0)
    assert set(firsts(service)) == {A, B, C}


def test_gateway_errors_eject_and_are_told() -> None:
    told: list[events.OutlastEvent] = []
    service = made()
    with events.subscribe(told.append):
        for _ in range(5):
            service.answered(A, 503, 1.0)
        assert A not in firsts(service, 1.0)
        assert first(service, 8.0) == A  # one trial
        assert A not in firsts(service, 8.0)
        service.answered(A, 200, 8.0)
    kinds = [type(event) for event in told]
    assert kinds == [events.EndpointEjected, events.EndpointReturned]


def test_a_trial_that_was_not_used_is_due_again(service: Service) -> None:
    for _ in range(5):
        service.answered(A, 503, 1.0)
    order = service.order(8.0)
    assert order[0] == A
    service.untried(order, 8.0)
    assert first(service, 8.0) == A


def test_what_may_not_be_repeated_is_nobodys_trial(service: Service) -> None:
    for _ in range(5):
        service.answered(A, 503, 1.0)
    assert all(service.order(8.0, repeatable=False)[0] != A for _ in range(20))
    assert first(service, 8.0) == A


def test_a_turn_that_ends_without_a_word_gives_its_trial_back(service: Service) -> None:
    for _ in range(5):
        service.answered(A, 503, 1.0)
    assert first(service, 8.0) == A
    turn = service.begin(A, 8.0)
    assert turn is not None
    turn.quit(8.0)
    turn.quit(8.0)
    assert first(service, 8.0) == A


def test_who_carries_more_is_given_less(service: Service) -> None:
    turns = [service.begin(A, 0.0) for _ in range(20)]
    assert firsts(service)[A] < 5
    for turn in turns:
        assert turn is not None
        turn.answered(200, 0.001)
    assert firsts(service)[A] > 8


def test_two_endpoints_of_a_node_tell_of_the_others_there() -> None:
    service = made(
        "static://10.0.0.1:80;node=n1,10.0.0.2:80;node=n1,10.0.0.3:80;node=n1,10.0.0.4:80;node=n2"
    )
    service.failed(A, 0.0)
    service.failed(B, 0.5)
    assert set(firsts(service, 0.5)) == {at("10.0.0.4")}


def test_who_refuses_speaks_for_its_node() -> None:
    service = made("static://10.0.0.1:80;node=n1,10.0.0.2:80;node=n1,10.0.0.3:80;node=n1")
    service.refused(A, 0.0)
    service.refused(B, 0.1)
    assert set(firsts(service, 0.2)) == {C}
    other = made("static://10.0.0.1:80;node=n1,10.0.0.2:80;node=n1,10.0.0.3:80;node=n1")
    other.failed(A, 0.0)
    other.connected(C, 0.1)
    other.failed(B, 0.1)
    assert set(firsts(other, 0.2)) == {C}


def test_suspicion_lasts_until_the_endpoint_is_heard(service: Service) -> None:
    service.suspect(A, 0.0)
    assert service.is_suspect(A)
    assert A not in firsts(service)
    service.answered(A, 200, 1.0)
    assert not service.is_suspect(A)
    assert A in firsts(service, 1.0)


def test_all_that_failed_are_all_still_there(service: Service) -> None:
    """Out is last, not gone."""
    for address in (A, B, C):
        service.failed(address, 0.0)
    assert sorted(service.order(0.0), key=str) == [A, B, C]


def test_an_address_that_left_the_name_and_came_back_is_new() -> None:
    service = named(A, B)
    service.failed(A, 0.0)
    service.resolved([B], 0.0)
    service.resolved([A, B], 0.0)
    assert set(firsts(service)) == {A, B}


def test_many_threads_at_once() -> None:
    service = named(A, B, C)
    errors: list[BaseException] = []
    start = threading.Barrier(4)

    def work(address: Address) -> None:
        start.wait(PATIENCE)
        try:
            for moment in range(300):
                service.failed(address, moment)
                service.silent(address, moment)
                turn = service.begin(address, moment)
                assert len(service.order(moment)) in (2, 3)
                service.answered(address, 200 if moment % 3 else 503, moment)
                service.resolved([A, B, C] if moment % 2 else [A, B], moment)
                if turn is not None:
                    turn.answered(200, moment)
                service.request(moment)
                service.take(moment)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(each,)) for each in (A, B, C, A)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not errors


def test_the_only_endpoint_is_watched_while_there_is_trouble() -> None:
    """Of a VIP good answers are no news, until something is held against it."""
    told: list[events.OutlastEvent] = []
    service = made("static://10.0.0.1:80")
    assert not service.attentive
    with events.subscribe(told.append):
        for _ in range(3):
            service.silent(A, 0.0)
            assert service.attentive
        service.connected(A, 1.0)
    assert not service.attentive
    assert [type(event) for event in told] == [events.EndpointEjected, events.EndpointReturned]


def test_a_dry_run_is_told_and_changes_nothing() -> None:
    told: list[events.OutlastEvent] = []
    plan = HealthPlan(count_only=frozenset({Rule.GATEWAY_ERRORS}))
    service = made(health=plan)
    with events.subscribe(told.append):
        for _ in range(5):
            service.answered(A, 503, 0.0)
    (event,) = told
    assert isinstance(event, events.EndpointEjected)
    assert not event.enforced
    assert A in firsts(service)


# --- budget -----------------------------------------------------------------------------------


def test_the_retry_budget_is_shared(service: Service) -> None:
    """Three a second over ten seconds, and half of a fifth of the requests: the other half comes
    bit by bit."""
    for _ in range(100):
        service.request(0.0)
    assert sum(service.take(0.0) for _ in range(100)) == 40


# --- the table --------------------------------------------------------------------------------


def test_one_service_for_a_target_and_a_network() -> None:
    one, other = Scripted(), Scripted()
    service = service_of(target_of("db.test", 80), one)
    assert service_of(parse_target("dns://db.test:80"), one) is service
    assert service_of(parse_target("db.test:80"), one) is service
    assert service_of(target_of("db.test", 81), one) is not service
    assert service_of(target_of("db.test", 80), other) is not service
    assert service_of(target_of("10.0.0.1", 80), one).target.addresses == (A,)


def test_a_network_takes_its_services_with_it() -> None:
    network = Scripted()
    service = weakref.ref(service_of(target_of("db.test", 80), network))
    assert service() is not None
    del network
    gc.collect()
    assert service() is None


def test_the_table_has_a_bound_and_forgets_what_was_used_longest_ago() -> None:
    """A crawler meets targets without end."""
    network = Scripted()
    kept = service_of(target_of("kept.test", 80), network)
    first = weakref.ref(service_of(target_of("first.test", 80), network))
    for number in range(MAX_TARGETS):
        service_of(target_of(f"{number}.test", 80), network)
        assert service_of(target_of("kept.test", 80), network) is kept
    gc.collect()
    assert first() is None


def test_threads_get_the_same_service() -> None:
    network = Scripted()
    start = threading.Barrier(8)
    found: list[Service] = []

    def work() -> None:
        start.wait(PATIENCE)
        found.append(service_of(target_of("db.test", 80), network))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len({id(service) for service in found}) == 1


def test_settings_hold_for_all_who_name_the_target(caplog: pytest.LogCaptureFixture) -> None:
    network = Scripted()
    service = service_of(parse_target(THREE), network)
    told = Target(THREE, balance=PickFirst())
    assert service_of(told, network) is service
    assert set(firsts(service)) == {A}
    assert service_of(parse_target(THREE), network).settings.balance == PickFirst()
    assert not caplog.records
    service_of(Target(THREE, balance=P2C()), network)
    assert len(firsts(service)) == 3
    assert "is told to be used as" in caplog.text
