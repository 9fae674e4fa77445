"""Endpoints that have left the target: whoever learns of it, connections to them are retired.

There is no discovery in the background here: a name is looked up when something is dialled. What
one look-up of the process has found holds for all its transports, at their next call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import httpx
import pytest

import outlast
from outlast.core.balance import RoundRobin
from outlast.target import Target
from outlast.testing import SimNet
from outlast.testing.simnet.pod import Pod

URL = "http://orders.test/"


class Shop:
    """A name with two addresses, of which the first will leave; its pod goes on answering."""

    def __init__(self) -> None:
        self.net = SimNet()
        self.pods: list[Pod] = [self.net.node(name).pod(port=80) for name in ("a", "b")]
        self.net.dns.set("orders.test", [pod.host for pod in self.pods], ttl=1.0)

    def leave(self) -> None:
        """Until what resolvers remember is over, too."""
        self.net.dns.set("orders.test", [self.pods[1].host])
        self.net.sleep(2.0)

    @contextlib.contextmanager
    def client(self) -> Iterator[httpx.Client]:
        target = Target("dns://orders.test:80", balance=RoundRobin())
        transport = outlast.Transport(network=self.net, targets={"http://orders.test": target})
        with httpx.Client(transport=transport) as client:
            yield client

    def open(self) -> list[int]:
        return [pod.counts()["open"] for pod in self.pods]


def spread(client: httpx.Client) -> list[httpx.Response]:
    """Answers that hold a connection each."""
    return [client.send(client.build_request("GET", URL), stream=True) for _ in range(4)]


@pytest.mark.incident("FR-20")
@pytest.mark.parametrize("who", ["a transport", "a dialler"])
def test_what_one_has_found_retires_the_connections_of_all(who: str) -> None:
    shop = Shop()
    net = shop.net
    with net.running(), shop.client() as client, shop.client() as other:
        for answer in spread(client):
            answer.read()
        busy = spread(client)
        assert shop.open() == [2, 2]
        for answer in busy[:2]:
            answer.read()
        shop.leave()
        if who == "a transport":
            assert other.get(URL).json()["pod"] == "b-1"
        else:
            outlast.create_connection(("orders.test", 80), network=net).close()
        net.sleep(0.1)
        assert shop.open()[0] == 2, "nobody has called since"
        before = shop.pods[1].counts()["connections"]
        assert client.get(URL).json()["pod"] == "b-1"
        net.sleep(0.1)
        assert shop.pods[1].counts()["connections"] == before, "and it had not to dial for it"
        assert shop.open()[0] == 1, "a request is under way on the other"
        for answer in busy:
            assert answer.read()
        net.sleep(0.1)
        assert shop.open()[0] == 0
        assert shop.pods[0].counts()["requests"] == 4


def test_without_a_look_up_nobody_knows() -> None:
    """The limit of it, until a target has a discovery of its own."""
    shop = Shop()
    with shop.net.running(), shop.client() as client:
        for answer in spread(client):
            answer.read()
        shop.leave()
        assert {client.get(URL).json()["pod"] for _ in range(4)} == {"a-1", "b-1"}


@pytest.mark.incident("FR-46")
def test_fr46_a_connection_to_an_address_that_left_is_drained() -> None:
    """Under steady traffic, without an error: at the next dial, which the maximum age brings about.
    There is no setting to keep it beyond: load follows the endpoints."""
    shop = Shop()
    with shop.net.running(), shop.client() as client:
        for answer in spread(client):
            answer.read()
        shop.leave()
        while shop.net.elapsed() < 300.0 * 1.2 + 10.0:
            assert client.get(URL).status_code == 200
            shop.net.sleep(1.0)
        before = shop.pods[0].counts()["requests"]
        for _ in range(20):
            client.get(URL)
        assert shop.pods[0].counts()["requests"] == before
        assert shop.open()[0] == 0
        assert before > 100, "kept in use until then"
