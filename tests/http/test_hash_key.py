"""Consistent hashing over the transports: the same endpoint for the same header, cookie or key."""

from __future__ import annotations

import httpx
import pytest

import outlast
from outlast.testing import SimNet

ORIGIN = "http://orders"
KINDS = [
    ({"header": "X-User"}, {"x-user": "u{}"}),
    ({"cookie": "session"}, {"cookie": "a=b; session=s{}; c=d"}),
    ({"key": lambda request: request.headers["x-any"]}, {"x-any": "k{}"}),
    ({"key": lambda request: request.headers["x-any"].encode()}, {"x-any": "k{}"}),
    ({"header": "x-user", "table": "maglev"}, {"x-user": "u{}"}),
]


def served(balance: outlast.ConsistentHash, *requests: dict[str, str]) -> list[str]:
    """Which pod answers requests with these headers."""
    net = SimNet(seed=3)
    pods = [net.node(f"n{number}").pod() for number in range(4)]
    text = f"static://{','.join(pod.address for pod in pods)}"
    targets = {ORIGIN: outlast.Target(text, balance=balance)}
    transport = outlast.Transport(network=net, targets=targets)
    with net.running(), httpx.Client(transport=transport) as client:
        return [client.get(ORIGIN, headers=headers).json()["pod"] for headers in requests]


@pytest.mark.parametrize(("given", "headers"), KINDS)
def test_one_key_one_endpoint(given: dict[str, object], headers: dict[str, str]) -> None:
    asked = [
        {name: value.format(number % 20) for name, value in headers.items()} for number in range(60)
    ]
    found = served(outlast.ConsistentHash(**given), *asked)  # type: ignore[arg-type]  # a table
    assert found[:20] == found[20:40] == found[40:]
    assert len(set(found)) > 2


def test_a_request_without_the_header_is_balanced() -> None:
    found = served(outlast.ConsistentHash(header="x-user"), *({} for _ in range(40)))
    assert len(set(found)) == 4


def test_a_key_that_is_none_is_balanced_and_another_is_refused() -> None:
    found = served(outlast.ConsistentHash(key=lambda _: None), *({} for _ in range(40)))
    assert len(set(found)) == 4
    with pytest.raises(TypeError, match="returned 7; return text, bytes or None"):
        served(outlast.ConsistentHash(key=lambda _: 7), {})  # type: ignore[arg-type,return-value]  # wrong
