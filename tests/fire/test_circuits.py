"""Limits of connections over HTTP/2 and between transports, in virtual time: who waits for one, for
how long, in which order, and what the pod sees of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import anyio
import httpx
import pytest

import outlast
from outlast.service.table import services_of
from outlast.testing import SimNet
from tests.fire.h2_pod import Books, serve_h2

ORIGIN = "http://orders.shop.svc"
SECOND = "?delay=1"  # what one answer takes
SEEDS = range(60 if os.environ.get("OUTLAST_FULL") else 6)


class Shop:
    """One pod that takes `streams` requests at once on a connection and `goaway` in all, 0 for any
    number; and two transports to it."""

    def __init__(self, streams: int = 2, goaway: int = 0, **limits: Any) -> None:
        self.net = SimNet()
        self.pod = self.net.node("a").pod(serve_h2(Books(), goaway, streams), port=80)
        limited = outlast.CircuitLimits(**limits)
        self.target = outlast.Target(f"static://{self.pod.address}", circuit=limited)
        self.clients: list[httpx.AsyncClient] = []
        self.ended: list[tuple[str, Any, float]] = []  # name, status or error, and when

    async def ask(self, name: str, query: str = SECOND, *, by: int = 0, pool: float = 60.0) -> None:
        """One request, whose end is written down."""
        timeout, ids = httpx.Timeout(None, pool=pool), {"x-request-id": name}
        try:
            got = await self.clients[by].get(f"{ORIGIN}/{query}", headers=ids, timeout=timeout)
        except httpx.TransportError as error:
            self.ended.append((name, error, self.net.elapsed()))
        else:
            self.ended.append((name, got.status_code, self.net.elapsed()))

    def run(self, main: Callable[[], Any], backend: str = "asyncio") -> None:
        """`main` with both clients; at the end nothing is counted."""

        def client() -> httpx.AsyncClient:
            transport = outlast.AsyncTransport(
                network=self.net, targets={ORIGIN: self.target}, http1=False, http2=True
            )
            return httpx.AsyncClient(transport=transport)

        async def whole() -> None:
            async with client() as first, client() as second:
                self.clients = [first, second]
                await main()
                seen = outlast.snapshot(self.net).targets[0].endpoints[0]
                assert (seen.in_flight, seen.waiting) == (0, 0)
                assert self._berths() == seen.connections

        with self.net:
            self.net.run(whole, backend=backend)

    def _berths(self) -> int:
        """Connections that count against the limit."""
        (service,) = services_of(self.net)
        assert service.circuits is not None
        return service.circuits.look()(service.addresses()[0]).connections

    @property
    def connections(self) -> int:
        """That the pod has seen."""
        return self.pod.counts()["connections"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_whoever_finds_no_stream_waits_for_one_in_turn(backend: str) -> None:
    shop = Shop(connections=1)

    async def main() -> None:
        await shop.ask("first", "")
        async with anyio.create_task_group() as group:
            for name in "abcdef":
                group.start_soon(shop.ask, name)
                await anyio.sleep(0.01)

    shop.run(main, backend)
    assert [status for _, status, _ in shop.ended] == [200] * 7
    assert "".join(name for name, _, _ in shop.ended[1:]) == "abcdef"
    assert shop.connections == 1
    assert shop.ended[-1][2] == pytest.approx(3.0, abs=0.1)


def test_all_at_once_share_the_one_connection_that_is_dialled() -> None:
    shop = Shop(connections=1)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(shop.ask, str(number), "?delay=0.2")

    shop.run(main)
    assert [status for _, status, _ in shop.ended] == [200] * 6
    assert shop.connections == 1
    assert shop.ended[-1][2] == pytest.approx(0.6, abs=0.1)  # two at a time, without a pause


def test_whoever_waits_has_the_place_of_a_connection_that_ends() -> None:
    shop = Shop(connections=1, goaway=1)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(shop.ask, str(number), "?delay=0.2")

    shop.run(main)
    assert [status for _, status, _ in shop.ended] == [200] * 4
    assert shop.connections == 4
    assert shop.ended[-1][2] == pytest.approx(0.8, abs=0.1)


def test_who_would_have_dialled_too_has_the_connection_when_it_stands() -> None:
    """After a second behind another's slow dial it is for itself, and finds no room for one."""
    shop = Shop(connections=1)
    shop.pod.node.delay(0.6)
    reused: list[outlast.events.OutlastEvent] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(2):
                group.start_soon(shop.ask, str(number), "")

    began = shop.net.now()
    with outlast.subscribe(reused.append, outlast.events.ConnectionReused):
        shop.run(main)
    assert [status for _, status, _ in shop.ended] == [200] * 2
    assert shop.connections == 1
    assert [each.at - began for each in reused] == [pytest.approx(1.2, abs=0.01)]


def test_who_asks_without_a_pause_does_not_overtake_who_waits() -> None:
    shop = Shop(connections=1)

    async def main() -> None:
        async def busy(name: str) -> None:
            for _ in range(5):
                await shop.ask(name)

        async with anyio.create_task_group() as group:
            for name in ("x", "y"):
                group.start_soon(busy, name)
            await anyio.sleep(0.5)
            await shop.ask("late")

    shop.run(main)
    (late,) = [at for name, _, at in shop.ended if name == "late"]
    assert late <= 2.1


def test_the_wait_ends_with_the_pool_timeout() -> None:
    shop = Shop(connections=1)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for name in "xy":
                group.start_soon(shop.ask, name, "?delay=5")
            await anyio.sleep(0.5)
            group.start_soon(lambda: shop.ask("late", pool=1.5))
            group.start_soon(lambda: shop.ask("later", "", pool=60.0))

    shop.run(main)
    name, error, at = shop.ended[0]
    assert name == "late"
    assert at == pytest.approx(2.0)
    assert isinstance(error, httpx.PoolTimeout)
    assert str(error) == (
        f"waited 1.500 s for a connection to {shop.pod.address}: "
        "1 connections of at most 1 (CircuitLimits); nothing was sent"
    )
    assert [status for _, status, _ in shop.ended[1:]] == [200] * 3


def test_one_too_many_in_line_is_refused_at_once() -> None:
    shop = Shop(connections=1, waiting=1)
    told: list[outlast.events.OutlastEvent] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for name in "xywz":
                group.start_soon(shop.ask, name)
                await anyio.sleep(0.1)
            seen = outlast.snapshot(shop.net).targets[0].endpoints[0]
            assert (seen.in_flight, seen.waiting, seen.connections) == (3, 1, 1)
            assert seen.full == "1 connections of at most 1, 1 waiting of at most 1 (CircuitLimits)"

    with outlast.subscribe(told.append, outlast.events.CircuitOpen):
        shop.run(main)
    name, error, at = shop.ended[0]
    assert name == "z"
    assert at == pytest.approx(0.3, abs=0.01)
    assert "is full: 1 connections of at most 1, 1 waiting of at most 1" in str(error)
    limits = [each.limit for each in told if isinstance(each, outlast.events.CircuitOpen)]
    assert limits == ["waiting", "waiting"]  # one stands in line; one is refused


def test_one_that_goes_away_lets_the_next_in() -> None:
    shop = Shop(connections=1)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for name in "xy":
                group.start_soon(shop.ask, name)
            await anyio.sleep(0.1)
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as gone:
                    gone.start_soon(shop.ask, "gone")
                    await anyio.sleep(0.1)
                    group.start_soon(shop.ask, "next")
                    await anyio.sleep(0.1)
                    scope.cancel()

    shop.run(main)
    assert [(name, status) for name, status, _ in shop.ended] == [
        ("x", 200),
        ("y", 200),
        ("next", 200),
    ]
    assert shop.ended[-1][2] == pytest.approx(2.0, abs=0.1)


def test_another_transports_connection_is_waited_for_while_it_is_in_use() -> None:
    """And closed as soon as it is idle, to make room."""
    shop = Shop(connections=1)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(shop.ask, "theirs")
            await anyio.sleep(0.5)
            group.start_soon(lambda: shop.ask("ours", "", by=1))

    shop.run(main)
    (theirs, _, first), (ours, status, second) = shop.ended
    assert (theirs, ours, status) == ("theirs", "ours", 200)
    assert first == pytest.approx(1.0, abs=0.1)
    assert second == pytest.approx(first, abs=0.1)
    assert shop.connections == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_cancelled_nothing_stays_counted_and_nobody_is_forgotten(seed: int) -> None:
    """Calls of two transports at random times, some cancelled, some with little patience, on
    connections that the pod ends now and then: in the end (`Shop.run`) nothing is counted, and
    whoever was patient has its answer."""
    chance = Random(seed)
    limits = {"connections": chance.choice([1, 2]), "in_flight": chance.choice([None, 3])}
    shop = Shop(streams=chance.choice([1, 2, 5]), goaway=chance.choice([0, 3]), **limits)
    shop.pod.node.delay(0.05)  # so that dials are cancelled, too
    patient = 0

    async def call(number: int) -> None:
        nonlocal patient
        await anyio.sleep(chance.random() * 5.0)
        delay, kind = chance.random() * 0.3, chance.choice(["patient", "hasty", "cancelled"])
        by, name = chance.randrange(2), f"{kind} {number}"
        if kind == "cancelled":
            with anyio.move_on_after(chance.random() * 0.4):
                await shop.ask(name, f"?delay={delay}", by=by)
            return
        patient += kind == "patient"
        await shop.ask(name, f"?delay={delay}", by=by, pool=60.0 if kind == "patient" else 0.3)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(120):
                group.start_soon(call, number)

    shop.run(main)
    answered = [status for name, status, _ in shop.ended if name.startswith("patient")]
    assert answered == [200] * patient
    hasty = [what for name, what, _ in shop.ended if name.startswith("hasty") and what != 200]
    assert all(isinstance(each, httpx.PoolTimeout) for each in hasty)
