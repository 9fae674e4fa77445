"""Idle connections before use, at exact instants of virtual time: which are asked, which replaced.

A first request leaves the connection idle; a peer that has `died` takes bytes and says nothing.
"""

from __future__ import annotations

import math

import httpx
import pytest

from outlast import Policy
from outlast.net.options import Keepalive
from tests.http.callers import report_of, words
from tests.http.fake_network import FakeNetwork, FakeStream, Line, answer, answers
from tests.http.virtual_calls import URL, client

GOOD = Line(answers(0.01))
KEY = {"Idempotency-Key": "one"}


def died(network: FakeNetwork) -> None:
    """The machine behind all connections that stand is gone, just now."""
    for stream in network.open:
        stream.line = Line(lambda stream: None, acked=math.inf)


def idle(calls: httpx.Client, network: FakeNetwork, seconds: float) -> float:
    """One request, and so many seconds later; the time then."""
    calls.get(URL)
    network.time += seconds
    return network.time


# -- what may not be repeated --------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.0, 0.9, 0.98])
def test_what_was_heard_within_a_second_is_verified(seconds: float) -> None:
    """By the clock alone if its last call began within that second: nobody is asked."""
    network = FakeNetwork(a=GOOD)
    with client(network) as calls:
        idle(calls, network, seconds)
        calls.post(URL)
    assert len(network.streams) == 1
    assert network.streams[0].looks == []
    assert network.streams[0].keepalives == []


@pytest.mark.parametrize("seconds", [1.2, 3.0, 4.4])
def test_what_is_silent_for_longer_is_asked_first(seconds: float) -> None:
    """A probe, and keepalive as before; it takes what the kernel's tick takes."""
    network = FakeNetwork(a=GOOD)
    with client(network) as calls:
        began = idle(calls, network, seconds)
        response = calls.post(URL)
        assert network.time == pytest.approx(began + 0.014)
    assert words(response) == ["reused"]
    assert len(network.streams) == 1
    assert [each for _, each in network.streams[0].keepalives] == [
        Keepalive(1, 1, 6),
        Keepalive(5, 1, 6),
    ]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_peer_that_does_not_answer_the_probe_gets_no_request(method: str) -> None:
    """50 ms are spent on it; then a new connection, and no attempt was made."""
    network = FakeNetwork(a=GOOD)
    with client(network, policy=Policy(attempts=1)) as calls:
        began = idle(calls, network, 3.0)
        died(network)
        response = calls.request(method, URL)
        assert response.content == b"ok"
        assert network.time == pytest.approx(began + 0.050 + 0.001 + 0.010)
    assert [len(stream.requests) for stream in network.streams] == [1, 1]
    assert network.streams[0].end == ("aborted", round(began + 0.050, 6))
    assert words(response)[0] == "not trusted with a request that is sent but once"
    assert len(report_of(response).events) == 3


def test_its_place_is_kept_for_the_dial() -> None:
    network = FakeNetwork(a=GOOD)
    with client(network, limits=httpx.Limits(max_connections=1)) as calls:
        for _ in range(3):
            idle(calls, network, 3.0)
            died(network)
            assert calls.post(URL).content == b"ok"


def test_a_peer_that_rebooted_is_gone() -> None:
    """Its reset is what the probe meets: the next connection, none suspect."""
    network = FakeNetwork(a=GOOD)
    with client(network) as calls:
        idle(calls, network, 3.0)
        died(network)
        network.streams[0].breaks(0.001)
        response = calls.post(URL)
    assert words(response)[0] == "closed by the peer while idle"
    assert len(network.streams) == 2


@pytest.mark.parametrize(
    ("method", "headers"), [("GET", {}), ("PUT", {}), ("DELETE", {}), ("POST", KEY)]
)
def test_a_safe_request_waits_for_no_probe(method: str, headers: dict[str, str]) -> None:
    network = FakeNetwork(a=GOOD)
    with client(network) as calls:
        began = idle(calls, network, 3.0)
        calls.request(method, URL, headers=headers)
        assert network.time == pytest.approx(began + 0.010)
    assert network.streams[0].looks == []


def test_a_body_that_is_sent_once_is_not_repeatable_either() -> None:
    network = FakeNetwork(a=GOOD)
    with client(network) as calls:
        idle(calls, network, 3.0)
        died(network)
        assert calls.put(URL, content=iter([b"one"])).content == b"ok"
    assert [len(stream.requests) for stream in network.streams] == [1, 1]


@pytest.mark.parametrize("policy", [Policy(keepalive=None), Policy(keepalive=Keepalive(1, 1, 6))])
def test_what_cannot_be_asked_is_replaced(policy: Policy) -> None:
    """Keepalive is off. Where it asks every second by itself, the peer was heard just now."""
    network = FakeNetwork(a=GOOD)
    with client(network, policy=policy) as calls:
        idle(calls, network, 3.2)
        calls.post(URL)
    assert len(network.streams) == (2 if policy.keepalive is None else 1)


# -- siblings ------------------------------------------------------------------------------


def many(calls: httpx.Client, count: int) -> None:
    """So many idle connections."""
    answers_ = [calls.send(calls.build_request("GET", URL), stream=True) for _ in range(count)]
    for each in answers_:
        each.read()


LIMITS = httpx.Limits(max_keepalive_connections=100)


def test_siblings_of_a_suspect_are_asked_together() -> None:
    """One request pays for all ten: the nine others are found out meanwhile."""
    network = FakeNetwork(a=GOOD)
    with client(network, limits=LIMITS) as calls:
        many(calls, 10)
        network.time += 3.0
        died(network)
        began = network.time
        assert calls.get(URL).content == b"ok"
        assert network.time == pytest.approx(began + 0.100 + 0.001 + 0.010)
        for _ in range(10):
            calls.get(URL)
            network.time += 0.01
        assert network.time == pytest.approx(began + 0.111 + 10 * 0.020)
    ends = [stream.end for stream in network.streams[:10]]
    assert sorted(end[1] for end in ends if end) == [
        *[pytest.approx(began + 0.111)] * 1,
        *[pytest.approx(began + 0.150, abs=0.002)] * 9,
    ]
    assert {end[0] for end in ends if end} == {"aborted"}
    assert len(network.streams) == 11


def test_living_siblings_stay() -> None:
    """Behind a VIP only some of them are dead."""
    network = FakeNetwork(a=GOOD)
    with client(network, limits=LIMITS) as calls:
        many(calls, 10)
        network.time += 3.0
        for stream in network.streams[5:]:
            stream.line = Line(lambda stream: None, acked=math.inf)
        for _ in range(3):
            calls.get(URL)
        network.time += 0.1
        calls.get(URL)
        assert len(network.open) == 6
    assert {stream.end[0] for stream in network.streams[:5] if stream.end} == {"closed"}
    assert {stream.end[0] for stream in network.streams[5:10] if stream.end} == {"aborted"}


def test_what_has_answered_since_is_not_asked() -> None:
    """Its last packet is younger than the evidence: it stays, without a probe."""
    network = FakeNetwork(a=GOOD)

    def slow(stream: FakeStream) -> None:
        if stream.request() is not None:
            stream.says(5.0, answer())

    with client(network, limits=LIMITS) as calls:
        many(calls, 2)
        network.time += 3.0
        network.streams[1].line = Line(slow, acked=math.inf)
        network.streams[0].heard = network.time + 0.05
        network.later(0.0, lambda: None)
        calls.get(URL)
    assert network.streams[0].keepalives == []
    assert network.streams[0].end is not None
    assert network.streams[0].end[0] == "closed"
