"""Reports from the field, groups I and N: who gets how much, and which node is asked at all."""

from __future__ import annotations

from collections import Counter

import httpx
import pytest

import outlast
from outlast.events import CallFinished
from outlast.net.address import Address
from outlast.net.options import SocketPlan
from outlast.net.seam import Stream
from outlast.testing import NodePort, SimNet
from outlast.testing.simnet.net import SimNode
from tests.fire.worlds import NAME, URL, cluster, connecting, load, pods_of

PORT = 30080
HEALTH_PORT = 31234


def ok(client: httpx.Client, url: str = URL) -> None:
    assert client.get(url).status_code == 200


def skew(counts: list[int]) -> float:
    """The most that one has had, by the mean."""
    return max(counts) / (sum(counts) / len(counts))


@pytest.mark.incident("FR-60")
def test_fr60_the_skew_is_reported_and_small_where_endpoints_are_visible() -> None:
    """Four workers. Behind a VIP they have four connections, and so four pods of ten at a time; a
    list of the pods is shared out call by call. Events say who has answered."""
    skews: dict[str, float] = {}
    for kind in ("vip", "static"):
        net = cluster(10)
        pods = pods_of(net)
        listed = "static://" + ",".join(pod.address for pod in pods)
        targets = {URL: listed} if kind == "static" else {}
        finished: list[CallFinished] = []
        with outlast.subscribe(finished.append, CallFinished):
            with connecting(net, targets=targets) as client:
                calls = load(net, lambda: ok(client), until=30.0, pause=0.1)
        said = Counter(event.address for event in finished)
        assert calls.errors == []
        served = [pod.counts()["requests"] for pod in pods]
        skews[kind] = skew(served)
        if kind == "static":
            assert sorted(said.values()) == sorted(served), "what events say is what was served"
        else:
            assert len(said) == 1, "who stands behind a VIP cannot be seen"
    assert skews["static"] < 1.3
    assert skews["vip"] > 2.0, "as the report says: bound by the number of connections"


def nodes_with_ports(net: SimNet, count: int) -> tuple[list[SimNode], str]:
    """Nodes that all lead to the same Service, and the target that lists them."""
    nodes = [net.node(f"n{number}") for number in range(count)]
    pods = [net.node(f"pods{number}").pod() for number in range(2)]
    net.service(NAME, pods=pods, node_port=NodePort(PORT))
    return nodes, "static://" + ",".join(f"{node.host}:{PORT}" for node in nodes)


@pytest.mark.incident("FR-76")
@pytest.mark.parametrize("other", ["refuses", "says 503"])
def test_fr76_a_missing_health_port_does_not_disable_a_node(other: str) -> None:
    """Of two nodes only one has a health port that is well. It comes first, and when it has lost
    power the other serves: a check says who is last, not who is gone."""
    net = SimNet(seed=4)
    first, second = net.node("first"), net.node("second")
    orders = net.service(NAME, pods=[first.pod(), net.node("c").pod()], node_port=NodePort(PORT))
    first.serve_health(orders, HEALTH_PORT)
    if other == "says 503":  # it has no pod of its own, and leads to those of others
        second.serve_health(orders, HEALTH_PORT)
    check = outlast.HttpCheck("/healthz", port=HEALTH_PORT)
    target = outlast.Target(f"static://{first.host}:{PORT},{second.host}:{PORT}", check=check)
    net.at(20.0, first.power_off)
    with connecting(net, targets={URL: target}) as client:
        calls = load(net, lambda: ok(client, f"{URL}?close=1"), until=40.0)
    assert calls.errors == []
    assert calls.slowest < 0.6


@pytest.mark.incident("FR-77")
@pytest.mark.parametrize("check", [None, outlast.TcpCheck()])
def test_fr77_one_silent_node_of_seven_is_avoided(check: outlast.TcpCheck | None) -> None:
    """Its first silence is its last: it is tried again once in a while, by a trial that costs
    nobody an error or by a check, and used when it is back."""
    net = SimNet(seed=5)
    nodes, listed = nodes_with_ports(net, 7)
    dead = nodes[3]
    dials: list[float] = []
    dial = net.dial

    def counted(address: Address, plan: SocketPlan) -> Stream:
        if address.host == dead.host:
            dials.append(net.elapsed())
        return dial(address, plan)

    net.dial = counted  # type: ignore[method-assign]  # of this one network
    net.at(5.0, dead.power_off)
    net.at(65.0, dead.power_on)
    with connecting(net, timeout=2.0, targets={URL: outlast.Target(listed, check=check)}) as client:
        calls = load(net, lambda: ok(client, f"{URL}?close=1"), until=150.0, pause=0.5)
    assert calls.errors == []
    assert calls.slowest < 0.5
    assert calls.share_slower_than(0.1) < 0.01
    while_dead = [at for at in dials if 8.0 <= at < 65.0]
    assert len(while_dead) < (160 if check else 12), "two checks a second, or a trial at times"
    assert len([at for at in dials if at > 135.0]) > 10, "it is used again"
