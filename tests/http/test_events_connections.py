"""Why connections are closed, as it is told; handshakes, HTTP/2, answers that nobody closes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import outlast
from outlast import events
from outlast.events import OutlastEvent
from tests.fire.h2_pod import Books, serve_h2
from tests.http.listening import KINDS, ORIGIN, URL, Shop, of

Case = Callable[[Shop], Any]


async def too_long_idle(shop: Shop) -> None:
    await shop.get()
    await shop.nap(301.0)
    await shop.get()


async def too_old(shop: Shop) -> None:
    await shop.get()
    await shop.nap(2.0)
    await shop.get()


async def no_room(shop: Shop) -> None:
    await shop.get()


async def closed_by_the_peer_while_idle(shop: Shop) -> None:
    await shop.get()
    shop.pods[0].kill()
    shop.pods[0].start()
    await shop.nap(0.1)
    await shop.get()


async def closed_by_the_peer_with_its_answer(shop: Shop) -> None:
    await shop.get("?close=1")


async def suspect(shop: Shop) -> None:
    for _ in range(12):
        await shop.get()
    shop.nodes[0].power_off()
    for _ in range(4):
        await shop.get()


async def broken(shop: Shop) -> None:
    await shop.fails("?drop=1", "POST", content=b"x")


async def left_unread(shop: Shop) -> None:
    with shop.client.stream("GET", URL + "?size=1000000"):
        pass


async def dropped(shop: Shop) -> None:
    await shop.get()
    assert shop.transport.drop() == 1


async def dropped_in_use(shop: Shop) -> None:
    with shop.client.stream("GET", URL + "?size=1000000") as response:
        assert shop.transport.drop() == 1
        response.read()


async def with_its_transport(shop: Shop) -> None:
    await shop.get()
    shop.transport.close()


REASONS: list[tuple[str, Case, dict[str, Any]]] = [
    ("idle", too_long_idle, {}),
    ("age", too_old, {"policy": outlast.Policy(max_age=1.0)}),
    ("full", no_room, {"limits": httpx.Limits(max_keepalive_connections=0)}),
    ("peer", closed_by_the_peer_while_idle, {}),
    ("peer", closed_by_the_peer_with_its_answer, {}),
    ("suspect", suspect, {}),
    ("unfinished", broken, {}),
    ("unfinished", left_unread, {}),
    ("dropped", dropped, {}),
    ("dropped", dropped_in_use, {}),
    ("closed", with_its_transport, {}),
]


@pytest.mark.parametrize(
    ("reason", "case", "more"), REASONS, ids=[f"{r}-{c.__name__}" for r, c, _ in REASONS]
)
def test_the_reason_for_which_a_connection_is_closed(
    reason: str, case: Case, more: dict[str, Any]
) -> None:
    told: list[OutlastEvent] = []
    shop = Shop("sync", 3 if case is suspect else 1, **more)

    async def heard(shop: Shop) -> None:
        with events.subscribe(told.append):
            await case(shop)

    shop.play(heard)
    (closed,) = of(told, events.ConnectionClosed)
    assert closed.reason == reason
    opened = {each.local_port: each.at for each in of(told, events.ConnectionOpened)}
    assert closed.age == pytest.approx(closed.at - opened[closed.local_port], abs=1e-3)


def test_a_connection_to_one_that_has_left_is_departed() -> None:
    told: list[OutlastEvent] = []

    async def case(shop: Shop) -> None:
        service = shop.net.service("peers.shop.svc:8080", pods=shop.pods[:2], headless=True)
        url = "http://peers.shop.svc:8080/"
        for _ in range(6):
            shop.client.get(url)
        service.add(shop.pods[2])
        service.remove(shop.pods[0])
        await shop.nap(60.0)
        with httpx.Client(transport=outlast.Transport(network=shop.net)) as other:
            other.get(url)  # noqa: ASYNC212  it looks the name up, in virtual time
        shop.client.get(url)

    shop = Shop("sync")
    with events.subscribe(told.append):
        shop.play(case)
    (gone,) = [each for each in of(told, events.ConnectionClosed) if each.reason == "departed"]
    assert gone.address == shop.pods[0].address
    assert [each.address for each in of(told, events.EndpointLeft)] == [gone.address]


# -- others --------------------------------------------------------------------------------


@pytest.mark.parametrize("client", KINDS)
def test_shared_connections_are_reused_at_once_and_left_by_the_server(client: str) -> None:
    """HTTP/2: the server leaves after three requests (GOAWAY)."""
    told: list[OutlastEvent] = []

    async def case(shop: Shop) -> None:
        for _ in range(5):
            await shop.get(headers={"x-request-id": "any"})
            await shop.nap(1.0)

    shop = Shop(client, 0, http1=False, http2=True)
    pod = shop.net.node("a").pod(serve_h2(Books(), 3, 100))
    shop.configure({"targets": {ORIGIN: f"static://{pod.address}"}})
    with events.subscribe(told.append):
        shop.play(case)
    assert {each.http_version for each in of(told, events.CallFinished)} == {"2"}
    assert len(of(told, events.ConnectionOpened)) == 2
    assert [each.reason for each in of(told, events.ConnectionClosed)] == ["peer", "closed"]
    idle = [each.idle for each in of(told, events.ConnectionReused)]
    assert idle == [pytest.approx(1.0, abs=0.01)] * 3


def test_an_answer_that_nobody_closes_is_told_with_the_next_call_and_in_no_finalizer() -> None:
    told: list[OutlastEvent] = []

    async def case(shop: Shop) -> None:
        request = httpx.Request("GET", URL + "?size=1000000")
        response = shop.transport.handle_request(request)
        del response, request
        gc.collect()
        assert not of(told, events.ConnectionClosed)
        await shop.get()
        assert [each.reason for each in of(told, events.ConnectionClosed)] == ["unfinished"]

    with events.subscribe(told.append):
        Shop("sync", 1).play(case)


def test_a_wait_in_vain_is_told() -> None:
    told: list[OutlastEvent] = []

    async def case(shop: Shop) -> None:
        with shop.client.stream("GET", URL + "?size=1000000"):
            error = await shop.fails(timeout=httpx.Timeout(5.0, pool=2.0))
            assert isinstance(error, httpx.PoolTimeout)

    with events.subscribe(told.append):
        Shop("sync", 1, limits=httpx.Limits(max_connections=1)).play(case)
    (waited,) = of(told, events.PoolWaited)
    assert not waited.granted
    assert waited.seconds == pytest.approx(2.0, abs=0.01)
    (failed,) = of(told, events.AttemptFailed)
    assert (failed.phase, failed.error, failed.address) == ("pool", "PoolTimeout", "")
