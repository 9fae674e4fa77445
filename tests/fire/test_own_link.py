"""Our own link is down: what times out or stays unanswered meanwhile is held against nobody."""

from __future__ import annotations

import errno
from typing import Any

import httpx
import pytest

import outlast
from outlast.service.table import service_of
from outlast.target import target_of
from outlast.testing import Request, Response, SimNet
from tests.fire.worlds import NAME, URL, cluster, pods_of, report


def marked(net: SimNet, where: tuple[str, int] | None = None) -> list[Any]:
    """What is held against the endpoints of a target, the cluster's if no other is given."""
    host, _, port = NAME.partition(":")
    service = service_of(target_of(*(where or (host, int(port)))), net)
    out = service.look(lambda roster: [e for e in roster if not e.health._clean])
    return [endpoint.key for endpoint in out]


def drip(_: Request) -> Response:
    return Response(b"." * 100, drip=0.2)


@pytest.mark.parametrize("cut", [True, False])
def test_a_probe_before_a_post(cut: bool) -> None:
    """It is not answered, so that the connection is not trusted; and that is all. The control: a
    peer that is cut off itself is suspect."""
    net, found = cluster(1), list[Any]()
    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        client.get(URL)
        net.sleep(3.0)
        struck = net.client if cut else net.nodes["a"]
        struck.unplug()
        net.at(3.5, lambda: found.extend(marked(net)))
        net.at(4.0, struck.heal)
        answer = client.post(URL)
        assert answer.status_code == 200
    assert report(answer).events[0].what == "not trusted with a request that is sent but once"
    assert bool(found) is not cut
    assert pods_of(net)[0].counts()["methods"]["POST"] == 1


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("cut", [True, False])
def test_a_read_timeout(cut: bool, begun: bool) -> None:
    """Before an answer, and in the middle of one; the error says whose link it was."""
    net = cluster(1, serves=drip if begun else None)
    struck = net.client if cut else net.nodes["a"]
    net.at(2.0, struck.unplug)
    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        with pytest.raises(httpx.ReadTimeout) as caught:
            client.request("GET" if begun else "POST", f"{URL}?delay=9", timeout=3.0)
    assert bool(marked(net)) is not cut
    assert ("own link is down" in str(caught.value)) is cut


def test_a_write_timeout() -> None:
    net = cluster(1)
    pods_of(net)[0].freeze()
    net.at(0.5, net.client.unplug)
    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        with pytest.raises(httpx.WriteTimeout, match="own link is down"):
            client.post(URL, content=bytes(20_000_000), timeout=3.0)
        pods_of(net)[0].thaw()
    assert marked(net) == []


@pytest.mark.parametrize("cut", [True, False])
def test_what_the_kernel_gives_up(cut: bool) -> None:
    """After eleven seconds, without any timeout of the caller's."""
    net = cluster(1)
    struck = net.client if cut else net.nodes["a"]
    net.at(2.0, struck.unplug)
    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        with pytest.raises(httpx.ReadError) as caught:
            client.post(f"{URL}?delay=60", timeout=None)
        assert net.elapsed() < 14.0
    assert bool(marked(net)) is not cut
    assert ("own link is down" in str(caught.value)) is cut


@pytest.mark.parametrize("cut", [True, False])
def test_a_dial_that_ends_in_no_route_to_host(cut: bool) -> None:
    """It ends so by the link's own word, after three seconds. The control: the peer is cut off."""
    net = cluster(1)
    pod = pods_of(net)[0]
    with net.running():
        (net.client if cut else pod.node).unplug()
        with pytest.raises(OSError) as caught:
            outlast.create_connection(pod.endpoint, 4.5, network=net)
        held = marked(net, pod.endpoint)
    report = outlast.report_of(caught.value)
    assert report is not None
    assert errno.EHOSTUNREACH in {dial.errno for dial in report.of_phase("connect")}
    assert bool(held) is not cut
