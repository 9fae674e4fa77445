"""The deadline in a header, and split over attempts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.handing_on import deadline_header, share_of

ENVOY = "X-Envoy-Expected-Rq-Timeout-Ms"


@pytest.mark.parametrize(
    ("name", "left", "value"),
    [
        (ENVOY, 2.5, "2500"),
        (ENVOY, 0.001, "1"),
        (ENVOY, 0.0019, "1"),
        (ENVOY, 0.3, "300"),
        ("x-request-timeout", 2.5, "2.500"),
        ("x-request-timeout", 0.007, "0.007"),
        ("x-request-timeout", 1234567.0, "1234567.000"),
        ("grpc-timeout", 2.5, "2500m"),
        ("GRPC-Timeout", 0.001, "1m"),
        ("grpc-timeout", 99_999.0, "99999000m"),
        ("grpc-timeout", 100_000.0, "100000S"),
        ("grpc-timeout", 1e8, "1666666M"),
        ("grpc-timeout", 1e12, "99999999M"),
    ],
)
def test_the_form_goes_by_the_name(name: str, left: float, value: str) -> None:
    assert deadline_header(name, left) == value


@pytest.mark.parametrize("left", [math.inf, 0.0, -1.0, 0.0009])
@pytest.mark.parametrize("name", [ENVOY, "grpc-timeout", "x-request-timeout"])
def test_no_deadline_and_one_that_has_come_are_not_told(name: str, left: float) -> None:
    assert deadline_header(name, left) is None


@given(st.floats(0.001, 1e8))
def test_never_more_is_told_than_there_is(left: float) -> None:
    value = deadline_header("grpc-timeout", left) or ""
    assert len(value) <= 9
    factor = {"m": 0.001, "S": 1.0, "M": 60.0}[value[-1]]
    assert int(value[:-1]) * factor <= left + 1e-6
    assert float(deadline_header("x-left", left) or "inf") <= left + 1e-6
    assert int(deadline_header(ENVOY, left) or "0") / 1000 > left - 0.0011


@pytest.mark.parametrize(
    ("left", "attempts", "least", "share"),
    [
        (3.0, 3, 0.0, 1.0),
        (3.0, 1, 0.0, 3.0),
        (3.0, 0, 0.0, 3.0),
        (3.0, 3, 1.5, 1.5),
        (3.0, 3, 9.0, 3.0),
        (0.0, 3, 1.0, 0.0),
        (math.inf, 3, 1.0, math.inf),
    ],
)
def test_a_deadline_is_split_evenly(left: float, attempts: int, least: float, share: float) -> None:
    assert share_of(left, attempts, least) == share
