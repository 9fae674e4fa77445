"""What the replayed reports from the field have in common: a Service, its clients, their load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

import outlast
from outlast import Report
from outlast.testing import SimNet
from outlast.testing.simnet.net import SimNode
from outlast.testing.simnet.pod import Pod

__all__ = ["NAME", "URL", "Load", "cluster", "connecting", "load", "pods_of", "report", "serving"]

NAME = "orders.shop.svc:8080"
URL = f"http://{NAME}/"


def cluster(nodes: int = 2, *, seed: int = 7, serves: Any = None, **service: Any) -> SimNet:
    """`nodes` nodes (a, b, ...) with a pod each, and a Service over them."""
    net = SimNet(seed=seed)
    pods = [net.node(chr(ord("a") + number)).pod(serves) for number in range(nodes)]
    net.service(NAME, pods=pods, **service)
    return net


def pods_of(net: SimNet) -> list[Pod]:
    """All pods, node by node."""
    return [pod for node in net.nodes.values() for pod in node.pods]


@contextmanager
def connecting(net: SimNet, *, timeout: Any = 5.0, **transport: Any) -> Iterator[httpx.Client]:
    """A run of the network, to its end, with a client of it."""
    made = outlast.Transport(network=net, **transport)
    with net, net.running(), httpx.Client(transport=made, timeout=timeout) as client:
        yield client


def serving(net: SimNet, client: httpx.Client) -> SimNode:
    """The node that the client's one idle connection leads to."""
    name = client.get(URL).json()["pod"]
    found = next(node for node in net.nodes.values() if any(p.name == name for p in node.pods))
    assert isinstance(found, SimNode)
    return found


def report(source: object) -> Report:
    """The report that a response or an exception carries."""
    found = outlast.report_of(source)
    assert found is not None
    return found


@dataclass
class Load:
    """What became of many calls: seconds that each took, and the errors."""

    took: list[float] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    @property
    def slowest(self) -> float:
        """Seconds."""
        return max(self.took)

    def share_slower_than(self, seconds: float) -> float:
        """How many of all took longer."""
        return sum(each > seconds for each in self.took) / len(self.took)


def load(
    net: SimNet,
    call: Callable[[], object],
    *,
    until: float,
    pause: float = 0.5,
    workers: int = 4,
) -> Load:
    """`workers` threads that call over and over, `pause` seconds apart, until so many seconds."""
    found = Load()

    def work(number: int) -> None:
        net.sleep(pause * number / workers)
        while net.elapsed() < until:
            begun = net.elapsed()
            try:
                call()
            except (httpx.TransportError, OSError) as error:
                found.errors.append(error)
            found.took.append(net.elapsed() - begun)
            net.sleep(pause)

    net.gather(*(lambda number=number: work(number) for number in range(workers)))
    return found
