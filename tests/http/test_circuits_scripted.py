"""Circuit limits, at exact instants of virtual time: who waits, who is refused, who is let in."""

from __future__ import annotations

import contextlib
import gc
import math

import httpx
import pytest

import outlast
from outlast import ConsistentHash, PickFirst, Policy, events
from outlast.core.concurrency import AdaptivePlan
from outlast.http.answer import Answer
from outlast.net.run import run_sync
from tests.http.callers import words
from tests.http.fake_network import FakeNetwork, FakeStream, Line, answer, answers, silent, target
from tests.http.under_limits import GOOD, STANDS, Crowd, another, limited
from tests.http.virtual_calls import AT_ONCE, URL

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


def test_a_key_picks_under_limits_too() -> None:
    network = FakeNetwork(a=GOOD, b=GOOD, c=GOOD)
    hashed = ConsistentHash(header="x-user")
    with limited(network, "a", "b", "c", in_flight=5, balance=hashed) as (calls, _):
        for _ in range(20):
            calls.get(URL, headers={"x-user": "ann"})
    assert len(network.streams) == 1


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


def test_an_idle_one_of_another_transport_gives_way() -> None:
    """And one in use does not."""
    network = FakeNetwork(a=GOOD)
    with limited(network, connections=2) as (calls, _), another(network, connections=2) as second:
        with calls.stream("GET", URL) as held:
            second.get(URL)
            held.read()
            ours, theirs = network.streams
            assert network.open == [ours, theirs]  # each has its own
        with calls.stream("GET", URL), calls.stream("GET", URL):  # two of ours now
            assert ours.end is None
            assert theirs.end is not None
            assert len(network.open) == 2
            with pytest.raises(httpx.PoolTimeout, match="2 connections of at most 2"):
                second.get(URL, timeout=httpx.Timeout(None, pool=0.5))
        assert second.get(URL).content == b"ok"


def test_what_gives_way_is_told() -> None:
    network = FakeNetwork(a=GOOD)
    gone: list[str] = []

    def hear(event: events.OutlastEvent) -> None:
        assert isinstance(event, events.ConnectionClosed)
        gone.append(event.reason)

    with limited(network, connections=1) as (calls, _), another(network, connections=1) as second:
        calls.get(URL)
        with events.subscribe(hear, events.ConnectionClosed):
            assert second.get(URL).content == b"ok"
            assert calls.get(URL).content == b"ok"
        assert len(network.open) == 1
    assert gone == ["full", "full"]
    assert len(network.streams) == 3


def test_only_connections_that_count_give_way() -> None:
    """Another target, without limits, has the same endpoint."""
    network = FakeNetwork(a=GOOD)
    aims = {"http://free.svc": target("a")}
    with (
        httpx.Client(transport=outlast.Transport(network=network, targets=aims)) as free,
        limited(network, connections=1) as (calls, _),
        another(network, connections=1) as second,
    ):
        free.get("http://free.svc/")
        calls.get(URL)
        second.get(URL)
        theirs, first, _ = network.streams
        assert first.end is not None
        assert theirs.end is None


def test_an_idle_one_that_a_repeat_does_not_trust_gives_way() -> None:
    network = FakeNetwork(a=[Line(answers(0.01, answer(b"busy", 503))), GOOD])
    with limited(network, connections=1, policy=Policy(backoff=AT_ONCE)) as (calls, _):
        assert calls.get(URL).content == b"ok"
        assert len(network.open) == 1


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
