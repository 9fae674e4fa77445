"""Sticky cookies: those that are named go, everything else stays byte for byte."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.cookies import OPENSHIFT, CookieName, without_cookies

ROUTE = b"24a9fa9d9e4f3bd3e8ad9a4ea4e9a2c1"
POD = b"0f343b0931126a20f133d67c2b018a3b"


@pytest.mark.parametrize(
    ("value", "names", "left"),
    [
        (b"a=1; route=x; b=2", ["route"], b"a=1; b=2"),
        (b"route=x; b=2", ["route"], b"b=2"),
        (b"a=1; route=x", ["route"], b"a=1"),
        (b"route=x", ["route"], None),
        (b"route=x;", ["route"], None),
        (b"route=x; ;", ["route"], None),
        (b"route=x; route=y; a=1", ["route"], b"a=1"),
        (b"route=x; SERVERID=y; a=1", ["route", "SERVERID"], b"a=1"),
        (b"a=1;route=x;b=2", ["route"], b"a=1;b=2"),
        (b'a="1, 2"; route="x"; b=\xe4', ["route"], b'a="1, 2"; b=\xe4'),
        (b"route; a=1", ["route"], b"a=1"),
        (b"route =x; a=1", ["route"], b"a=1"),
        (b"lb-7=x; lb-a=y; lb-9=z", [re.compile("lb-[0-9]")], b"lb-a=y"),
        (ROUTE + b"=" + POD + b"; a=1", [OPENSHIFT], b"a=1"),
        (ROUTE + b"=" + POD[:16] + b"; a=1", [OPENSHIFT], b"a=1"),
        (ROUTE + b'="' + POD + b'"; a=1', [OPENSHIFT], b"a=1"),
        (b"openshift=x; a=1", [OPENSHIFT], b"a=1"),
    ],
)
def test_named_cookies_are_left_out(
    value: bytes, names: list[CookieName], left: bytes | None
) -> None:
    assert without_cookies(value, names) == left


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (b"a=1; b=2", ["route"]),
        (b"a=route; b=2;  c", ["route"]),
        (b"Route=x; routes=y; xroute=z", ["route"]),
        (b"a=1", []),
        (b"", ["route"]),
        (b";;", ["route"]),
        (b"lb-77=x", [re.compile("lb-[0-9]")]),
        (ROUTE + b"=" + b"k8v2qjd1q8s0c3c8b6e6b0q1u4", [OPENSHIFT]),  # a session of Joomla's
        (ROUTE.upper() + b"=" + POD, [OPENSHIFT]),
        (ROUTE[:31] + b"=" + POD, [OPENSHIFT]),
        (b"JSESSIONID=" + POD, [OPENSHIFT]),
    ],
)
def test_other_cookies_stay(value: bytes, names: list[CookieName]) -> None:
    assert without_cookies(value, names) is value


NAMES = st.text("abc-", min_size=1, max_size=3)
VALUES = st.text("xyz=\"' ", max_size=5)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6), st.sets(NAMES, max_size=3))
def test_what_is_left_is_what_was_there_in_its_order(
    cookies: list[tuple[str, str]], names: set[str]
) -> None:
    value = "; ".join(f"{name}={text}" for name, text in cookies).encode()
    left = without_cookies(value, names)
    kept = [f"{name}={text}".strip() for name, text in cookies if name not in names]
    found = [] if left is None else [each.strip() for each in left.decode().split(";")]
    assert [each for each in found if each] == kept
