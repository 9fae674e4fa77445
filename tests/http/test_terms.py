"""What a policy says of every call: the terms, and that a call with the same policy finds them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from outlast.http.terms import terms_of
from outlast.policy import USER_TIMEOUT, Policy


@pytest.mark.parametrize(
    ("fields", "paced"),
    [
        ({}, False),
        ({"attempts": 5, "first_byte": 1.0}, False),
        ({"deadline": 1.0}, True),
        ({"hedge": 0.1}, True),
        ({"attempt_timeout": 1.0}, True),
        ({"deadline_header": "grpc-timeout"}, True),
    ],
)
def test_what_bounds_an_attempt_beside_the_callers_timeouts(
    fields: dict[str, Any], paced: bool
) -> None:
    assert terms_of(Policy(**fields), tells=True).paced is paced


@pytest.mark.parametrize(
    ("fields", "lowest"),
    [
        ({}, 429),
        ({"retry_status": [503]}, 503),
        ({"retry_status": [503], "unsafe_status": {"POST": [425]}}, 425),
        ({"retry_status": []}, math.inf),
        ({"retry_if": lambda _: False}, -math.inf),
    ],
)
def test_below_which_status_no_answer_is_repeated(fields: dict[str, Any], lowest: float) -> None:
    assert terms_of(Policy(**fields), tells=True).doubts_from == lowest


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, USER_TIMEOUT),
        ({"user_timeout": 5.0}, 5.0),
        ({"user_timeout": 5.0, "keepalive": (30, 10, 3)}, 5.0),
        ({"user_timeout": 0}, 0.0),
    ],
)
def test_how_long_the_kernel_may_hold_what_is_unacknowledged(
    fields: dict[str, Any], seconds: float
) -> None:
    assert terms_of(Policy(**fields), tells=True).user_timeout == seconds
    assert terms_of(Policy(**fields), tells=False).user_timeout == 0


def test_our_user_timeout_follows_the_callers_keepalive() -> None:
    assert terms_of(Policy(keepalive=(30, 10, 3)), tells=True).user_timeout > USER_TIMEOUT


def test_whether_some_rules_only_count() -> None:
    assert not terms_of(Policy(), tells=True).dry
    assert terms_of(Policy(dry_run="hedge"), tells=True).dry
