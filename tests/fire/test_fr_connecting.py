"""Reports from the field, groups A, B, J and N: connections that are hard to get."""

from __future__ import annotations

import itertools

import httpx
import pytest

import outlast
from outlast.testing import NodePort, Request, Response, SimNet
from tests.fire.worlds import NAME, URL, cluster, connecting, load, pods_of, report, serving

SEEDS = range(3)
NODE_PORT = 30080


def ok(client: httpx.Client, url: str = URL) -> None:
    assert client.get(url).status_code == 200


@pytest.mark.incident("FR-01")
@pytest.mark.parametrize("seed", SEEDS)
def test_fr01_new_connections_outlive_the_node(seed: int) -> None:
    """A new connection for each call, from before the outage to well past the drop at 43 s."""
    net = cluster(3, seed=seed)
    net.control_plane(lag=40.0)
    net.at(3.0, net.nodes["a"].power_off)
    with connecting(net) as client:
        calls = load(net, lambda: ok(client, f"{URL}?close=1"), until=60.0, pause=0.25)
    assert calls.errors == []
    assert len(calls.took) > 800
    assert calls.slowest < 0.5
    assert f"{NAME}: remove a-1" in [what for _, what in net.log]


@pytest.mark.incident("FR-02")
@pytest.mark.parametrize("seed", SEEDS)
def test_fr02_one_of_three_endpoints_is_silent(seed: int) -> None:
    net = cluster(3, seed=seed)
    host, _, port = NAME.partition(":")
    net.at(1.0, net.nodes["b"].black_hole)
    net.at(41.0, net.nodes["b"].heal)

    def connect() -> None:
        outlast.create_connection((host, int(port)), timeout=5.0, network=net).close()

    with net.running():
        calls = load(net, connect, until=45.0, pause=0.2)
    assert calls.errors == []
    assert calls.share_slower_than(0.1) < 0.01
    assert calls.slowest < 0.5


@pytest.mark.incident("FR-13")
@pytest.mark.incident("FR-19")
@pytest.mark.parametrize("known_at_once", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_fr13_fr19_pooled_connections_outlive_the_node(seed: int, known_at_once: bool) -> None:
    """The old flow is a hole, whether the endpoint has left already or not. Nobody but the client
    can cut it: its tracking entry lives on."""
    net = cluster(2, seed=seed)
    orders = net.services[NAME]
    with connecting(net) as client:
        client.get(URL)
        dead = serving(net, client)
        net.sleep(5.0)
        dead.power_off()
        if known_at_once:
            orders.remove(dead)
        calls = load(net, lambda: ok(client), until=20.0)
        assert calls.errors == []
        assert calls.slowest < 0.5
        alive = {conn.remote for conn in net.client.kernel.connections.values()}
        entries = net.client.kernel.translation
        assert entries is not None
        gone = [conn for conn in net.client.kernel.connections.values() if not conn.orphan]
        assert alive == {(orders.host, orders.port)}
        ways = {entries.destination(conn.local, conn.remote) for conn in gone}
        assert dead.pods[0].endpoint not in ways, "no connection leads to the dead pod any more"


@pytest.mark.incident("FR-13")
def test_fr13_through_a_node_port() -> None:
    """The pod has moved; the node in the middle still sends the old flow to where it was."""
    net = SimNet(seed=1)
    front, old, new = net.node("front"), net.node("old"), net.node("new")
    pod = old.pod()
    orders = net.service(NAME, pods=[pod], node_port=NodePort(NODE_PORT))
    url = f"http://{front.host}:{NODE_PORT}/"
    with connecting(net) as client:
        assert client.get(url).json()["pod"] == pod.name
        old.power_off()
        orders.remove(pod)
        orders.add(new.pod())
        begun = net.elapsed()
        assert client.get(url).json()["pod"] == "new-1"
        assert net.elapsed() - begun < 0.5


@pytest.mark.incident("FR-74")
@pytest.mark.parametrize("mute", [False, True])
def test_fr74_the_last_local_pod_of_a_node_ends(mute: bool) -> None:
    """A balancer that still sends there is not needed: a redial lands on another node at once.

    A node that accepts and lets hang instead costs the caller's read timeout once.
    """
    net = SimNet(seed=2)
    nodes = [net.node(name) for name in "abc"]
    pods = [node.pod() for node in nodes]
    outside = NodePort(NODE_PORT, local=True, mute=mute)
    router = net.service("router.ingress.svc:80", pods=pods, node_port=outside)
    listed = ",".join(f"{node.host}:{NODE_PORT}" for node in nodes)
    net.at(3.0, pods[0].stop)
    net.at(3.0, router.remove, pods[0])
    with connecting(net, timeout=2.0, targets={URL: f"static://{listed}"}) as client:
        calls = load(net, lambda: ok(client, f"{URL}?close=1"), until=20.0, workers=1)
    assert len(calls.errors) <= (4 if mute else 0), "it is tried again every 5 s"
    if not mute:
        assert calls.slowest < 0.5


@pytest.mark.incident("FR-75")
def test_fr75_a_dial_is_the_proof() -> None:
    """Of three nodes one has a pod, one drops, one refuses."""
    net = SimNet(seed=3)
    a, b, c = (net.node(name) for name in "abc")
    net.service("router.ingress.svc:80", pods=[a.pod()], node_port=NodePort(NODE_PORT, local=True))
    c.unreachable(111)  # ECONNREFUSED
    listed = ",".join(f"{node.host}:{NODE_PORT}" for node in (a, b, c))
    with connecting(net, timeout=2.0, targets={URL: f"static://{listed}"}) as client:
        calls = load(net, lambda: ok(client, f"{URL}?close=1"), until=20.0, pause=0.2)
        assert calls.errors == []
        assert calls.slowest < 0.5
        answer = client.get(URL)
    assert answer.json()["pod"] == "a-1"
    assert report(answer).events[-1].address == f"{a.host}:{NODE_PORT}"
    assert pods_of(net)[0].counts()["requests"] > 100


@pytest.mark.incident("FR-78")
def test_fr78_a_proxy_in_front_whose_backend_has_lost_power() -> None:
    """It answers 502, 503 or 504 every other time, late: the next try is another's turn."""
    turns = itertools.count()

    def proxy(request: Request) -> Response:
        turn = next(turns)
        if net.elapsed() < 3.0 or turn % 2:
            return Response("ok")
        return Response(status=502 + turn // 2 % 3, delay=0.2)

    net = cluster(1, serves=proxy)
    with connecting(net) as client:
        calls = load(net, lambda: client.get(URL).raise_for_status(), until=40.0, workers=2)
    assert calls.errors == []
    assert calls.slowest < 1.0
