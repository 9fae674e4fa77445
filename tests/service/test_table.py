"""What a process knows of a target: turns, evidence, and one table for all."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from collections.abc import Sequence

import pytest

from outlast.net.address import Address
from outlast.service.table import MAX_TARGETS, SHUN, SILENCES, Service, service_of
from outlast.target import parse_target, target_of
from tests.net.far_side import PATIENCE
from tests.net.scripted import Scripted, at

A, B, C = at("10.0.0.1"), at("10.0.0.2"), at("10.0.0.3")
V6 = at("fd00::1")
THREE = "static://10.0.0.1:80,10.0.0.2:80,10.0.0.3:80"


@pytest.fixture
def service() -> Service:
    """Three endpoints, nothing known of them."""
    return Service(parse_target(THREE), 0.0)


def first(service: Service, now: float = 0.0) -> Address:
    return service.order(now)[0]


# --- turns ------------------------------------------------------------------------------------


def test_endpoints_take_turns(service: Service) -> None:
    orders = [tuple(service.order(0.0)) for _ in range(6)]
    assert Counter(order[0] for order in orders) == {A: 2, B: 2, C: 2}
    assert all(sorted(order, key=str) == [A, B, C] for order in orders)


def test_processes_do_not_begin_with_the_same_endpoint() -> None:
    """The first turn is drawn by the target, so that many targets spread their first dials."""
    ends = [f"static://10.0.0.1:{port},10.0.0.2:{port}" for port in range(80, 120)]
    begins = Counter(first(Service(parse_target(text), 0.0)).host for text in ends)
    assert min(begins[A.host], begins[B.host]) > 5


def test_the_resolvers_word_on_families_holds(service: Service) -> None:
    """Turns go round within a family (RFC 6724 has chosen the first one)."""
    for _ in range(6):
        service.order(0.0)
        order = service.arrange([V6, A, B], 0.0)
        assert order[0] == V6
        assert sorted(order[1:], key=str) == [A, B]


@pytest.mark.parametrize("addresses", [[], [A]])
def test_few_addresses_are_in_order(service: Service, addresses: Sequence[Address]) -> None:
    assert list(service.arrange(addresses, 0.0)) == addresses


def test_a_name_has_no_endpoints_until_it_is_resolved() -> None:
    service = Service(target_of("db.test", 80), 0.0)
    assert list(service.order(0.0)) == []
    service.resolved([A, B])
    assert sorted(service.order(0.0), key=str) == [A, B]
    service.resolved([])
    assert list(service.order(0.0)) == []


# --- evidence ---------------------------------------------------------------------------------


def test_an_endpoint_that_failed_is_last_for_a_while(service: Service) -> None:
    service.failed(A, 10.0)
    for moment in (10.0, 10.0 + SHUN - 0.001):
        assert all(service.order(moment)[-1] == A for _ in range(6))
    assert A in {first(service, 10.0 + SHUN) for _ in range(3)}


def test_silence_counts_when_it_repeats(service: Service) -> None:
    for _ in range(SILENCES - 1):
        service.silent(A, 0.0)
    assert A in {first(service) for _ in range(3)}
    service.silent(A, 0.0)
    assert all(service.order(0.0)[-1] == A for _ in range(6))


def test_an_answer_wipes_the_slate(service: Service) -> None:
    service.failed(A, 0.0)
    for _ in range(SILENCES - 1):
        service.silent(B, 0.0)
    service.answered(A)
    service.answered(B)
    service.silent(B, 0.0)
    assert {first(service) for _ in range(3)} == {A, B, C}


def test_all_shunned_are_all_still_there(service: Service) -> None:
    """Out is last, not gone."""
    for address in (A, B, C):
        service.failed(address, 0.0)
    assert sorted(service.order(0.0), key=str) == [A, B, C]


def test_an_address_that_left_the_name_and_came_back_is_new() -> None:
    service = Service(target_of("db.test", 80), 0.0)
    service.resolved([A, B])
    service.failed(A, 0.0)
    service.resolved([B])
    service.resolved([A, B])
    assert {first(service) for _ in range(4)} == {A, B}


def test_many_threads_at_once(service: Service) -> None:
    errors: list[BaseException] = []
    start = threading.Barrier(4)

    def work(address: Address) -> None:
        start.wait(PATIENCE)
        try:
            for moment in range(300):
                service.failed(address, moment)
                service.silent(address, moment)
                assert len(service.order(moment)) in (2, 3)
                service.answered(address)
                service.resolved([A, B, C] if moment % 2 else [A, B])
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


# --- budget -----------------------------------------------------------------------------------


def test_the_retry_budget_is_shared(service: Service) -> None:
    """A fifth of the requests, and three a second over ten seconds."""
    for _ in range(100):
        service.request(0.0)
    assert sum(service.take(0.0) for _ in range(100)) == 50


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
