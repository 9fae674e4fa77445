"""Targets and origins: the forms, and what is said of what is none."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast import NotAvailableYet
from outlast.net.address import Address
from outlast.target import Origin, Target, parse_origin, parse_target, target_of

GOOD = [
    ("orders.shop.svc:8080", ("orders.shop.svc", 8080), []),
    ("dns://orders.shop.svc:8080", ("orders.shop.svc", 8080), []),
    (" dns://orders.shop.svc:8080 ", ("orders.shop.svc", 8080), []),
    ("DNS://orders:1", ("orders", 1), []),
    ("localhost:65535", ("localhost", 65535), []),
    ("10.0.0.1:80", None, ["10.0.0.1:80"]),
    ("[::1]:80", None, ["[::1]:80"]),
    ("dns://10.0.0.1:80", None, ["10.0.0.1:80"]),
    ("static://10.0.0.1:80", None, ["10.0.0.1:80"]),
    ("static://10.0.0.1:80,10.0.0.2:81", None, ["10.0.0.1:80", "10.0.0.2:81"]),
    ("static://10.0.0.1:80, 10.0.0.1:80", None, ["10.0.0.1:80"]),
    ("Static://[fd00::1]:80,10.0.0.1:80", None, ["[fd00::1]:80", "10.0.0.1:80"]),
]

BAD = [
    ("", "'' names nothing"),
    ("   ", "names nothing"),
    ("orders.shop.svc", "'orders.shop.svc' has no port; write it like 'orders.shop.svc:8080'"),
    ("orders:", "port '' of 'orders:' is not a number from 1 to 65535"),
    ("orders:http", "port 'http'"),
    ("orders:0", "port '0'"),
    ("orders:65536", "port '65536'"),
    ("orders:80/x", "port '80/x'"),
    (":80", "':80' names no host"),
    ("or ders:80", "'or ders' of 'or ders:80' is no host"),
    ("user@orders:80", "is no host"),
    ("::1:80", r"has no port or no brackets; write '\[::1\]:80'"),
    ("dns://", "'' names no host"),
    ("static://", "'' names no host"),
    ("static://10.0.0.1:80,", "'' names no host"),
    ("static://10.0.0.1", "'10.0.0.1' has no port"),
    ("static://orders:80", "'orders' is no IP address.*for a name write 'dns://orders:80'"),
    ("static://10.0.0.256:80", "'10.0.0.256' is no IP address"),
    ("http://orders:80", "unknown scheme 'http'.*'static://10.0.0.1:8080"),
    ("dsn://orders:80", "unknown scheme 'dsn'"),
]


@pytest.mark.parametrize(("text", "name", "addresses"), GOOD)
def test_targets(text: str, name: tuple[str, int] | None, addresses: list[str]) -> None:
    target = parse_target(text)
    assert target.name == name
    assert [str(address) for address in target.addresses] == addresses


@pytest.mark.parametrize(("text", "told"), BAD)
def test_malformed_targets(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        parse_target(text)
    assert str(caught.value).startswith(f"target {text!r}" if text.strip() else "target: ")


@pytest.mark.parametrize("value", [None, b"10.0.0.1:80", 80, ("10.0.0.1", 80)])
def test_a_target_is_text(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^target: .* is no text; write 'orders.shop.svc:8080'"):
        parse_target(value)


@pytest.mark.parametrize(
    "text",
    [
        "srv://_http._tcp.orders.shop.svc",
        "k8s://shop/orders:http",
        "K8S://shop/orders:http",
        "nodeport://10.244.0.17,10.244.64.9:32727?healthCheckNodePort=31234",
    ],
)
def test_forms_that_come_later_are_named(text: str) -> None:
    scheme = text.partition("://")[0].lower()
    with pytest.raises(NotAvailableYet, match=f"{scheme}:// is not available yet; until then"):
        parse_target(text)
    assert issubclass(NotAvailableYet, ValueError)


def test_the_same_endpoints_are_the_same_target() -> None:
    """Knowledge is shared by text: whatever is written differently but means the same."""
    same = ["10.0.0.1:80", "static://10.0.0.1:80", "dns://10.0.0.1:80", "static:// 10.0.0.1:80"]
    assert {parse_target(text) for text in same} == {target_of("10.0.0.1", 80)}
    assert parse_target("dns://orders:80") == parse_target("orders:80") == target_of("orders", 80)
    assert parse_target("orders:80") != parse_target("orders:81")


@given(st.text(max_size=40))
def test_any_text_is_a_target_or_a_value_error(text: str) -> None:
    try:
        target = parse_target(text)
    except ValueError:
        return
    assert isinstance(target, Target)
    assert parse_target(target.text) == target
    assert all(isinstance(address, Address) for address in target.addresses)


# -- origins -------------------------------------------------------------------------------

ORIGINS = [
    ("http://orders.shop.svc:8080", Origin("http", "orders.shop.svc", 8080)),
    ("http://orders", Origin("http", "orders", 80)),
    ("https://orders", Origin("https", "orders", 443)),
    ("HTTP://Orders/", Origin("http", "orders", 80)),
    ("http://orders:443", Origin("http", "orders", 443)),
    ("http://10.0.0.1:81", Origin("http", "10.0.0.1", 81)),
    ("http://[::1]:81", Origin("http", "::1", 81)),
    ("http://bücher.example", Origin("http", "xn--bcher-kva.example", 80)),
]

NO_ORIGINS = [
    ("orders.shop.svc:8080", "is no http:// or https:// origin; write it like"),
    ("ftp://orders", "is no http:// or https:// origin"),
    ("http://", "is no http:// or https:// origin"),
    ("", "is no http:// or https:// origin"),
    ("http://orders/path", "has more than scheme, host and port"),
    ("http://orders?", "has more than scheme, host and port"),
    ("http://orders#top", "has more than scheme, host and port"),
    ("http://user@orders", "has more than scheme, host and port"),
    ("http://:secret@orders", "has more than scheme, host and port"),
    ("http://orders:http", "Invalid port"),
    ("http://orders:0", "port 0 is not from 1 to 65535"),
    ("http://orders:65536", "65536"),
    ("http://or ders", "'or%20ders' is no host|'or ders' is no host"),
    ("http://[::1", "http://"),
]


@pytest.mark.parametrize(("text", "origin"), ORIGINS)
def test_origins(text: str, origin: Origin) -> None:
    assert parse_origin(text) == origin
    assert parse_origin(str(origin)) == origin


@pytest.mark.parametrize(("text", "told"), NO_ORIGINS)
def test_malformed_origins(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        parse_origin(text)
    assert repr(text) in str(caught.value)
    assert "write it like 'http://orders.shop.svc:8080'" in str(caught.value)


@pytest.mark.parametrize("value", [None, 7, b"http://orders", httpx.URL("http://orders")])
def test_an_origin_is_text(value: Any) -> None:
    with pytest.raises(ValueError, match="no http:// or https:// origin"):
        parse_origin(value)


@given(st.text(max_size=30).map(lambda text: f"http://{text}"))
def test_any_key_is_an_origin_or_a_value_error(text: str) -> None:
    try:
        origin = parse_origin(text)
    except ValueError:
        return
    assert parse_origin(str(origin)) == origin
