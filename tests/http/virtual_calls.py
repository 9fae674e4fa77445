"""Opens a plain httpx client on the network in virtual time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import httpx

import outlast
from outlast.core.backoff import Backoff
from tests.http.fake_network import FakeNetwork, target

URL = "http://orders.shop.svc/"
AT_ONCE = Backoff(0.0, 0.0)


@contextlib.contextmanager
def client(
    network: FakeNetwork, *hosts: str, policy: outlast.Policy | None = None, **more: Any
) -> Iterator[httpx.Client]:
    """A client whose requests to `URL` go to `hosts` (those of the network, if not given).

    At the end nothing is left open, and no place in the pool is taken.
    """
    timeout = more.pop("timeout", None)
    targets = {URL: target(*(hosts or ("a",)))}
    transport = outlast.Transport(network=network, targets=targets, policy=policy, **more)
    with httpx.Client(transport=transport, timeout=timeout) as made:
        yield made
        counts = transport._engine.pool.counts()
        assert (counts["busy"], counts["waiting"]) == (0, 0)
        assert counts["places"] == counts["idle"] == len(network.open)
    assert network.open == []
