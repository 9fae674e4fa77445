"""The lab's network does to a client what a cluster's does when nodes and pods fail."""

from __future__ import annotations

import os
import threading
from collections import Counter

import pytest

from outlast.testing import KernelLab
from tests.lab.wire import (
    GET,
    SILENCE,
    ask,
    ask_on,
    children,
    connected,
    is_silent,
    neighbours,
    outcome,
    request,
    state,
    timed_outcome,
)

# Draws enough that one of two pods is missed once in 10^9 runs.
DRAWS = 32


def test_a_service_draws_a_pod_for_each_connection(lab: KernelLab) -> None:
    nodes = [lab.node(name) for name in "abc"]
    orders = lab.service("orders.shop.svc:80", pods=[node.pod() for node in nodes])
    with lab.running():
        drawn = Counter(ask(orders.address)["pod"] for _ in range(2 * DRAWS))
        with connected(orders.address) as sock:
            kept = {ask_on(sock)["pod"] for _ in range(DRAWS)}
    assert set(drawn) == {"a-1", "b-1", "c-1"}
    assert len(kept) == 1
    assert {pod.name: pod.counts()["requests"] for n in nodes for pod in n.pods} == drawn + Counter(
        {next(iter(kept)): DRAWS}
    )


def test_addresses(lab: KernelLab) -> None:
    a = lab.node("a")
    pods = [a.pod(), a.pod(port=9000, name="second")]
    orders = lab.service("orders.shop.svc:80", pods=pods)
    assert [pod.address for pod in pods] == ["10.244.1.2:8080", "10.244.1.3:9000"]
    assert [pod.name for pod in a.pods] == ["a-1", "second"]
    assert orders.url == f"http://{orders.address}" == f"http://{orders.host}:80"
    with lab.running():
        assert {ask(pod.address)["pod"] for pod in pods} == {"a-1", "second"}
        assert {ask(orders.address)["pod"] for _ in range(DRAWS)} == {"a-1", "second"}


def test_power_off_is_silence(lab: KernelLab) -> None:
    a, b = lab.node("a"), lab.node("b")
    orders = lab.service("orders.shop.svc:8080", pods=[a.pod(), b.pod()])
    with lab.running(), connected(a.pods[0].address) as before:
        ask_on(before)
        a.power_off()
        assert outcome(a.pods[0].address) == "silent"
        before.sendall(GET)
        assert is_silent(before)
        assert outcome(b.pods[0].address) == "connected"
        assert {outcome(orders.address, 0.1) for _ in range(DRAWS)} == {"silent", "connected"}


def test_a_node_that_is_off_says_no_farewell(lab: KernelLab) -> None:
    a = lab.node("a")
    pod = a.pod()
    with lab.running(), connected(pod.address) as sock:
        ask_on(sock)
        a.power_off()
        pod.kill()  # its kernel closes the connection, and nobody may hear of it
        assert is_silent(sock)
    assert pod.counts()["requests"] == 1


def test_power_on_is_a_reboot(lab: KernelLab) -> None:
    a = lab.node("a")
    pod = a.pod()
    with lab.running(), connected(pod.address) as sock:
        ask_on(sock)
        a.power_off()
        a.power_on()
        assert is_silent(sock)  # the node does not know the connection, so it cannot end it
        sock.sendall(GET)
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
        assert ask(pod.address) == {"pod": "a-1", "n": 1}
    assert pod.counts()["requests"] == 2
    a.power_on()
    assert a.on


def test_black_hole_answers_arp_and_nothing_else(lab: KernelLab) -> None:
    a, b = lab.node("a"), lab.node("b")
    holes = [a.pod(), b.pod()]
    a.black_hole()
    b.power_off()
    with lab.running():
        assert [outcome(pod.address) for pod in holes] == ["silent", "silent"]
        assert neighbours() == {holes[0].host: True, holes[1].host: False}


@pytest.mark.parametrize("fault", ["black_hole", "unplug"])
def test_a_healed_node_goes_on_where_it_was(lab: KernelLab, fault: str) -> None:
    a = lab.node("a")
    pod = a.pod()
    with lab.running(), connected(pod.address) as sock:
        ask_on(sock)
        sock.sendall(GET.replace(b"/", b"/?delay=%f" % (SILENCE / 2), 1))
        getattr(a, fault)()
        assert is_silent(sock)  # the answer does not get out,
        sock.sendall(GET)
        assert is_silent(sock)  # nor the next request in
        assert pod.counts()["requests"] == 2
        a.heal()
        assert ask_on(sock)["n"] == 2
        assert pod.counts()["connections"] == 1


def test_a_service_without_endpoints_refuses_at_once(lab: KernelLab) -> None:
    a = lab.node("a")
    orders = lab.service("orders.shop.svc:8080")
    with lab.running():
        ends = [timed_outcome(orders.address, 5.0) for _ in range(DRAWS)]
        orders.add(a.pod())
        assert outcome(orders.address) == "connected"
        orders.remove(a)
        assert outcome(orders.address) == "ECONNREFUSED"
    assert {end for end, _ in ends} == {"ECONNREFUSED"}
    assert max(seconds for _, seconds in ends) < 0.5


def test_removal_is_for_new_connections(lab: KernelLab) -> None:
    a, b = lab.node("a"), lab.node("b")
    orders = lab.service("orders.shop.svc:8080", pods=[a.pod()])
    with lab.running(), connected(orders.address) as sock:
        assert ask_on(sock)["pod"] == "a-1"
        orders.add(b.pod())
        orders.remove(a)
        assert ask_on(sock)["pod"] == "a-1"
        assert {ask(orders.address)["pod"] for _ in range(DRAWS)} == {"b-1"}
        orders.add(a)
        assert {ask(orders.address)["pod"] for _ in range(DRAWS)} == {"a-1", "b-1"}
    orders.remove(a)
    orders.remove(a)
    assert orders.pods == b.pods


def test_services_do_not_mix(lab: KernelLab) -> None:
    a, b = lab.node("a"), lab.node("b")
    both, one = [a.pod(), b.pod()], b.pod(name="b-2")
    orders = lab.service("orders.shop.svc:80", pods=both)
    bills = lab.service("bills.shop.svc:80", pods=[one, both[1]])
    with lab.running():
        assert {ask(bills.address)["pod"] for _ in range(DRAWS)} == {"b-1", "b-2"}
        bills.remove(b)
        assert outcome(bills.address) == "ECONNREFUSED"
        assert {ask(orders.address)["pod"] for _ in range(DRAWS)} == {"a-1", "b-1"}
        assert outcome(f"{orders.host}:81") == "silent"  # no such port of the Service


def test_a_killed_pod_refuses_until_started(lab: KernelLab) -> None:
    pod = lab.node("a").pod()
    with lab.running(), connected(pod.address) as sock:
        ask_on(sock)
        sock.sendall(GET.replace(b"/", b"/?delay=60", 1))
        assert is_silent(sock)
        pod.kill()
        assert sock.recv(1) == b""
        assert (outcome(pod.address), pod.running) == ("ECONNREFUSED", False)
        pod.start()
        assert ask(pod.address) == {"pod": "a-1", "n": 1}
    assert pod.counts()["methods"] == {"GET": 3}


def test_a_frozen_pod_accepts_and_is_mute(lab: KernelLab) -> None:
    pod = lab.node("a").pod()
    with lab.running():
        ask(pod.address)
        pod.freeze()
        with connected(pod.address) as sock:
            sock.sendall(GET)
            assert is_silent(sock)
            assert pod.counts()["requests"] == 1
            pod.thaw()
            assert sock.recv(65536).endswith(b'{"pod": "a-1", "n": 2}')
    (pid,) = children(os.getpid())
    for _ in range(50):
        pod.freeze()
        assert state(pid) == "T"  # else a thaw right after it could be lost
        pod.thaw()
    assert pod.counts()["requests"] == 2
    pod.freeze()
    pod.kill()
    assert pod.counts()["requests"] == 2


def test_silent_and_unrouted_addresses(lab: KernelLab) -> None:
    silent = [lab.silent_address(), lab.silent_address(port=5432)]
    unrouted = [lab.unrouted_address(), lab.unrouted_address()]
    assert len({*silent, *unrouted}) == 4
    with lab.running():
        assert [outcome(address) for address in silent] == ["silent", "silent"]
        assert all(neighbours().values())
        end, seconds = timed_outcome(unrouted[0], 10.0)
    assert end == "EHOSTUNREACH"
    assert 2.5 < seconds < 5.0  # three ARP requests, 1 s apart; 3.05 s measured


def test_running_is_for_this_thread_and_its_children(lab: KernelLab) -> None:
    def here() -> int:
        return os.stat("/proc/thread-self/ns/net").st_ino

    def elsewhere() -> None:
        started.wait(10)
        seen["older"] = here()

    seen: dict[str, int] = {}
    started = threading.Event()
    older = threading.Thread(target=elsewhere)
    older.start()
    outside = here()
    with lab.running():
        inside = here()
        started.set()
        child = threading.Thread(target=lambda: seen.update(child=here()))
        child.start()
        child.join(10)
    older.join(10)
    assert (here(), seen) == (outside, {"older": outside, "child": inside})
    assert inside != outside


def test_the_client_can_lose_its_own_network(lab: KernelLab) -> None:
    pod = lab.node("a").pod()
    with lab.running():
        lab.client.unplug()
        assert outcome(pod.address) == "silent"
        lab.client.heal()
        assert outcome(pod.address, 5.0) == "connected"
    with pytest.raises(RuntimeError, match="unplug"):
        lab.client.power_off()


def test_two_labs_side_by_side(lab: KernelLab) -> None:
    with KernelLab() as other:
        pods = [lab.node("a").pod(name="mine"), other.node("a").pod(name="theirs")]
        assert pods[0].address == pods[1].address
        with lab.running():
            assert ask(pods[0].address)["pod"] == "mine"
            with other.running():
                assert ask(pods[1].address)["pod"] == "theirs"
                lab.node("b")
            assert ask(pods[0].address)["pod"] == "mine"


def test_a_slow_link(lab: KernelLab) -> None:
    a, b = lab.node("a"), lab.node("b")
    pod, other = a.pod(), b.pod()
    with lab.running(), connected(pod.address) as sock:
        ask_on(sock)
        a.delay(0.2)
        assert ask_on(sock)["n"] == 2
        end, seconds = timed_outcome(pod.address, 5.0)
        assert (end, 0.2 <= seconds < 0.5) == ("connected", True)
        assert timed_outcome(other.address, 5.0)[1] < 0.1
        status, _, body = request(pod.address, "PUT", "/?size=300000", b"x" * 300_000)
        assert (status, len(body)) == (200, 300_000)
        a.delay(0)
        assert timed_outcome(pod.address, 5.0)[1] < 0.1
        a.delay(0.2)
        a.power_off()
        assert is_silent(sock)
        a.power_on()  # a reboot ends it
        assert timed_outcome(pod.address, 5.0)[1] < 0.1
    for seconds in (-1, 61, float("nan")):
        with pytest.raises(ValueError, match=r"right: node\.delay"):
            a.delay(seconds)


def test_a_fault_on_the_way_is_no_matter_of_size(lab: KernelLab) -> None:
    pod = lab.node("a").pod()
    with lab.running():
        status, _, body = request(pod.address, "GET", "/?size=3000000")
        assert (status, len(body)) == (200, 3_000_000)
        assert request(pod.address, "PUT", "/", b"y" * 3_000_000)[2].endswith(b'"length": 3000000}')


def test_silence_is_longer_than_a_round_trip(lab: KernelLab) -> None:
    """What the tests above take for silence would have been an answer many times over."""
    pod = lab.node("a").pod()
    with lab.running():
        trips = [timed_outcome(pod.address, 5.0)[1] for _ in range(50)]
    assert sorted(trips)[25] < SILENCE / 30
