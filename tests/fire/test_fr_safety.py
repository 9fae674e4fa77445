"""Reports from the field, groups G and H: what may be repeated, what must not."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest

from outlast import Policy
from outlast.testing import Request, SimNet
from tests.fire.servers import keeping
from tests.fire.worlds import URL, cluster, connecting, pods_of, report

FAULTS = ("kill", "reset", "power_off", "black_hole", "unplug", "freeze")
METHODS = ("GET", "PUT", "DELETE", "POST", "PATCH")


def ask(client: httpx.Client, method: str, name: str, **more: Any) -> httpx.Response:
    return client.request(method, URL, headers={"x-request-id": name}, **more)


@pytest.mark.incident("FR-51")
@pytest.mark.parametrize("death", ["before", "after"])
def test_fr51_closed_before_or_after_it_was_carried_out(death: str) -> None:
    """The two look the same to the client: a POST over a reused connection is sent once."""
    seen: Counter[str] = Counter()
    dies = lambda name: death if name == "order" else ""  # noqa: E731
    net = cluster(1, serves=keeping(seen, dies=dies))
    with connecting(net) as client:
        ask(client, "GET", "first")
        with pytest.raises(httpx.RemoteProtocolError) as caught:
            ask(client, "POST", "order", content=b"one")
        assert ask(client, "GET", "next").status_code == 200
    assert seen["order"] == (death == "after")
    assert "not idempotent and maybe sent" in str(report(caught.value))


@pytest.mark.incident("FR-51")
@pytest.mark.parametrize("evidence", ["fin", "reset"])
def test_fr51_what_is_known_before_it_is_sent_costs_nothing(evidence: str) -> None:
    """The close has been seen at checkout: another connection carries the POST."""
    seen: Counter[str] = Counter()
    net = cluster(1, serves=keeping(seen))
    (pod,) = pods_of(net)
    with connecting(net) as client:
        ask(client, "GET", "first")
        (pod.kill if evidence == "fin" else pod.reset)()
        pod.start()
        net.sleep(0.01)
        assert ask(client, "POST", "order", content=b"one").text == "order"
    assert seen["order"] == 1


@pytest.mark.incident("FR-52")
@pytest.mark.parametrize("fault", ["kill", "reset", "power_off", "black_hole", "unplug"])
@pytest.mark.parametrize("reused", [False, True])
def test_fr52_the_server_dies_right_after_the_commit(fault: str, reused: bool) -> None:
    commits: list[str] = []
    net: SimNet

    def commit(request: Request) -> str:
        commits.append(request.headers["x-request-id"])
        if commits[-1] == "order":
            node = next(n for n in net.nodes.values() if n.kernel.connections)
            strike = getattr(node.pods[0], fault, None) or getattr(node, fault)
            strike()
        return "done"

    net = cluster(2, serves=commit)
    with connecting(net, timeout=30.0) as client:
        if reused:
            ask(client, "GET", "first")
        with pytest.raises(httpx.TransportError):
            ask(client, "POST", "order")
        assert net.elapsed() < 13.0
        assert ask(client, "GET", "next").text == "done"
    assert commits.count("order") == 1


@pytest.mark.incident("FR-53")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("method", METHODS)
def test_fr53_without_retries_it_is_written_once(method: str, fault: str) -> None:
    """Whatever befalls the pod right after: one request, for the transport or for the call."""
    net: SimNet

    def strike(request: Request) -> str:
        if request.headers["x-request-id"] == "once":
            node = next(n for n in net.nodes.values() if n.name == request.path.strip("/"))
            act = getattr(node.pods[0], fault, None) or getattr(node, fault)
            act()
        return "done"

    net = cluster(2, serves=strike)
    once = {"outlast": {"attempts": 1}}
    with connecting(net, timeout=2.0) as client:
        ask(client, "GET", "first")
        serving = next(n for n in net.nodes.values() if n.kernel.connections)
        url = f"{URL}{serving.name}"
        headers = {"x-request-id": "once"}
        try:
            answer = client.request(method, url, headers=headers, extensions=once)
            assert answer.status_code == 200  # the answer had left before the process ended
        except httpx.TransportError:
            pass
    arrived = sum(pod.counts()["ids"].get("once", 0) for pod in pods_of(net))
    assert arrived == 1


@pytest.mark.incident("FR-58")
@pytest.mark.parametrize("within", ["a body", "its repeats", "a dial"])
def test_fr58_a_deadline_ends_it_on_time(within: str) -> None:
    """A byte a second, each read within its timeout; answers that are repeated, each in its time;
    or nobody there: two seconds are two seconds."""

    async def trickle(reader: Any, writer: Any) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            if within == "its repeats":
                await asyncio.sleep(0.9)
                writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n")
                continue
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 60\r\n\r\n")
            for _ in range(60):
                writer.write(b"x")
                await asyncio.sleep(1.0)

    net = cluster(1, serves=trickle)
    if within == "a dial":
        net.nodes["a"].power_off()
    with connecting(net, timeout=30.0, policy=Policy(deadline=2.0, attempts=9)) as client:
        if within == "its repeats":
            assert ask(client, "GET", "one").status_code == 503
        else:
            with pytest.raises((httpx.ReadTimeout, httpx.ConnectTimeout)):
                ask(client, "GET", "one")
        assert net.elapsed() <= 2.001
