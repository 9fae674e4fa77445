"""A dry run of ejections: the endpoint stays in, and an event tells what would have been."""

from __future__ import annotations

import math

import httpx
import pytest

import outlast
from outlast import HealthPlan, Policy, RoundRobin, Target, events
from outlast.core.health import Rule
from outlast.service.table import Service
from tests.http.fake_network import FakeNetwork, FakeStream, Line, answer, answers, silent, target
from tests.http.virtual_calls import AT_ONCE, URL


def reset(stream: FakeStream) -> None:
    if stream.request() is not None:
        stream.breaks(0.01)


def by_turns(stream: FakeStream) -> None:
    if stream.request() is not None:
        bad = len(stream.requests) % 2
        stream.says(0.01, answer(b"busy", 503) if bad else answer())


ILL = {
    "gateway_errors": Line(answers(0.01, answer(b"busy", 503))),
    "first_byte": Line(silent),
    "connect_failures": Line(silent, code=111),
    "resets": Line(reset),
    "suspect": Line(silent, acked=math.inf),
    "failure_rate": Line(by_turns),
    "latency": Line(answers(0.5)),
}
BOTH = Target(target("a", "b"), balance=RoundRobin(), health=HealthPlan(latency=0.2))
POLICIES = {"first_byte": {"first_byte": 0.1}}


def ejections(rule: str, **dry: object) -> tuple[set[bool], set[str]]:
    """What is told of an endpoint that breaks a rule, and how it stands in the end."""
    network = FakeNetwork(a=ILL[rule], b=Line(answers(0.01)))
    heard: list[events.EndpointEjected] = []

    def hear(event: events.OutlastEvent) -> None:
        assert isinstance(event, events.EndpointEjected)
        heard.append(event)

    policy = Policy(backoff=AT_ONCE, retry_budget=(10, 10), **POLICIES.get(rule, {}), **dry)  # type: ignore[arg-type]  # by kind
    transport = outlast.Transport(network=network, targets={URL: BOTH}, policy=policy)
    with events.subscribe(hear, events.EndpointEjected), httpx.Client(transport=transport) as calls:
        for _ in range(40):
            assert calls.get(URL).content == b"ok"
    (service,) = transport._engine._services.values()
    return {each.enforced for each in heard if each.rule == rule}, standings_of(service)


def standings_of(service: Service) -> set[str]:
    return service.look(lambda roster: {each.health.standing.value for each in roster})


@pytest.mark.parametrize("rule", sorted(ILL))
def test_a_rule_that_only_counts_puts_nobody_out(rule: str) -> None:
    enforced, standings = ejections(rule)
    assert enforced <= {True}
    assert standings != {"in"}
    enforced, standings = ejections(rule, dry_run="ejections")
    assert enforced <= {False}
    assert standings == {"in"}


def test_one_rule_alone() -> None:
    enforced, standings = ejections("gateway_errors", dry_run={Rule.LATENCY})
    assert enforced == {True}
    assert standings != {"in"}
    enforced, standings = ejections("gateway_errors", dry_run={"gateway_errors", "failure_rate"})
    assert enforced == {False}
    assert standings == {"in"}


def test_the_plan_of_the_target_is_as_it_was() -> None:
    """What one call's dry run weighs in its own way, another's does not."""
    network = FakeNetwork(a=ILL["gateway_errors"], b=Line(answers(0.01)))
    transport = outlast.Transport(network=network, targets={URL: BOTH})
    dry = {"outlast": {"dry_run": "ejections", "backoff": AT_ONCE}}
    with httpx.Client(transport=transport) as calls:
        for _ in range(40):
            calls.get(URL, extensions=dry)
        (service,) = transport._engine._services.values()
        assert service.look(lambda roster: {each.health.standing.value for each in roster}) == {
            "in"
        }
        for _ in range(40):
            calls.get(URL)
        assert service.look(lambda roster: {each.health.standing.value for each in roster}) != {
            "in"
        }
