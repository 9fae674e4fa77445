"""For each kind of event something that gives rise to it: a synchronous client in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

import outlast
from outlast import events
from outlast.core.circuit import CircuitLimits
from outlast.events import OutlastEvent
from outlast.service.check_kinds import TcpCheck
from outlast.service.table import services_of
from tests.http.listening import ORIGIN, Shop

__all__ = ["SCENES", "lost"]

NAME = "peers.shop.svc:8080"
Scene = Callable[[Shop], Any]


async def calm(shop: Shop) -> None:
    """Some calls on a few connections."""
    for _ in range(6):
        await shop.get()


async def lost(shop: Shop) -> None:
    """A machine is lost in the middle of quick calls, and comes back."""
    for _ in range(12):
        await shop.get()
    shop.nodes[0].power_off()
    shop.net.at(20.0, shop.nodes[0].power_on)
    while shop.net.elapsed() < 40.0:
        await shop.get()
        await shop.nap(0.1)


async def ill(shop: Shop) -> None:
    """All endpoints answer 503, and recover."""
    for _ in range(30):
        await shop.get("?status=503")
    for _ in range(200):
        await shop.get()
        await shop.nap(0.1)


async def refused(shop: Shop) -> None:
    """Every endpoint refuses."""
    for pod in shop.pods:
        pod.kill()
    await shop.fails()


async def crowded(shop: Shop) -> None:
    """Two calls and one place."""
    assert shop.kind == "sync"
    shop.net.gather(*[lambda: shop.client.get(f"{ORIGIN}/?delay=1")] * 2)


async def drained(shop: Shop) -> None:
    """The bucket of extra dials is empty, and nobody answers."""
    await shop.get()
    (service,) = services_of(shop.net)
    while service.memory.take(shop.net.now()):
        pass
    for node in shop.nodes:
        node.power_off()
    await shop.fails()


async def moved(shop: Shop) -> None:
    """Pods behind a name come and go."""
    service = shop.net.service(NAME, pods=shop.pods[:2], headless=True)
    url = f"http://{NAME}/"
    shop.client.get(url, headers={"connection": "close"})
    service.add(shop.pods[2])
    service.remove(shop.pods[0])
    await shop.nap(60.0)
    shop.client.get(url, headers={"connection": "close"})
    shop.client.get(url)


async def late(shop: Shop) -> None:
    """An answer is late."""
    await shop.get("?delay=1")


async def full(shop: Shop) -> None:
    """An endpoint is full."""
    shop.net.gather(*[lambda: shop.client.get(f"{ORIGIN}/?delay=1")] * 2)


def checked(shop: Shop) -> dict[str, Any]:
    return {"targets": {ORIGIN: outlast.Target(shop.target, check=TcpCheck())}}


def one_place(_: Shop) -> dict[str, Any]:
    return {"limits": httpx.Limits(max_connections=1)}


def no_budget(_: Shop) -> dict[str, Any]:
    return {"policy": outlast.Policy(retry_budget=(0, 0))}


def hedged(_: Shop) -> dict[str, Any]:
    return {"policy": outlast.Policy(hedge=0.1)}


def dry(_: Shop) -> dict[str, Any]:
    return {"policy": outlast.Policy(dry_run="repeats")}


def limited(shop: Shop) -> dict[str, Any]:
    limits = CircuitLimits(in_flight=1)
    return {"targets": {ORIGIN: outlast.Target(shop.target.split(",")[0], circuit=limits)}}


def plain(_: Shop) -> dict[str, Any]:
    return {}


SCENES: dict[type[OutlastEvent], list[tuple[Scene, Callable[[Shop], dict[str, Any]]]]] = {
    events.EndpointJoined: [(moved, plain)],
    events.EndpointLeft: [(moved, plain)],
    events.EndpointEjected: [(lost, plain), (ill, plain)],
    events.EndpointReturned: [(lost, plain), (ill, plain)],
    events.CheckChanged: [(lost, checked)],
    events.PanicBegan: [(ill, plain)],
    events.PanicEnded: [(ill, plain)],
    events.LookupFinished: [(moved, plain)],
    events.DialFailed: [(lost, plain), (refused, plain)],
    events.ConnectionOpened: [(calm, plain)],
    events.ConnectionReused: [(calm, plain)],
    events.ConnectionClosed: [(lost, plain)],
    events.ConnectionSuspect: [(lost, plain)],
    events.PoolWaited: [(crowded, one_place)],
    events.AttemptFailed: [(ill, plain), (refused, plain)],
    events.HedgeStarted: [(late, hedged)],
    events.RepeatHeldBack: [(ill, dry)],
    events.CallFinished: [(calm, plain), (refused, plain)],
    events.BudgetExhausted: [(ill, no_budget), (drained, plain)],
    events.CircuitOpen: [(full, limited)],
}
