"""Our own link is down: what times out or stays unanswered meanwhile is held against nobody."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

import outlast
from outlast.core.health import Standing
from outlast.service.table import service_of
from outlast.target import target_of
from outlast.testing import Request, Response, SimNet
from tests.fire.worlds import NAME, URL, cluster, pods_of, report


def marked(net: SimNet) -> list[Any]:
    """What is held against the target's endpoints."""
    host, _, port = NAME.partition(":")
    service = service_of(target_of(host, int(port)), net)
    out = service.look(lambda roster: [e for e in roster if e.health.standing is not Standing.IN])
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
