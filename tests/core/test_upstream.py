"""What a router or a mesh says about its own repeats."""

from __future__ import annotations

import pytest

from outlast.core.upstream import SILENT, Upstream, read_upstream


def read(**headers: str) -> Upstream:
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return read_upstream(named.get)


def test_most_answers_say_nothing() -> None:
    assert read() is SILENT
    assert read(x_envoy_attempt_count="soon") is SILENT
    assert Upstream(1, "", None) == SILENT


@pytest.mark.parametrize(
    ("text", "attempts"),
    [
        ("1", 1),
        ("3", 3),
        (" 2 ", 2),
        ("0", 1),
        ("-1", 1),
        ("2.5", 1),
        ("", 1),
        ("\u0663", 1),
        ("9" * 9, 999_999_999),
        ("9" * 5000, 1),
    ],
)
def test_the_requests_of_a_proxy_are_counted(text: str, attempts: int) -> None:
    assert read(x_envoy_attempt_count=text).attempts == attempts


@pytest.mark.parametrize("name", ["x_envoy_overloaded", "x_envoy_ratelimited"])
@pytest.mark.parametrize("value", ["true", "", "no"])
def test_its_presence_forbids_a_repeat(name: str, value: str) -> None:
    assert read(**{name: value}).stop == name.replace("_", "-")


def test_the_time_of_the_endpoint_behind_is_in_seconds() -> None:
    told = read(x_envoy_upstream_service_time="250", x_envoy_attempt_count="2")
    assert told == Upstream(2, "", 0.25)
    assert read(x_envoy_upstream_service_time="0").service_time == 0.0
    assert read(x_envoy_upstream_service_time="quick").service_time is None
