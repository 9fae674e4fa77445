"""Answers that come later than their target's plan allows (`HealthPlan.latency`), at exact instants
of virtual time: good for the caller, and held against the endpoint."""

from __future__ import annotations

import httpx
import pytest

import outlast
from outlast import HealthPlan, Policy, RoundRobin, Target, events
from tests.http.fake_network import FakeNetwork, FakeStream, Line, answer, answers, target
from tests.http.virtual_calls import URL

GOOD = Line(answers(0.01))
LIMIT = 0.2


def made(network: FakeNetwork, *hosts: str, policy: Policy | None = None) -> httpx.Client:
    aim = Target(target(*hosts), balance=RoundRobin(), health=HealthPlan(latency=LIMIT))
    transport = outlast.Transport(network=network, targets={URL: aim}, policy=policy)
    return httpx.Client(transport=transport, timeout=None)


def asked(network: FakeNetwork, host: str) -> int:
    return sum(len(each.requests) for each in network.streams if each.address.host == host)


@pytest.mark.parametrize(("seconds", "out"), [(0.19, False), (0.21, True)])
def test_who_answers_late_is_asked_no_more(seconds: float, out: bool) -> None:
    network = FakeNetwork(a=Line(answers(seconds)), b=GOOD)
    told: list[events.OutlastEvent] = []
    with events.subscribe(told.append, events.EndpointEjected), made(network, "a", "b") as calls:
        for _ in range(40):
            assert calls.get(URL).content == b"ok"
    if out:
        (ejected,) = told
        assert isinstance(ejected, events.EndpointEjected)
        assert (ejected.address, ejected.rule, ejected.evidence) == (
            "10.0.0.1:80",
            "latency",
            "answers",
        )
        assert asked(network, "10.0.0.1") == 10  # as many as a rate takes
    else:
        assert not told
        assert asked(network, "10.0.0.1") == 20


def test_the_only_endpoint_goes_on_being_asked() -> None:
    network = FakeNetwork(a=Line(answers(0.5)))
    with made(network, "a") as calls:
        for _ in range(20):
            assert calls.get(URL).content == b"ok"
    (seen,) = outlast.snapshot(network).targets[0].endpoints
    assert (seen.standing, seen.rule) == ("out", "latency")


def test_a_slow_upload_is_no_slow_answer() -> None:
    """What counts is the time from the request's end."""

    def slow(stream: FakeStream) -> None:
        stream.opens(0.3)
        if stream.request() is not None:
            stream.says(0.01, answer(b"ok", 200, b"Connection: close"))

    network = FakeNetwork(a=Line(slow, room=1000), b=GOOD)
    with made(network, "a", "b") as calls:
        for _ in range(30):
            assert calls.put(URL, content=bytes(2000)).content == b"ok"
    assert asked(network, "10.0.0.1") == 15
    assert network.time > 15 * 0.3


def test_one_that_its_hedge_has_overtaken_by_then_was_slow() -> None:
    network = FakeNetwork(a=Line(answers(5.0)), b=Line(answers(0.1)))
    with made(network, "a", "b", policy=Policy(hedge=0.15, retry_budget=(1, 10))) as calls:
        for _ in range(40):
            assert calls.get(URL).content == b"ok"
    seen = outlast.snapshot(network).targets[0].endpoints[0]
    assert (seen.standing, seen.rule) == ("out", "latency")
