"""Requests in flight, and idle connections, when a machine behind a VIP dies: in virtual time.

Seconds are counted from the loss. The same states on the kernel: tests/lab/test_liveness_http.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest

import outlast
from outlast.testing import Request, Response, SimNet
from outlast.testing.simnet.net import SimNode
from outlast.testing.simnet.service import Service
from tests.http.callers import report_of, words


class Shop:
    """Two nodes behind a VIP, and a client of it with no read timeout at all."""

    def __init__(self, seed: int = 0, handler: Any = None) -> None:
        self.net = SimNet(seed=seed)
        self.nodes: list[SimNode] = [self.net.node("a"), self.net.node("b")]
        self.pods = [node.pod(handler) if handler else node.pod() for node in self.nodes]
        self.service: Service = self.net.service("orders.shop.svc:8080", pods=self.pods)
        self.url = "http://orders.shop.svc:8080/"

    @contextlib.contextmanager
    def client(self, **more: Any) -> Iterator[httpx.Client]:
        limits = httpx.Limits(max_keepalive_connections=100)
        transport = outlast.Transport(network=self.net, limits=limits, **more)
        with self.net.running(), httpx.Client(transport=transport, timeout=None) as client:
            yield client

    def serving(self, client: httpx.Client) -> SimNode:
        """Whose pod answers on the one connection that there is."""
        return next(n for n in self.nodes if n.pods[0].name == client.get(self.url).json()["pod"])

    @property
    def connections(self) -> int:
        return sum(pod.counts()["connections"] for pod in self.pods)

    @property
    def requests(self) -> int:
        return sum(pod.counts()["requests"] for pod in self.pods)


# -- in flight -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_request_that_was_never_acknowledged_is_answered_elsewhere(seed: int) -> None:
    shop = Shop(seed)
    with shop.client() as client:
        shop.serving(client).power_off()
        began = shop.net.elapsed()
        assert client.get(shop.url).status_code == 200
        assert shop.net.elapsed() - began < 1.0


@pytest.mark.parametrize("seed", range(3))
def test_a_request_that_was_acknowledged_is_answered_elsewhere(seed: int) -> None:
    """Its own ten seconds included: noticed within 4.5 s after the loss, by keepalive probes."""
    shop = Shop(seed)
    with shop.client() as client:
        dead = shop.serving(client)
        shop.net.at(shop.net.elapsed() + 2.0, dead.power_off)
        began = shop.net.elapsed()
        response = client.get(shop.url + "?delay=10")
        assert response.status_code == 200
        assert shop.net.elapsed() - began < 2.0 + 4.5 + 10.0
    assert "suspect: 2 keepalive probes without an answer: repeated" in words(response)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_slow_answer_is_left_alone(method: str) -> None:
    shop = Shop()
    with shop.client() as client:
        assert client.request(method, shop.url + "?delay=3600").status_code == 200
        assert shop.net.elapsed() > 3600
    assert shop.connections == 1
    assert shop.requests == 1


@pytest.mark.parametrize(
    ("delay", "told"),
    [(0.0, "never acknowledged by the peer's kernel"), (20.0, "acknowledged by the peer's kernel")],
)
def test_a_post_in_flight_is_told_how_far_it_got(delay: float, told: str) -> None:
    """Never sent twice, and within 12 s of evidence there is an error that states the outcome."""
    shop = Shop()
    with shop.client() as client:
        dead = shop.serving(client)
        loss = shop.net.elapsed() + delay / 4
        shop.net.at(loss, dead.power_off)
        if not delay:
            shop.net.sleep(0.001)
        with pytest.raises(httpx.ReadError, match=told) as caught:
            client.post(f"{shop.url}?delay={delay:g}")
        assert shop.net.elapsed() - loss < 12.5
    assert report_of(caught.value).events[-1].progress is not None
    assert sum(pod.counts()["methods"].get("POST", 0) for pod in shop.pods) == bool(delay)


@pytest.mark.parametrize("seed", range(2))
def test_a_post_that_was_never_acknowledged_is_repeated_by_the_policys_word(seed: int) -> None:
    """After three repeats of the kernel's, two seconds; the first is aborted before."""
    shop = Shop(seed)
    with shop.client(policy=outlast.Policy(repeat_unacknowledged=True)) as client:
        shop.serving(client).power_off()
        began = shop.net.elapsed()
        response = client.post(shop.url)
        assert response.status_code == 200
        assert shop.net.elapsed() - began < 3.0
    assert "never acknowledged, and the policy repeats such" in " ".join(words(response))
    assert sum(pod.counts()["methods"].get("POST", 0) for pod in shop.pods) == 1


def test_a_post_that_was_acknowledged_is_never_repeated() -> None:
    shop = Shop()
    with shop.client(policy=outlast.Policy(repeat_unacknowledged=True)) as client:
        dead = shop.serving(client)
        shop.net.at(shop.net.elapsed() + 1.0, dead.power_off)
        with pytest.raises(httpx.ReadError, match="acknowledged by the peer's kernel"):
            client.post(shop.url + "?delay=20")
    assert sum(pod.counts()["methods"].get("POST", 0) for pod in shop.pods) == 1


def test_a_body_that_stops_is_no_body() -> None:
    """In the middle of a response the machine dies: the kernel ends it, with keepalive hurried."""

    def drip(_: Request) -> Response:
        return Response(b"x" * 1000, drip=0.1)

    shop = Shop(handler=drip)
    with shop.client() as client:
        for node in shop.nodes:
            shop.net.at(5.0, node.power_off)
        with pytest.raises(httpx.ReadError, match=r"timed out; body under way: never repeated"):
            client.get(shop.url)
        assert shop.net.elapsed() - 5.0 < 12.0
    assert shop.requests == 1


def test_a_body_that_pauses_goes_on() -> None:
    def drip(_: Request) -> Response:
        return Response(b"x" * 20, drip=60.0)

    shop = Shop(handler=drip)
    with shop.client() as client:
        assert len(client.get(shop.url).content) == 20
    assert shop.connections == 1


# -- idle ----------------------------------------------------------------------------------


def many(net: SimNet, client: httpx.Client, url: str, count: int) -> float:
    """So many GETs, each on a connection of its own: none is free while its answer is unread. The
    seconds of the slowest."""
    answers, slowest = [], 0.0
    for _ in range(count):
        began = net.elapsed()
        answers.append(client.send(client.build_request("GET", url), stream=True))
        slowest = max(slowest, net.elapsed() - began)
    for answer in answers:
        assert answer.status_code == 200
        answer.read()
    return slowest


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("idle", [0.0, 0.5, 3.0, 20.0])
def test_a_pool_of_a_hundred_when_a_node_dies(seed: int, idle: float) -> None:
    shop = Shop(seed)
    with shop.client() as client:
        many(shop.net, client, shop.url, 100)
        shop.net.sleep(3.0)
        shop.nodes[0].power_off()
        shop.net.sleep(idle)
        slowest = many(shop.net, client, shop.url, 100)
    assert slowest <= 0.25


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("idle", [0.0, 3.0, 20.0])
def test_posts_on_a_pool_when_a_node_dies(seed: int, idle: float) -> None:
    """All succeed: those that would have met the dead were asked first."""
    shop = Shop(seed)
    with shop.client() as client:
        many(shop.net, client, shop.url, 20)
        shop.net.sleep(3.0)
        shop.nodes[0].power_off()
        shop.net.sleep(idle)
        for _ in range(20):
            began = shop.net.elapsed()
            assert client.post(shop.url).status_code == 200
            assert shop.net.elapsed() - began < 0.25
    assert sum(pod.counts()["methods"]["POST"] for pod in shop.pods if pod.running) == 20


def test_after_the_network_heals_the_pool_works_at_once() -> None:
    shop = Shop()
    with shop.client() as client:
        many(shop.net, client, shop.url, 10)
        for node in shop.nodes:
            node.black_hole()
        shop.net.sleep(3.0)
        for node in shop.nodes:
            node.heal()
        before = shop.connections
        began = shop.net.elapsed()
        for _ in range(10):
            assert client.get(shop.url).status_code == 200
        assert shop.net.elapsed() - began < 0.25
    assert shop.connections == before


# -- endpoints that leave ------------------------------------------------------------------


@pytest.mark.incident("FR-20")
def test_fr20_connections_follow_the_endpoints() -> None:
    """A pod leaves the name while its connections are in use: they end with their requests, those
    that are idle at once, and nobody is cut off."""
    net = SimNet()
    pods = [net.node(name).pod(port=80) for name in ("a", "b")]
    net.dns.set("orders.test", [pod.host for pod in pods], ttl=1.0)
    url = "http://orders.test/"
    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        many(net, client, url, 6)
        assert all(pod.counts()["open"] for pod in pods)
        net.dns.set("orders.test", [pods[1].host])
        net.sleep(2.0)  # what resolvers remember is over
        held = [client.send(client.build_request("GET", url), stream=True) for _ in range(8)]
        assert pods[0].counts()["open"] > 0
        for response in held:
            response.read()
        net.sleep(0.1)
        assert pods[0].counts()["open"] == 0
        before = pods[0].counts()["requests"]
        many(net, client, url, 10)
    assert pods[0].counts()["requests"] == before


# -- loss ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "delay"), [(0.0, 0.0), (0.05, 0.0), (0.05, 0.2)])
def test_slow_answers_over_a_bad_line(loss: float, delay: float) -> None:
    """None is cut off; second attempts stay few. (Three hundred: 0, 6 and 4.)"""
    count = 40
    net = SimNet()
    node = net.node("a")
    pod = node.pod()

    async def main() -> None:
        limits = httpx.Limits(max_connections=1000)
        transport = outlast.AsyncTransport(network=net, limits=limits)
        timeout = httpx.Timeout(None, connect=60.0)
        async with httpx.AsyncClient(transport=transport, timeout=timeout) as client:

            async def one() -> None:
                assert (await client.get(f"http://{pod.address}/?delay=60")).status_code == 200

            node.lose(loss)
            node.delay(delay)
            async with anyio.create_task_group() as group:
                for _ in range(count):
                    group.start_soon(one)
                    with anyio.move_on_after(0.02):  # of virtual time
                        await anyio.sleep_forever()

    net.run(main, backend="asyncio")
    assert count <= pod.counts()["requests"] <= count * (1.0 if not loss else 1.1)
