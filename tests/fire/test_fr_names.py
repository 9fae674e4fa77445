"""Reports from the field, groups F and I: names that change, and load that should follow."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import httpx
import pytest

import outlast
from outlast.testing import SimNet
from outlast.testing.simnet.pod import Pod
from tests.fire.worlds import NAME, URL, cluster, connecting, load, pods_of, report

MAX_AGE = 60.0  # seconds, give or take a fifth; the default is 300
POLICY = outlast.Policy(max_age=MAX_AGE)


def requests_of(pods: list[Pod]) -> list[int]:
    return [pod.counts()["requests"] for pod in pods]


@pytest.mark.incident("FR-43")
def test_fr43_a_new_pod_of_a_headless_service_gets_its_share() -> None:
    """Within one maximum age, and nothing that is in flight is cut."""
    net = cluster(2, headless=True)
    orders, c = net.services[NAME], net.node("c")
    new = c.pod()
    net.at(100.0, orders.add, new)
    with connecting(net, policy=POLICY, timeout=None) as client:
        before = load(
            net, lambda: client.get(f"{URL}?delay=0.2"), until=100.0 + 1.2 * MAX_AGE, pause=2.0
        )
        counted = requests_of([*pods_of(net)[:2], new])
        after = load(net, lambda: client.get(f"{URL}?delay=0.2"), until=600.0, pause=2.0)
    assert before.errors == after.errors == []
    shares = [now - then for now, then in zip(requests_of(pods_of(net)), counted, strict=True)]
    assert min(shares) > sum(shares) / 3 * 0.6


@pytest.mark.incident("FR-44")
@pytest.mark.parametrize("answers", ["503", "nothing"])
def test_fr44_a_local_proxy_pins_a_connection_to_a_dead_pod(answers: str) -> None:
    """TCP looks perfect: another connection is tried, and from then on used."""
    connections = 0

    async def proxy(reader: Any, writer: Any) -> None:
        nonlocal connections
        connections += 1
        dead = connections == 2
        while await reader.readuntil(b"\r\n\r\n"):
            if not dead:
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            elif answers == "503":
                writer.write(b"HTTP/1.1 503 Gone\r\ncontent-length: 0\r\n\r\n")

    async def until_the_client_leaves(reader: Any, writer: Any) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            await proxy(reader, writer)

    net = cluster(1, serves=until_the_client_leaves)
    policy = outlast.Policy(first_byte=1.0)
    with connecting(net, policy=policy) as client:
        client.get(URL)
        calls = load(net, lambda: client.get(URL).raise_for_status(), until=60.0)
    assert calls.errors == []
    assert calls.slowest < 1.5
    assert calls.share_slower_than(0.5) * len(calls.took) <= 1
    assert connections <= 6


@pytest.mark.incident("FR-45")
def test_fr45_a_loop_of_connects_follows_the_name() -> None:
    """The old address drops everything; at most one attempt goes there once the flip is visible."""
    net = SimNet(seed=6)
    old, new = net.node("old"), net.node("new")
    first, second = old.pod(port=80), new.pod(port=80)
    net.dns.set("db.shop.svc", [first.host], ttl=5.0)
    net.at(10.0, old.black_hole)
    net.at(12.0, net.dns.set, "db.shop.svc", [second.host])
    seen: list[tuple[float, str]] = []

    def connect() -> None:
        with outlast.create_connection(("db.shop.svc", 80), timeout=3.0, network=net) as sock:
            seen.append((net.elapsed(), sock.getpeername()[0]))

    with net.running():
        calls = load(net, connect, until=30.0, workers=1)
        tries = load(net, connect, until=40.0, workers=1)
    assert all(isinstance(error, TimeoutError) for error in calls.errors)
    assert len(calls.errors) <= 2, "while the old answer was still cached"
    assert tries.errors == []
    late = {host for at, host in seen if at > 17.5}
    assert late == {second.host}


@pytest.mark.incident("FR-47")
def test_fr47_load_that_never_pauses_moves_with_the_name() -> None:
    """The old host stays up, and no connection ever goes idle."""
    net = SimNet(seed=8)
    first, second = net.node("old").pod(port=80), net.node("new").pod(port=80)
    net.dns.set("db.shop.svc", [first.host], ttl=5.0)
    net.at(30.0, net.dns.set, "db.shop.svc", [second.host])
    moved = 30.0 + 1.2 * MAX_AGE + 5.0
    with connecting(net, policy=POLICY) as client:

        def call() -> None:
            client.get("http://db.shop.svc/?delay=0.4")

        before = load(net, call, until=moved, pause=0.01)
        (old,) = requests_of([first])
        after = load(net, call, until=moved + 60.0, pause=0.01)
    assert before.errors == after.errors == []
    assert requests_of([first]) == [old]
    assert second.counts()["requests"] > 500
    ages = second.counts()["connections"]
    assert ages >= 4, "each of the four has moved"


@pytest.mark.incident("FR-49")
@pytest.mark.parametrize("seed", range(3))
def test_fr49_queries_are_lost(seed: int) -> None:
    """One in twenty: the address of before is dialled where the answer does not come in time, and
    the first look-up of all stays within the connect timeout."""
    net = cluster(2, seed=seed)
    net.at(1.0, net.dns.lose, 0.05)
    with connecting(net) as client:
        calls = load(net, lambda: client.get(f"{URL}?close=1"), until=30.0, pause=0.1)
        net.dns.lose(1.0)
        answer = client.get(URL)
    assert calls.errors == []
    assert calls.slowest < 0.3
    assert "an address of the one before is dialled" in str(report(answer))
    net = cluster(2, seed=seed)
    net.dns.lose(1.0)
    with connecting(net, timeout=2.0) as client:
        with pytest.raises(httpx.ConnectTimeout, match=r"after 2.00 s and 0 dials"):
            client.get(URL)


@pytest.mark.incident("FR-49")
def test_fr49_an_answer_of_five_minutes_ago_stands_in_for_nothing() -> None:
    net = cluster(2)
    with connecting(net, timeout=2.0) as client:
        client.get(f"{URL}?close=1")
        net.dns.lose(1.0)
        net.sleep(299.0)
        assert client.get(f"{URL}?close=1").status_code == 200
        net.sleep(2.0)
        with pytest.raises(httpx.ConnectTimeout, match="has not been answered"):
            client.get(f"{URL}?close=1")


@pytest.mark.incident("FR-59")
def test_fr59_one_client_uses_all_backends_of_a_virtual_address() -> None:
    """Ten backends, ten connections that live 20 s; then a rolling update that nobody notices."""
    net = cluster(10)
    orders = net.services[NAME]
    with connecting(net, policy=outlast.Policy(max_age=20.0)) as client:

        def call() -> None:
            client.get(f"{URL}?delay=2")

        calm = load(net, call, until=900.0, pause=0.01, workers=10)
        shares = requests_of(pods_of(net))
        for number, node in enumerate(net.nodes.values()):
            (pod,) = node.pods
            at = net.elapsed() + 10.0 * number
            net.at(at, orders.end, pod)
            net.at(at + 2.0, pod.stop)
            net.at(at + 5.0, orders.remove, pod)
            net.at(at + 6.0, pod.start)
            net.at(at + 7.0, orders.add, pod)
        update = load(net, call, until=1020.0, pause=0.01, workers=10)
    assert calm.errors == update.errors == []
    assert max(shares) / (sum(shares) / len(shares)) < 1.5
    assert update.slowest < 4.5, "its own two seconds, at most twice"
    used = Counter(pod.counts()["connections"] > 1 for pod in pods_of(net))
    assert used == {True: 10}


@pytest.mark.incident("FR-48")
@pytest.mark.parametrize("fault", ["silence", "SERVFAIL"])
def test_fr48_pooled_connections_outlive_their_name_server(fault: str) -> None:
    """While it answers nothing, or only errors, requests go on over the connections there are."""
    net = cluster(2)
    if fault == "silence":
        net.at(10.0, net.dns.lose, 1.0)
    else:
        net.at(10.0, net.dns.fail, fault)
    with connecting(net) as client:
        calls = load(net, lambda: client.get(URL), until=200.0)
    assert calls.errors == []
    assert calls.slowest < 0.1


def test_a_name_that_does_not_exist_is_no_servfail() -> None:
    """NXDOMAIN ends a fresh start at once; where the server fails it is asked until the end."""
    took = {}
    for fault in ("NXDOMAIN", "SERVFAIL"):
        net = cluster(1)
        net.dns.fail(fault)
        with connecting(net, timeout=3.0) as client:
            with pytest.raises((httpx.ConnectError, httpx.ConnectTimeout)):
                client.get(URL)
            took[fault] = net.elapsed()
    assert took["NXDOMAIN"] < 0.1
    assert took["SERVFAIL"] == pytest.approx(3.0, abs=0.1)
