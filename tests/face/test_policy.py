"""The policy: every field, what it accepts, and what it says of what it does not."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import re
from typing import Any

import pytest
import tenacity
from hypothesis import given
from hypothesis import strategies as st

import outlast
import outlast.policy as policy_module
from outlast import Backoff, Keepalive, Policy
from outlast.core.budget import BudgetPlan
from outlast.core.call_steps import Repeat
from outlast.core.health_plan import Rule
from outlast.core.hedge import HedgePlan
from outlast.policy import current_override, seconds


def never(state: Any) -> bool:
    """A plain function may be any strategy."""
    return False


async def later(state: Any) -> bool:
    """A coroutine may be none."""
    return False


class Unhashable:
    """A strategy that no policy can hold."""

    __hash__ = None  # type: ignore[assignment]  # that is the point

    def __call__(self, state: Any) -> bool:
        return False


WAIT = tenacity.wait_fixed(1) + tenacity.wait_random(0, 1)
STOP = tenacity.stop_after_attempt(3) | tenacity.stop_after_delay(5)
RETRY = tenacity.retry_if_exception_type(OSError)
ASYNC_RETRY = tenacity.asyncio.retry_if_exception(later)
PATTERN = re.compile("lb-.*")

# field: good values and what becomes of them
GOOD: dict[str, list[tuple[Any, Any]]] = {
    "attempts": [(1, 1), (100, 100)],
    "deadline": [(None, None), (2, 2.0), (0.5, 0.5), ("250ms", 0.25), ("5s", 5.0), ("2m", 120.0)],
    "attempt_timeout": [(None, None), (2, 2.0), ("250ms", 0.25), ("split", "split")],
    "retry_status": [
        ({502}, frozenset({502})),
        ([502, 503, 502], frozenset({502, 503})),
        ((), frozenset()),
        (range(500, 502), frozenset({500, 501})),
    ],
    "unsafe_status": [
        ({}, {}),
        ({"POST": {503}}, {"POST": frozenset({503})}),
        ({"post": [503], "POST": [502]}, {"POST": frozenset({502, 503})}),
        ({"M-SEARCH": {503}}, {"M-SEARCH": frozenset({503})}),
    ],
    "idempotent": [(None, None), (True, True), (False, False)],
    "backoff": [(Backoff(0.0, 0.0), Backoff(0.0, 0.0)), (WAIT, WAIT), (never, never)],
    "stop": [(None, None), (STOP, STOP), (never, never)],
    "retry_if": [(None, None), (RETRY, RETRY), (never, never)],
    "retry_budget": [
        ((0.1, 5), BudgetPlan(0.1, 5)),
        ([0, 0], BudgetPlan(0, 0)),
        (BudgetPlan(0.5, 1.0), BudgetPlan(0.5, 1.0)),
    ],
    "hedge": [
        (None, None),
        ("off", None),
        (0.05, HedgePlan(delay=0.05)),
        ("50ms", HedgePlan(delay=0.05)),
        ("p95", HedgePlan(percentile=0.95)),
        ("p99.9", HedgePlan(percentile=99.9 / 100)),
        (HedgePlan(delay=0.1), HedgePlan(delay=0.1)),
    ],
    "retry_after_limit": [(0, 0.0), ("1m", 60.0)],
    "connect_timeout": [(0.1, 0.1), ("3s", 3.0)],
    "attempt_delay": [(None, None), (0.05, 0.05), ("10ms", 0.01)],
    "open_attempts": [(1, 1), (8, 8)],
    "keepalive": [
        (None, None),
        (Keepalive(5, 1, 6), Keepalive(5, 1, 6)),
        ((7, 2, 3), Keepalive(7, 2, 3)),
        ([7, 2, 3], Keepalive(7, 2, 3)),
    ],
    "user_timeout": [(0, 0.0), (0.001, 0.001), ("11s", 11.0)],
    "watch": [(True, True), (False, False)],
    "first_byte": [(None, None), ("2s", 2.0)],
    "repeat_unacknowledged": [(True, True), (False, False)],
    "deadline_header": [
        (None, None),
        ("grpc-timeout", "grpc-timeout"),
        ("X-Envoy-Expected-Rq-Timeout-Ms", "X-Envoy-Expected-Rq-Timeout-Ms"),
    ],
    "sticky_cookies": [
        ((), frozenset()),
        ("openshift", frozenset({"openshift"})),
        (PATTERN, frozenset({PATTERN})),
        (["SERVERID", PATTERN], frozenset({"SERVERID", PATTERN})),
    ],
    "dry_run": [
        ((), frozenset()),
        ("hedge", frozenset({Repeat.HEDGE})),
        (Rule.NODE, frozenset({Rule.NODE})),
        (["retry_status", "gateway_errors"], frozenset({Repeat.STATUS, Rule.GATEWAY_ERRORS})),
        ({"repeats"}, frozenset(Repeat)),
        ({"ejections", "repeats"}, frozenset({*Rule, *Repeat})),
        ({Repeat.HEDGE, "hedge"}, frozenset({Repeat.HEDGE})),
    ],
    "idle_expiry": [("60s", 60.0), (1e-9, 1e-9)],
    "max_age": [(300, 300.0)],
}

BAD: dict[str, list[Any]] = {
    "attempts": [0, 101, -1, 1.0, "3", None, True],
    "deadline": [0, -1, "soon", "5", "5h", math.inf, math.nan, True, [5], 10**400, "1e400s"],
    "attempt_timeout": [0, -1, "soon", "splits", True],
    "retry_status": [None, 503, "503", b"503", [99], [600], ["503"], [True], [[502]], [None]],
    "unsafe_status": [None, {503}, "POST", {503: "POST"}, {"POST": 503}, {"": [503]}, {"A B": [1]}],
    "idempotent": [0, 1, "yes"],
    "backoff": [None, 0.1, (0.1, 1.0), Backoff, tenacity.wait_fixed, STOP, RETRY, later],
    "stop": [0, 5, "never", tenacity.stop_after_attempt, WAIT, RETRY, later, Unhashable()],
    "retry_if": [True, "always", tenacity.retry_always.__class__, WAIT, STOP, later, ASYNC_RETRY],
    "retry_budget": [None, 0.2, (0.2,), (0.2, 3, 4), (-0.1, 3), ("20%", 3), (0.2, math.inf)],
    "hedge": [0, -0.1, True, "p", "p0", "p100", "p95%", "95", "pp", "always", [0.1], ()],
    "retry_after_limit": [None, -1, "long"],
    "connect_timeout": [None, 0, -1, "0s"],
    "attempt_delay": [0, -0.1, "fast", 0.001, "9ms"],
    "open_attempts": [0, 2.0, None],
    "keepalive": [0, True, (5, 1), (5, 1, 6, 7), "5s", (0, 1, 6), (5, 1, 128), (5.0, 1, 6)],
    "user_timeout": [None, -1, 0.0004, "on"],
    "watch": [None, 0, "no"],
    "first_byte": [0, -1, "soon"],
    "repeat_unacknowledged": [None, 1, "yes"],
    "deadline_header": ["", "a b", ":path", "Host", "content-length", b"x", 5, True],
    "sticky_cookies": [None, 5, b"route", [b"route"], [None], [""], ["a b"], re.compile(b"x")],
    "dry_run": [None, 5, True, "hedges", ["hedge", "latencies"], [None], [["hedge"]]],
    "idle_expiry": [None, 0, -1],
    "max_age": [None, 0, "old"],
}


def test_every_field_is_in_both_tables_and_in_the_documentation() -> None:
    fields = [field.name for field in dataclasses.fields(Policy)]
    assert list(GOOD) == fields
    assert list(BAD) == fields
    documented = inspect.getdoc(Policy) or ""
    assert [name for name in fields if f"\n{name}: " not in documented] == []


@pytest.mark.parametrize(
    ("name", "given_value", "becomes"),
    [(name, value, becomes) for name, values in GOOD.items() for value, becomes in values],
)
def test_what_a_field_accepts(name: str, given_value: Any, becomes: Any) -> None:
    for policy in (Policy(**{name: given_value}), Policy().merged({name: given_value})):
        assert getattr(policy, name) == becomes
        assert type(getattr(policy, name)) is type(becomes)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values]
)
def test_what_a_field_refuses(name: str, value: Any) -> None:
    """A ValueError that begins with the field's name, wherever the value was given."""
    with pytest.raises(ValueError, match=f"^{name}"):
        Policy(**{name: value})
    with pytest.raises(ValueError, match=f"^{name}"):
        Policy().merged({name: value})
    with pytest.raises(ValueError, match=f"^{name}"), outlast.override(**{name: value}):
        raise AssertionError("the block was entered")
    assert current_override() is None


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"attempts": 0}, "0 is not a whole number from 1 to 100"),
        ({"deadline": "5h"}, "'5h' is no duration; write seconds (2.5), '5s' or '250ms'"),
        ({"deadline": 0}, "must be more than 0 seconds, such as 2.5"),
        ({"retry_status": 503}, "503 is no set of status codes, such as {502, 503}"),
        ({"retry_status": [999]}, "999 is not a status code from 100 to 599"),
        ({"unsafe_status": [503]}, "does not map methods, such as {'POST': {503}}"),
        ({"unsafe_status": {"POST": 503}}, "unsafe_status['POST']: 503 is no set"),
        ({"unsafe_status": {"A B": [503]}}, "'A B' is no method, such as 'POST'"),
        ({"backoff": 1}, "1 is no Backoff, such as Backoff(base=0.025, cap=0.25), and no wait"),
        ({"backoff": tenacity.wait_fixed}, "is a class, not a strategy made of it; write wait_"),
        ({"stop": WAIT}, "is a strategy for backoff; write stop_after_delay(5)"),
        ({"stop": 5}, "5 is no strategy; write stop_after_delay(5), or a function of a state"),
        ({"stop": Unhashable()}, "has no hash, so no policy can hold it"),
        ({"retry_if": ASYNC_RETRY}, "is a coroutine; write retry_if_exception_type("),
        (
            {"attempt_timeout": "half"},
            "write seconds (2.5), '5s' or '250ms', or 'split' for",
        ),
        ({"retry_budget": 0.2}, "0.2 is not (ratio, per_second), such as (0.2, 3.0)"),
        ({"hedge": "p100"}, "neither 'off' nor a delay (0.05, '50ms') nor a percentile of"),
        ({"deadline_header": "Host"}, "'Host' is no header for this; write 'x-envoy-expected-"),
        ({"sticky_cookies": 5}, "5 names no cookies; write {'SERVERID'}"),
        ({"sticky_cookies": ["a;"]}, "'a;' is no cookie's name; write {'SERVERID'}"),
        ({"dry_run": "hedges"}, "'hedges' is no rule; the rules are repeats, ejections, retry_u"),
        ({"keepalive": 5}, "5 is neither None nor (idle, interval, count) in seconds"),
        ({"keepalive": (0, 1, 6)}, "keepalive idle: 0 is not a whole number from 1 to 32767"),
        ({"user_timeout": 0.0001}, "less than 1 ms; write 11, '250ms', or 0 for off"),
        ({"watch": 1}, "1 is not True or False"),
        ({"attempt_delay": 0.001}, "less than 10 ms, which RFC 8305 section 5 forbids; write 0.05"),
    ],
)
def test_errors_show_a_right_form(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        Policy(**fields)
    assert text in str(caught.value)


def test_unknown_fields_are_all_named() -> None:
    for unknown in ({"atempts": 3, "deadlien": 1}, {"atempts": 3, "attempts": 3, "deadlien": 1}):
        with pytest.raises(ValueError, match="unknown field 'atempts', 'deadlien'; the fields are"):
            Policy().merged(unknown)
        with pytest.raises(ValueError, match="unknown field 'atempts', 'deadlien'"):
            with outlast.override(**unknown):
                raise AssertionError("the block was entered")
    with pytest.raises(TypeError, match="atempts"):
        Policy(atempts=3)  # type: ignore[call-arg]  # the mistake is the test


def test_a_policy_is_a_value() -> None:
    policy = Policy(attempts=2, unsafe_status={"POST": {503}})
    assert policy == Policy(attempts=2, unsafe_status={"post": {503}})
    assert policy != Policy(attempts=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.attempts = 3  # type: ignore[misc]  # the mistake is the test
    assert policy.merged({}) == policy
    assert policy.merged({"attempts": 5}).unsafe_status == policy.unsafe_status
    assert policy.attempts == 2


def test_equal_policies_have_the_same_hash() -> None:
    """As keys, and in sets."""
    for name, values in GOOD.items():
        for given_value, _ in values:
            policy = Policy(**{name: given_value})
            assert {policy: name}[Policy(**{name: getattr(policy, name)})] == name
    methods = {"POST": {503}, "PATCH": {502}}
    one, other = (
        Policy(unsafe_status=methods),
        Policy(unsafe_status=dict(reversed(methods.items()))),
    )
    assert len({one, other, Policy(), Policy(attempts=2), Policy(attempts=2)}) == 3


def test_type_checkers_are_told_of_every_field() -> None:
    """What may be given is written down beside what it becomes: the same names, in one order."""
    tree = ast.parse(inspect.getsource(policy_module))
    told = [
        [argument.arg for argument in node.args.kwonlyargs]
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    ]
    assert told == [[field.name for field in dataclasses.fields(Policy)]]


def test_what_the_caller_changes_later_does_not_matter() -> None:
    statuses, methods = {503}, {"POST": {503}}
    policy = Policy(retry_status=statuses, unsafe_status=methods)
    statuses.add(500)
    methods["PATCH"] = {503}
    methods["POST"].add(500)
    assert policy == Policy(retry_status={503}, unsafe_status={"POST": {503}})


# -- durations -----------------------------------------------------------------------------


@given(st.floats(min_value=0, max_value=1e6))
def test_a_number_is_seconds(number: float) -> None:
    assert seconds(number, "x") == number


@given(st.integers(min_value=0, max_value=10**6))
def test_a_unit_is_one_of_three(number: int) -> None:
    assert seconds(f"{number}s", "x") == number
    assert seconds(f"{number}ms", "x") == pytest.approx(number / 1000)
    assert seconds(f"{number}m", "x") == 60 * number


@given(
    st.one_of(
        st.none(),
        st.booleans(),
        st.text().filter(lambda text: not text.strip().endswith(("s", "m"))),
        st.floats(max_value=0, exclude_max=True),
        st.integers(max_value=-1),
        st.sampled_from([math.inf, math.nan, 10**9, "infs", "nanms", "-1s", "ms", "s", "1d"]),
        st.binary(),
        st.lists(st.integers()),
    )
)
def test_anything_else_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^some field: .* is no duration; write seconds \(2.5\)"):
        seconds(value, "some field")


# -- blocks --------------------------------------------------------------------------------


def test_blocks_nest() -> None:
    with outlast.override(attempts=2, deadline="5s"):
        with outlast.override(attempts=1):
            assert current_override() == {"attempts": 1, "deadline": "5s"}
        assert current_override() == {"attempts": 2, "deadline": "5s"}
        with outlast.override():
            assert current_override() == {"attempts": 2, "deadline": "5s"}
    assert current_override() is None


def test_a_block_may_be_a_decorator() -> None:
    @outlast.override(attempts=1)
    def legacy() -> object:
        return current_override()

    assert legacy() == {"attempts": 1}
    assert legacy() == {"attempts": 1}
    assert current_override() is None
