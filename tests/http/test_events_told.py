"""What happens is told: each kind of event, by real calls in virtual time."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import outlast
from outlast import events
from outlast.events import KINDS, OutlastEvent
from outlast.service.table import services_of
from tests.http.event_scenes import SCENES, lost
from tests.http.listening import KINDS as CLIENTS
from tests.http.listening import ORIGIN, URL, Shop, names, of

Case = tuple[type[OutlastEvent], Callable[[Shop], Any], Callable[[Shop], dict[str, Any]]]
CASES: list[Case] = [(kind, *each) for kind, scenes in SCENES.items() for each in scenes]
IDS = [f"{kind.__name__}-{scene.__name__}" for kind, scene, _ in CASES]


def test_there_is_a_scene_for_each_kind() -> None:
    assert set(SCENES) == set(KINDS)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_each_kind_is_told_once_without_a_lock_and_none_breaks_a_request(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the target's lock is held, nor the pool's, nor that of the dials: whoever is told may
    take a snapshot. One that fails is dropped and logged, and nobody else notices."""
    kind, scene, options = case
    told: list[OutlastEvent] = []
    failed: list[OutlastEvent] = []
    shop = Shop("sync")
    shop.configure(options(shop))

    def fail(event: OutlastEvent) -> None:
        failed.append(event)
        raise RuntimeError("a mistake of the subscriber's")

    def look(event: OutlastEvent) -> None:
        told.append(event)
        services = services_of(shop.net)
        locks = [shop.transport._engine.pool._lock, *(each._lock for each in services)]
        assert not any(lock.locked() for lock in (*locks, *(s.memory._lock for s in services)))
        assert outlast.snapshot(shop.net).targets

    broken = events.subscribe(fail, kind)
    with events.subscribe(look, kind) as subscription:
        with caplog.at_level(logging.ERROR, "outlast"):
            shop.play(scene)
        assert subscription.active, told[-1]
        assert not broken.active
    assert told
    assert failed == told[:1]
    assert len([each for each in caplog.records if each.exc_info]) == 1
    assert len(set(told)) == len(told)  # nothing is told twice
    assert {event.target for event in told} <= {each.target.text for each in services_of(shop.net)}
    for event in told:
        assert 0 <= event.at <= shop.net.now()
        assert str(event)


# -- stories -------------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_a_lost_machine_is_told_in_order(client: str) -> None:
    """Suspicion, the attempt beside it, the connection's end; then that it is out, and back."""
    told: list[OutlastEvent] = []
    shop = Shop(client)
    with events.subscribe(told.append):
        shop.play(lost)
    dead = shop.pods[0].address
    (suspected, *_), calls = of(told, events.ConnectionSuspect), of(told, events.CallFinished)
    assert suspected.address == dead
    first = told.index(suspected)
    ended = next(each for each in calls if told.index(each) > first)
    until = told.index(ended)
    story = [each for each in names(told[first : until + 1]) if each != "ConnectionReused"]
    assert story in (
        ["ConnectionSuspect", "ConnectionOpened", "ConnectionClosed", "CallFinished"],
        ["ConnectionSuspect", "ConnectionClosed", "CallFinished"],
    )
    assert ended.attempts == 2
    (closed,) = [e for e in of(told, events.ConnectionClosed) if e.reason == "suspect"]
    assert closed.address == dead
    ejected, returned = of(told, events.EndpointEjected), of(told, events.EndpointReturned)
    assert {each.address for each in (*ejected, *returned)} == {dead}
    assert ejected[0].evidence == "death"
    assert returned[-1].at > ejected[-1].at
    assert not of(told, events.PanicBegan)
    assert {each.status for each in calls} == {200}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_opened_is_closed_and_each_call_ends_once(client: str) -> None:
    told: list[OutlastEvent] = []
    calls = itertools.count()

    async def case(shop: Shop) -> None:
        shop.net.at(1.0, shop.nodes[1].power_off)
        shop.net.at(8.0, shop.pods[2].kill)
        while shop.net.elapsed() < 20.0:
            next(calls)
            await shop.get("?delay=0.05", "POST" if shop.net.elapsed() < 0.5 else "GET")
            await shop.nap(0.05)

    shop = Shop(client)
    with events.subscribe(told.append):
        shop.play(case)
    opened = Counter((e.address, e.local_port) for e in of(told, events.ConnectionOpened))
    closed = Counter((e.address, e.local_port) for e in of(told, events.ConnectionClosed))
    assert opened == closed
    assert len(of(told, events.CallFinished)) == next(calls)
    assert len(set(told)) == len(told)
    finished = of(told, events.CallFinished)
    assert all(each.http_version == "1.1" and each.address for each in finished)
    assert sum(each.attempts for each in finished) > len(finished)


def test_a_failed_call_tells_each_attempt_and_its_end() -> None:
    told: list[OutlastEvent] = []

    async def case(shop: Shop) -> None:
        await shop.get()
        assert (await shop.get("?status=503")).status_code == 503
        await shop.fails("?drop=1", "POST", content=b"x")
        await shop.fails("?stall=1&size=1000")

    shop = Shop("sync", 1)
    with events.subscribe(told.append):
        shop.play(case)
    failed = of(told, events.AttemptFailed)
    assert [(e.phase, e.status, e.error, e.repeated) for e in failed] == [
        ("response", 503, "", True),
        ("response", 503, "", True),
        ("response", 503, "", False),
        ("response", None, "RemoteProtocolError", False),
        ("body", 200, "ReadTimeout", False),
    ]
    ends = [(e.method, e.status, e.error, e.attempts) for e in of(told, events.CallFinished)]
    assert ends == [
        ("GET", 200, "", 1),
        ("GET", 503, "", 3),
        ("POST", None, "RemoteProtocolError", 1),
        ("GET", 200, "", 1),
    ]


def test_a_kept_answer_whose_body_breaks_is_told_once_and_one_that_was_given_away_twice() -> None:
    """The last one is the caller's: its body is another failure."""
    told: list[OutlastEvent] = []

    async def case(shop: Shop) -> None:
        await shop.fails("?status=503&stall=1&size=1000")

    with events.subscribe(told.append):
        Shop("sync", 1).play(case)
    failed = [(each.attempt, each.phase) for each in of(told, events.AttemptFailed)]
    assert failed == [(0, "response"), (1, "response"), (2, "response"), (2, "body")]


def test_evidence_against_a_connection_is_told_once() -> None:
    """However often it is looked at until the request on it ends."""
    told: list[OutlastEvent] = []

    async def case(shop: Shop) -> None:
        await shop.get()
        shop.net.at(0.5, shop.nodes[0].power_off)
        await shop.fails("?delay=3", "POST", content=b"x")

    with events.subscribe(told.append):
        Shop("sync", 1, timeout=None).play(case)
    assert len(of(told, events.ConnectionSuspect)) == 1
    (closed,) = of(told, events.ConnectionClosed)
    assert closed.reason == "suspect"


# -- field reports -------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_fr81_waits_dials_reuse_retirement_and_retries_can_be_told_apart(client: str) -> None:
    """FR-81: one could not tell a wait in the pool from a slow connect or a slow server."""
    told: list[OutlastEvent] = []

    async def case(shop: Shop) -> None:
        await shop.get()
        await shop.nap(1.0)
        await shop.get()
        await shop.nap(400.0)  # longer than an idle connection is kept
        await shop.get("?status=503")
        shop.pods[0].kill()
        await shop.nap(0.1)
        await shop.fails()

    shop = Shop(client, 1)
    with events.subscribe(told.append):
        shop.play(case)
    dials = of(told, events.ConnectionOpened)
    assert len(dials) == 4  # the first, after the rest, and one for each repeat
    assert all(0 < each.connect < 0.01 and each.handshake is None for each in dials)
    (first, *_) = of(told, events.ConnectionReused)
    assert first.idle == pytest.approx(1.0, abs=0.01)
    retired = of(told, events.ConnectionClosed)
    assert [each.reason for each in retired] == ["idle", "peer", "peer", "peer"]
    assert retired[0].age == pytest.approx(401.0, abs=0.1)
    repeated = [each.repeated for each in of(told, events.AttemptFailed)]
    assert repeated == [True, True, False, False]
    assert of(told, events.DialFailed)
    assert not of(told, events.PoolWaited)


def test_fr82_new_against_reused_idle_times_and_errors_by_phase() -> None:
    """FR-82: connections by whether they are new, idle times, errors and times by phase."""
    told: list[OutlastEvent] = []

    async def case(shop: Shop) -> None:
        shop.net.service("peers.shop.svc:8080", pods=shop.pods, headless=True)
        shop.client.get("http://peers.shop.svc:8080/")
        shop.net.dns.fail("NXDOMAIN")
        await shop.nap(1.0)
        shop.client.get("http://peers.shop.svc:8080/")
        with pytest.raises(httpx.ConnectError):
            shop.client.get("http://nobody.shop.svc:8080/")
        shop.pods[0].kill()
        await shop.nap(0.1)
        await shop.fails()

    shop = Shop("sync", 1)
    with events.subscribe(told.append):
        shop.play(case)
    found, missing, *_ = of(told, events.LookupFinished)
    assert found.addresses == (shop.pods[0].address.split(":")[0],)
    assert found.seconds > 0
    assert not found.error
    assert missing.name == "nobody.shop.svc"
    assert missing.error
    assert len(of(told, events.ConnectionOpened)) == 1
    (reused,) = of(told, events.ConnectionReused)
    assert reused.idle == pytest.approx(1.0, abs=0.01)
    assert {each.phase for each in of(told, events.AttemptFailed)} == {"lookup", "connect"}
    assert {each.phase for each in of(told, events.DialFailed)} == {"connect"}


# -- subscribers that use the library ---------------------------------------------------------


def test_a_subscriber_may_call_and_is_not_told_of_its_own_calls() -> None:
    told: list[OutlastEvent] = []
    heard: list[OutlastEvent] = []
    shop = Shop("sync")

    def post(event: OutlastEvent) -> None:
        told.append(event)
        assert shop.client.post(URL, content=b"told").status_code == 200

    async def case(shop: Shop) -> None:
        for _ in range(3):
            await shop.get()

    with events.subscribe(post, events.CallFinished), events.subscribe(heard.append):
        shop.play(case)
    assert [each.method for each in of(told, events.CallFinished)] == ["GET"] * 3
    assert [each.method for each in of(heard, events.CallFinished)] == ["POST", "GET"] * 3


def test_two_loops_hear_of_a_task_that_calls() -> None:
    """A task that a subscriber starts calls on: what it gives rise to is not told to it again."""
    import asyncio

    told: list[OutlastEvent] = []
    tasks: list[asyncio.Task[Any]] = []

    async def case(shop: Shop) -> None:
        def post(event: OutlastEvent) -> None:
            told.append(event)
            tasks.append(asyncio.get_running_loop().create_task(shop.client.post(URL)))

        with events.subscribe(post, events.CallFinished):
            await shop.get()
            await shop.get()
            await asyncio.gather(*tasks)

    Shop("asyncio").play(case)
    assert [each.method for each in of(told, events.CallFinished)] == ["GET", "GET"]
    assert [task.result().status_code for task in tasks] == [200, 200]
    assert ORIGIN in URL
