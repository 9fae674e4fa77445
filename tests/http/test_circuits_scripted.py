"""Circuit limits, at exact instants of virtual time: who waits, who is refused, who is let in."""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import outlast
from outlast import CircuitLimits, PickFirst, Policy, Target, events
from outlast.core.concurrency import AdaptivePlan
from outlast.http.answer import Answer
from outlast.http.call_driver import run_call
from outlast.http.engine import Engine
from outlast.http.family import family_of
from outlast.http.message import BytesBody
from outlast.http.reading import read_request
from outlast.net.run import Strands, run_sync
from tests.http.callers import words
from tests.http.fake_network import FakeNetwork, FakeStream, Line, answer, answers, silent, target
from tests.http.virtual_calls import AT_ONCE, URL

GOOD = Line(answers(0.01))
STANDS = 0.001


@contextlib.contextmanager
def limited(
    network: FakeNetwork,
    *hosts: str,
    policy: Policy | None = None,
    timeout: Any = None,
    balance: Any = None,
    **limits: Any,
) -> Iterator[tuple[httpx.Client, Engine]]:
    """A client whose target has these limits. At the end nothing is counted."""
    limited = CircuitLimits(**limits)
    aim = Target(target(*(hosts or ("a",))), circuit=limited, balance=balance)
    transport = outlast.Transport(network=network, targets={URL: aim}, policy=policy)
    with httpx.Client(transport=transport, timeout=timeout) as made:
        yield made, transport._engine
    counts = transport._engine.pool.counts()
    assert (counts["busy"], counts["waiting"], counts["places"]) == (0, 0, counts["idle"])
    (service,) = transport._engine._services.values()
    assert service.circuits is not None
    counted = [
        (str(address), door.circuit.in_flight, door.circuit.waiting, door.circuit.connections)
        for address, door in service.circuits._doors.items()
        if not door.unused
    ]
    assert counted == []
    assert service.circuits._busy == set()


class Crowd:
    """Calls side by side in one thread: when each had its answer, or how it failed."""

    def __init__(self, engine: Engine, network: FakeNetwork) -> None:
        self.engine = engine
        self.network = network
        self.strands: Strands[str, Answer] = Strands(network)
        self.ended: dict[str, tuple[float, Answer | BaseException]] = {}

    def begin(self, name: str, *, pool: float | None = None, policy: Policy | None = None) -> None:
        timeout = {"pool": pool, "connect": 5.0, "read": None, "write": None}
        asked = httpx.Request("GET", URL, extensions={"timeout": timeout})
        request = read_request(asked, policy or Policy(), BytesBody(b""), family_of(asked))
        self.strands.start(name, run_call(self.engine, request))

    def until(self, until: float) -> None:
        """Run them to an instant."""

        async def step() -> None:
            while (one := await self.strands.next(until)) is not None:
                self.ended[one[0]] = self.network.time, one[1]

        run_sync(self.network, step())

    def close(self, name: str) -> None:
        got = self.ended[name][1]
        assert isinstance(got, Answer), got
        got.close()

    def at(self, name: str) -> float:
        return self.ended[name][0]

    def failure(self, name: str) -> str:
        return str(self.ended[name][1])


# -- refused, or elsewhere -----------------------------------------------------------------


def test_what_nobody_takes_is_refused_at_once() -> None:
    network = FakeNetwork(a=GOOD)
    heard: list[events.OutlastEvent] = []
    with (
        events.subscribe(heard.append, events.CircuitOpen),
        limited(network, in_flight=1, waiting=0) as (calls, _),
        calls.stream("GET", URL),
    ):
        began = network.time
        with pytest.raises(httpx.PoolTimeout) as caught:
            calls.get(URL)
        assert network.time == began
    assert str(caught.value) == (
        "10.0.0.1:80 is full: 1 requests in flight of at most 1, 0 waiting of at most 0 "
        "(CircuitLimits); nothing was sent"
    )
    assert len(network.requests) == 1
    told = [each for each in heard if isinstance(each, events.CircuitOpen)]
    assert {(each.address, each.limit, each.most) for each in told} == {
        ("10.0.0.1:80", "in_flight", 1)
    }


def test_another_endpoint_is_asked_first() -> None:
    network = FakeNetwork(a=GOOD, b=GOOD, c=GOOD)
    with limited(network, "a", "b", "c", in_flight=1, waiting=0) as (calls, _):
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(calls.stream("GET", URL))
            with pytest.raises(httpx.PoolTimeout, match="is full"):
                calls.get(URL)
        assert calls.get(URL).content == b"ok"
    assert {stream.address.host for stream in network.streams} == {
        f"10.0.0.{number}" for number in (1, 2, 3)
    }


def test_a_repeat_after_a_bad_answer_has_a_seat_of_its_own() -> None:
    network = FakeNetwork(a=[Line(answers(0.01, answer(b"busy", 503))), GOOD])
    with limited(network, in_flight=1, waiting=0, policy=Policy(backoff=AT_ONCE)) as (calls, _):
        assert calls.get(URL).content == b"ok"


def test_a_dead_endpoint_is_left_and_the_seat_with_it() -> None:
    network = FakeNetwork(a=Line(silent, connect=0.002, code=111), b=GOOD)
    with limited(network, "a", "b", in_flight=1) as (calls, _):
        for _ in range(4):
            assert calls.get(URL).content == b"ok"


def test_whoever_wins_the_race_needs_a_seat_as_well() -> None:
    """The free one does not answer its dial, the other that does is full: its connection goes
    back to the pool."""
    network = FakeNetwork(a=Line(silent, connect=math.inf), b=GOOD)
    with limited(network, "a", "b", in_flight=1, waiting=0, balance=PickFirst()) as (calls, _):
        with calls.stream("GET", URL) as response:
            assert response.extensions["outlast"].events[-1].address == "10.0.0.2:80"
            with pytest.raises(httpx.PoolTimeout, match="full: 1 requests"):
                calls.get(URL)
        assert len(network.requests) == 1
        assert calls.get(URL).content == b"ok"


def test_beside_a_suspect_one_there_is_no_seat_either() -> None:
    """Its place in the pool, that the second attempt was to have, is not lost."""
    network = FakeNetwork(a=Line(silent, acked=math.inf))
    with limited(network, in_flight=1, waiting=0, timeout=3.0) as (calls, _):
        with pytest.raises(httpx.ReadTimeout) as caught:
            calls.get(URL)
    told = " ".join(words(caught.value))
    assert "suspect" in told
    assert "is full" in told
    assert len(network.requests) == 1


# -- in line -------------------------------------------------------------------------------


def test_who_waits_is_let_in_when_an_answer_has_ended() -> None:
    network = FakeNetwork(a=GOOD)
    with limited(network, in_flight=1) as (_, engine):
        crowd = Crowd(engine, network)
        for name in "xyz":
            crowd.begin(name)
        crowd.until(1.0)
        assert list(crowd.ended) == ["x"]
        crowd.close("x")
        crowd.until(2.0)
        assert list(crowd.ended) == ["x", "y"]  # first come, first served
        assert crowd.at("y") == pytest.approx(1.01 + STANDS)  # what was left unread is closed
        crowd.close("y")
        crowd.until(3.0)
        crowd.close("z")
    assert len(network.requests) == 3


def test_a_read_answer_lets_in_without_being_closed() -> None:
    network = FakeNetwork(a=GOOD)
    with limited(network, in_flight=1, waiting=0) as (calls, _):
        for _ in range(3):
            response = calls.send(calls.build_request("GET", URL), stream=True)
            response.read()
        assert len(network.streams) == 1


def test_the_line_is_no_longer_than_allowed_and_no_longer_than_the_pool_timeout() -> None:
    network = FakeNetwork(a=GOOD)
    with limited(network, in_flight=1, waiting=1) as (_, engine):
        crowd = Crowd(engine, network)
        crowd.begin("x")
        crowd.begin("y", pool=1.5)
        crowd.begin("z")
        crowd.until(5.0)
        assert crowd.at("z") == 0.0
        assert "1 waiting of at most 1" in crowd.failure("z")
        assert crowd.at("y") == pytest.approx(1.5)
        assert crowd.failure("y").startswith("waited 1.500 s in line at 10.0.0.1:80: 1 requests")
        crowd.close("x")
    assert len(network.requests) == 1


def test_a_deadline_ends_the_wait_too() -> None:
    network = FakeNetwork(a=GOOD)
    with limited(network, in_flight=1) as (_, engine):
        crowd = Crowd(engine, network)
        crowd.begin("x")
        crowd.begin("y", policy=Policy(deadline=0.5))
        crowd.until(5.0)
        assert crowd.at("y") == pytest.approx(0.5)
        crowd.close("x")


def test_one_that_is_cancelled_in_line_leaves_it() -> None:
    network = FakeNetwork(a=GOOD)
    with limited(network, in_flight=1) as (_, engine):
        crowd = Crowd(engine, network)
        for name in "xyz":
            crowd.begin(name)
        crowd.until(1.0)
        crowd.strands.cancel("y")
        crowd.close("x")
        crowd.until(2.0)
        assert crowd.at("z") == pytest.approx(1.01 + STANDS)
        crowd.close("z")


def test_one_that_is_cancelled_when_it_was_just_let_in_gives_the_place_on() -> None:
    network = FakeNetwork(a=GOOD)
    with limited(network, in_flight=1) as (_, engine):
        crowd = Crowd(engine, network)
        for name in "xyz":
            crowd.begin(name)
        crowd.until(1.0)
        crowd.close("x")  # y is in flight from here on, and does not know it
        crowd.strands.cancel("y")
        crowd.until(2.0)
        assert crowd.at("z") == pytest.approx(1.01 + STANDS)
        crowd.close("z")
    assert len(network.requests) == 2


def test_an_answer_that_was_never_closed_is_missed_within_a_second() -> None:
    network = FakeNetwork(a=GOOD)
    with limited(network, in_flight=1) as (_, engine):
        crowd = Crowd(engine, network)
        crowd.begin("x")
        crowd.begin("y")
        crowd.until(0.5)
        del crowd.ended["x"]
        gc.collect()
        crowd.until(5.0)
        assert crowd.at("y") <= 1.5
        crowd.close("y")


def test_a_hedge_has_a_seat_too() -> None:
    """And does without, where there is none: it is not worth a refusal."""
    network = FakeNetwork(a=Line(answers(1.0)))
    policy = Policy(hedge=0.05)
    with limited(network, in_flight=1, waiting=0, policy=policy) as (calls, _):
        response = calls.get(URL)
    assert response.content == b"ok"
    assert len(network.requests) == 1
    assert "is full" in " ".join(words(response))
    network = FakeNetwork(a=[Line(answers(1.0)), GOOD])
    with limited(network, in_flight=2, waiting=0, policy=policy) as (calls, _):
        assert calls.get(URL).content == b"ok"
    assert network.time < 0.1


# -- connections ---------------------------------------------------------------------------


def test_a_request_waits_for_the_only_connection() -> None:
    network = FakeNetwork(a=GOOD)
    with limited(network, connections=1) as (_, engine):
        crowd = Crowd(engine, network)
        crowd.begin("x")
        crowd.begin("y")
        crowd.until(1.0)
        assert list(crowd.ended) == ["x"]
        got = crowd.ended["x"][1]
        assert isinstance(got, Answer)
        run_sync(network, got.read())
        assert got.at_hand() == b""  # read to its end: the connection is free
        crowd.until(2.0)
        assert crowd.at("y") == pytest.approx(1.01)
        crowd.close("y")
    assert len(network.streams) == 1


def test_connections_that_have_gone_do_not_count() -> None:
    def once(stream: FakeStream) -> None:
        if stream.request() is not None:
            stream.says(0.01, answer(b"ok", 200, b"Connection: close"))

    network = FakeNetwork(a=[Line(silent, connect=0.0, code=111), Line(once)])
    with limited(network, connections=1) as (calls, _):
        for _ in range(4):
            assert calls.get(URL).content == b"ok"
    assert len(network.streams) == 5


def test_a_dial_that_failed_does_not_count() -> None:
    network = FakeNetwork(a=[Line(silent, connect=math.inf), GOOD])
    with limited(network, connections=1, policy=Policy(open_attempts=1)) as (calls, _):
        timeout = httpx.Timeout(None, connect=0.2)
        with pytest.raises(httpx.ConnectTimeout):
            calls.get(URL, timeout=timeout)
        assert calls.get(URL).content == b"ok"


def test_idle_ones_of_another_transport_count() -> None:
    network = FakeNetwork(a=GOOD)
    with limited(network, connections=1) as (calls, engine):
        calls.get(URL)
        aim = Target(target("a"), circuit=CircuitLimits(connections=1))
        other = outlast.Transport(network=network, targets={URL: aim})
        with httpx.Client(transport=other) as second:
            with pytest.raises(httpx.PoolTimeout, match="1 connections of at most 1"):
                second.get(URL)
            engine.drop(None, "to make room", abort=False)
            assert second.get(URL).content == b"ok"


# -- a limit that finds itself -------------------------------------------------------------


@pytest.mark.parametrize("by", ["answers", "silence"])
def test_a_limit_sinks_where_it_is_too_much_for_the_endpoint(by: str) -> None:
    busy = answers(0.2, answer(b"busy", 503))
    network = FakeNetwork(a=Line(busy if by == "answers" else silent))
    plan = AdaptivePlan(start=20, least=3)
    policy = Policy(attempts=1, attempt_timeout=0.5)
    with limited(network, adaptive=plan, policy=policy) as (calls, engine):
        for _ in range(30):
            with contextlib.suppress(httpx.ReadTimeout):
                calls.get(URL)
        (service,) = engine._services.values()
        assert service.circuits is not None
        (door,) = service.circuits._doors.values()
        limit = door.circuit.limit
        assert limit is not None
        assert 3 <= limit < 15
