"""The times within a call, at exact instants: attempt timeouts, the deadline's header, hedges."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import outlast
from outlast import HedgePlan, PickFirst, Policy, Target, events
from tests.http.callers import words
from tests.http.fake_network import (
    FakeNetwork,
    FakeStream,
    Line,
    answer,
    answers,
    host_of,
    silent,
    target,
)
from tests.http.virtual_calls import AT_ONCE, URL, client

GOOD = Line(answers(0.01))
SLOW = Line(answers(1.0, answer(b"slow")))
STARTED = 0.001  # a connect; then the first byte is written


@pytest.fixture
def hedges() -> Iterator[list[events.HedgeStarted]]:
    """Those that are told of."""
    heard: list[events.HedgeStarted] = []

    def hear(event: events.OutlastEvent) -> None:
        assert isinstance(event, events.HedgeStarted)
        heard.append(event)

    with events.subscribe(hear, events.HedgeStarted):
        yield heard


def header_of(request: bytes, name: str) -> str | None:
    for line in request.decode().split("\r\n"):
        key, _, value = line.partition(": ")
        if key.lower() == name:
            return value
    return None


def at(network: FakeNetwork, *said: str) -> list[float]:
    return [moment for moment, _ in network.said(*said)]


# -- the attempt's own limit ---------------------------------------------------------------


def test_an_attempt_timeout_ends_an_attempt_not_the_call() -> None:
    network = FakeNetwork(a=Line(silent), b=GOOD)
    with client(network, "a", "b", policy=Policy(attempt_timeout=0.5, backoff=AT_ONCE)) as calls:
        response = calls.get(URL)
    assert response.content == b"ok"
    told = " ".join(words(response))
    if len(network.requests) == 2:  # a was picked first
        assert "within 0.5 s (attempt_timeout)" in told
        assert network.time == pytest.approx(0.5 + STARTED + 0.01)


def test_an_attempt_timeout_is_raised_when_nothing_else_can_be_done() -> None:
    network = FakeNetwork(a=Line(silent))
    with client(network, policy=Policy(attempt_timeout=0.5, backoff=AT_ONCE)) as calls:
        with pytest.raises(httpx.ReadTimeout, match=r"within 0\.5 s \(attempt_timeout\)"):
            calls.get(URL)
    assert network.time == pytest.approx(1.5)
    assert len(network.requests) == 3
    assert {stream.end for stream in network.streams} == {
        ("aborted", 0.5),
        ("aborted", 1.0),
        ("aborted", 1.5),
    }


def test_an_attempt_timeout_does_not_repeat_what_is_not_safe() -> None:
    network = FakeNetwork(a=Line(silent))
    with client(network, policy=Policy(attempt_timeout=0.5)) as calls:
        with pytest.raises(httpx.ReadTimeout):
            calls.post(URL, content=b"x")
    assert len(network.requests) == 1


def test_a_connect_counts_and_another_is_free() -> None:
    """Nothing was sent: the repeat costs no attempt, and a POST may have it."""
    network = FakeNetwork(a=[Line(silent, connect=30.0), GOOD])
    policy = Policy(attempt_timeout=0.1, attempts=1, open_attempts=1)
    with client(network, policy=policy) as calls:
        response = calls.post(URL, content=b"x")
    assert "nothing was sent within 0.1 s (attempt_timeout)" in " ".join(words(response))
    assert network.time == pytest.approx(0.1 + STARTED + 0.01)


def test_a_streamed_body_is_bounded_too() -> None:
    network = FakeNetwork(a=Line(silent, room=1000))
    with client(network, policy=Policy(attempt_timeout=0.5)) as calls:
        with pytest.raises(httpx.ReadTimeout, match="attempt_timeout"):
            calls.put(URL, content=iter([b"x" * 10_000]))
    assert network.time == pytest.approx(0.5)


def test_the_caller_s_read_timeout_stays_final() -> None:
    network = FakeNetwork(a=Line(silent))
    with client(network, policy=Policy(attempt_timeout=0.5), timeout=0.3) as calls:
        with pytest.raises(httpx.ReadTimeout):
            calls.get(URL)
    assert network.time == pytest.approx(0.301)
    assert len(network.requests) == 1


def test_a_deadline_is_split() -> None:
    """1.5 s for three attempts, then what is left for two, then all of it: the call's own end."""
    network = FakeNetwork(a=Line(silent))
    policy = Policy(deadline=1.5, attempt_timeout="split", backoff=AT_ONCE)
    with client(network, policy=policy) as calls:
        with pytest.raises(httpx.ReadTimeout, match=r"deadline of 1\.5 s"):
            calls.get(URL)
    assert at(network, "10.0.0.1 has") == pytest.approx([0.001, 0.501, 1.001])
    assert network.time == pytest.approx(1.5)


def test_a_repeat_that_cannot_succeed_is_not_begun() -> None:
    """No answer of late was quicker than 0.4 s, and 0.3 s are left."""

    def script(stream: FakeStream) -> None:
        if stream.request() is not None:
            if len(stream.network.requests) <= 20:
                stream.says(0.4, answer())
            else:
                stream.ends(0.7)

    network = FakeNetwork(a=Line(script))
    with client(network, policy=Policy(deadline=1.0, backoff=AT_ONCE)) as calls:
        for _ in range(20):
            calls.get(URL)
        with pytest.raises(httpx.RemoteProtocolError) as caught:
            calls.get(URL)
    assert len(network.requests) == 21
    assert "are left of the deadline, too few to succeed" in words(caught.value)[-1]


def hang_up(stream: FakeStream, after: float) -> None:
    if stream.request() is not None:
        stream.ends(after)


def test_a_suspect_attempt_has_no_more_time_than_another() -> None:
    """It is left and taken up again; the clock goes on."""
    network = FakeNetwork(a=Line(silent, acked=math.inf))
    policy = Policy(attempt_timeout=1.5, attempts=1)
    with client(network, policy=policy) as calls:
        with pytest.raises(httpx.ReadTimeout, match="attempt_timeout") as caught:
            calls.get(URL)
    assert network.time == pytest.approx(1.5)
    assert "suspect" in " ".join(words(caught.value))


def standings(network: FakeNetwork) -> dict[str, tuple[str, float | None]]:
    """How each endpoint stands, and what is known of its response time."""
    (shot,) = outlast.snapshot(network)
    return {each.address: (each.standing, each.latency) for each in shot.endpoints}


def test_it_speaks_against_the_endpoint() -> None:
    network = FakeNetwork(a=Line(silent), b=GOOD)
    aim = Target(target("a", "b"), balance=PickFirst())
    transport = outlast.Transport(
        network=network, targets={URL: aim}, policy=Policy(attempt_timeout=0.5, backoff=AT_ONCE)
    )
    with httpx.Client(transport=transport, timeout=None) as calls:
        assert calls.get(URL).content == b"ok"
        assert [standing for standing, _ in standings(network).values()] == ["out", "in"]
        began = network.time
        assert calls.get(URL).content == b"ok"
        assert network.time == pytest.approx(began + 0.01)


# -- the deadline handed on ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("X-Time-Left", ["1.999", "1.498"]),
        ("x-envoy-expected-rq-timeout-ms", ["1999", "1498"]),
        ("grpc-timeout", ["1999m", "1498m"]),
    ],
)
def test_the_server_is_told_how_much_time_is_left(name: str, values: list[str]) -> None:
    network = FakeNetwork(a=Line(lambda stream: hang_up(stream, 0.5)))
    policy = Policy(deadline=2.0, deadline_header=name, backoff=AT_ONCE, attempts=2)
    with client(network, policy=policy) as calls, pytest.raises(httpx.RemoteProtocolError):
        calls.get(URL)
    assert [header_of(each, name.lower()) for each in network.requests] == values


@pytest.mark.parametrize(
    ("more", "given", "value"),
    [
        ({"attempt_timeout": 0.5, "deadline": 2.0}, None, "0.499"),
        ({"attempt_timeout": 0.5}, None, "0.499"),
        ({}, None, None),
        ({"deadline": 2.0}, "9", "9"),
    ],
)
def test_the_attempt_s_limit_and_the_caller_s_own_header(
    more: dict[str, Any], given: str | None, value: str | None
) -> None:
    network = FakeNetwork(a=GOOD)
    headers = {} if given is None else {"x-left": given}
    with client(network, policy=Policy(deadline_header="X-Left", **more)) as calls:
        calls.get(URL, headers=headers)
    (request,) = network.requests
    assert header_of(request, "x-left") == value
    assert request.lower().count(b"x-left") == (value is not None)


# -- hedges --------------------------------------------------------------------------------


def test_a_hedge_that_wins(hedges: list[events.HedgeStarted]) -> None:
    network = FakeNetwork(a=[SLOW, GOOD])
    with client(network, policy=Policy(hedge=0.05)) as calls:
        response = calls.get(URL)
    assert response.content == b"ok"
    assert network.time == pytest.approx(STARTED + 0.05 + STARTED + 0.01)
    assert network.streams[0].end == ("aborted", 0.062)
    (hedge,) = hedges
    assert hedge.attempt == 1
    assert [hedge.after, hedge.at] == pytest.approx([0.05, 0.051])
    assert "late: no answer after 0.050 s: repeated" in " ".join(words(response))


def test_a_hedge_that_loses(hedges: list[events.HedgeStarted]) -> None:
    network = FakeNetwork(a=[Line(answers(0.1, answer(b"first"))), SLOW])
    with client(network, policy=Policy(hedge=0.05)) as calls:
        assert calls.get(URL).content == b"first"
        assert network.streams[1].end == ("aborted", 0.101)
    assert len(hedges) == 1


@pytest.mark.parametrize("code", [0, 111])
def test_a_hedge_that_fails_leaves_the_first_alone(code: int) -> None:
    fails = Line(lambda stream: hang_up(stream, 0.01), code=code)
    network = FakeNetwork(a=[SLOW, fails])
    with client(network, policy=Policy(hedge=0.05)) as calls:
        assert calls.get(URL).content == b"slow"
    assert network.time == pytest.approx(1.001)


def test_a_hedge_whose_answer_is_no_good_waits_for_the_first() -> None:
    network = FakeNetwork(a=[SLOW, Line(answers(0.01, answer(b"busy", 503)))])
    with client(network, policy=Policy(hedge=0.05)) as calls:
        assert calls.get(URL).content == b"slow"
    assert network.time == pytest.approx(1.001)


def test_both_fail_and_the_call_goes_on() -> None:
    first, second = (Line(lambda stream: hang_up(stream, 0.2)) for _ in range(2))
    network = FakeNetwork(a=[first, second, GOOD])
    with client(network, policy=Policy(hedge=0.05, backoff=AT_ONCE)) as calls:
        assert calls.get(URL).content == b"ok"
    assert at(network, "10.0.0.1 has") == pytest.approx([0.001, 0.052, 0.253])


def test_it_counts_from_the_first_byte_and_goes_elsewhere() -> None:
    """The connect is no part of the answer's time."""
    slow = Line(answers(1.0, answer(b"slow")), connect=0.2)
    network = FakeNetwork(a=slow, b=Line(answers(0.01), connect=0.2))
    policy = Policy(hedge=0.1, attempt_delay=1.0)
    with client(network, "a", "b", policy=policy) as calls:
        for _ in range(3):  # whoever is picked first
            assert calls.get(URL).content == b"ok"
    assert {stream.address.host for stream in network.streams} == {host_of("a"), host_of("b")}
    first = network.said("10.0.0.1 has")[0][0]
    after = [moment for moment in at(network, "10.0.0.2 has") if moment > first]
    assert after[0] - first in (pytest.approx(0.1), pytest.approx(0.3))  # pooled, or dialled


@pytest.mark.parametrize(
    ("method", "body"), [("POST", b"x"), ("PUT", [b"x"])], ids=["not safe", "not replayable"]
)
def test_not_of_what_may_not_be_sent_twice(
    method: str, body: Any, hedges: list[events.HedgeStarted]
) -> None:
    network = FakeNetwork(a=SLOW)
    with client(network, policy=Policy(hedge=0.05)) as calls:
        content = iter(body) if isinstance(body, list) else body
        assert calls.request(method, URL, content=content).content == b"slow"
    assert not hedges
    assert len(network.streams) == 1


def test_it_is_one_of_the_attempts_and_draws_on_the_budget(
    hedges: list[events.HedgeStarted],
) -> None:
    network = FakeNetwork(a=SLOW)
    for more in ({"attempts": 1}, {"retry_budget": (0, 0)}, {"dry_run": "hedge"}):
        with client(network, policy=Policy(hedge=0.05, **more)) as calls:
            assert calls.get(URL).content == b"slow"
    assert not hedges
    assert len(network.requests) == 3


def test_hedges_and_retries_share_the_budget(hedges: list[events.HedgeStarted]) -> None:
    """Two in ten seconds: a retry takes one, a hedge the other."""
    network = FakeNetwork(a=[Line(answers(0.0, answer(b"busy", 503))), SLOW])
    policy = Policy(hedge=0.05, retry_budget=(0, 0.2), backoff=AT_ONCE)
    with client(network, policy=policy) as calls:
        calls.get(URL)  # 503, again, late, hedged
        assert len(hedges) == 1
        assert len(network.requests) == 3
        calls.get(URL)
    assert len(hedges) == 1
    assert len(network.requests) == 4


def test_by_a_percentile_nothing_is_hedged_before_enough_is_known(
    hedges: list[events.HedgeStarted],
) -> None:
    def script(stream: FakeStream) -> None:
        if stream.request() is not None:
            number = len(stream.network.requests)
            stream.says(1.0 if number in (10, 61) else 0.1, answer())

    network = FakeNetwork(a=Line(script))
    with client(network, policy=Policy(hedge="p95")) as calls:
        for _ in range(60):
            calls.get(URL)
        assert not hedges  # the tenth was as late, too early
        calls.get(URL)
    (hedge,) = hedges
    assert hedge.after == pytest.approx(0.105)  # 5 % above the 95th percentile


def test_a_cancelled_call_leaves_nothing_behind() -> None:
    """The caller's own timeout while a hedge is out: both are ended."""
    network = FakeNetwork(a=Line(silent))
    with client(network, policy=Policy(hedge=0.05), timeout=0.3) as calls:
        with pytest.raises(httpx.ReadTimeout):
            calls.get(URL)
    assert [stream.end for stream in network.streams] == [("aborted", 0.301), ("aborted", 0.352)]


def test_what_a_loser_took_so_far_is_known() -> None:
    """Else the delay would sink with every hedge that wins; and the balance would take the late
    endpoint for one that was never asked."""
    network = FakeNetwork(a=SLOW, b=GOOD)
    aim = Target(target("a", "b"), balance=PickFirst())
    transport = outlast.Transport(network=network, targets={URL: aim}, policy=Policy(hedge=0.05))
    with httpx.Client(transport=transport, timeout=None) as calls:
        assert calls.get(URL).content == b"ok"
        (service,) = transport._engine._services.values()
        plan = HedgePlan(percentile=0.01, warm_up=1)
        after = service.response_times().after(plan)
        assert after == pytest.approx(1.05 * 0.061)
        latencies = [latency for _, latency in standings(network).values()]
        assert latencies == pytest.approx([0.061, 0.01])


def test_a_listener_hears_of_both_attempts() -> None:
    heard: list[str] = []
    network = FakeNetwork(a=[SLOW, GOOD])
    trace = {"trace": lambda name, info: heard.append(name)}
    with client(network, policy=Policy(hedge=0.05)) as calls:
        assert calls.get(URL, extensions=trace).content == b"ok"
    name = "http11.receive_response_headers"
    assert heard.count(f"{name}.started") == 2
    assert heard.count(f"{name}.complete") == heard.count(f"{name}.failed") == 1


def test_a_hedge_that_gets_no_connection_leaves_the_first_alone() -> None:
    """It takes no place away from anybody, and waits for one no longer than the pool timeout."""
    network = FakeNetwork(a=SLOW)
    limits = httpx.Limits(max_connections=1)
    timeout = httpx.Timeout(None, pool=0.3)
    with client(network, policy=Policy(hedge=0.05), limits=limits, timeout=timeout) as calls:
        response = calls.get(URL)
    assert response.content == b"slow"
    assert network.time == pytest.approx(1.001)
    assert "waited 0.300 s for a connection" in words(response)
    assert len(network.streams) == 1
