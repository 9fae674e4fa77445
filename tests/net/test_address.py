"""Addresses and how people write them: what is wrong is named, and a right form shown."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.net.address import Address, literal, split_host_port

EXAMPLE = "orders.shop.svc:8080"


def split(text: str) -> tuple[str, int]:
    return split_host_port(text, what="target", example=EXAMPLE)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("orders.shop.svc:8080", "orders.shop.svc", 8080),
        ("10.0.0.1:1", "10.0.0.1", 1),
        ("10.0.0.1:65535", "10.0.0.1", 65535),
        ("[::1]:443", "::1", 443),
        ("[fe80::1%eth0]:443", "fe80::1%eth0", 443),
        ("localhost:0080", "localhost", 80),
        ("xn--bcher-kva.example:80", "xn--bcher-kva.example", 80),
        ("b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example:80", "b\xfccher.example", 80),
    ],
)
def test_host_and_port(text: str, host: str, port: int) -> None:
    assert split(text) == (host, port)


@pytest.mark.parametrize(
    ("text", "part", "form"),
    [
        ("orders", "no port", EXAMPLE),
        ("", "no host", EXAMPLE),
        (":80", "no host", EXAMPLE),
        ("[]:80", "no host", EXAMPLE),
        ("orders:", "port ''", "1 to 65535"),
        ("orders:http", "port 'http'", "1 to 65535"),
        ("orders:0", "port '0'", "1 to 65535"),
        ("orders:65536", "port '65536'", "1 to 65535"),
        ("orders:-1", "port '-1'", "1 to 65535"),
        ("orders:+80", "port '+80'", "1 to 65535"),
        ("orders:8 0", "port '8 0'", "1 to 65535"),
        ("orders:\N{FULLWIDTH DIGIT EIGHT}", "port", "1 to 65535"),
        ("orders:" + "9" * 5000, "port", "1 to 65535"),
        ("::1:80", "brackets", "'[::1]:80'"),
        ("fe80::7:443", "brackets", "'[fe80::7]:443'"),
        ("1:2:3:4:5:6:7:8:80", "brackets", "'[1:2:3:4:5:6:7:8]:80'"),
        ("fe80::7", "no port", "'[fe80::7]:80'"),
        ("[fe80::7]", "no port", "'[fe80::7]:80'"),
        ("[orders]:80", "'orders'", "brackets"),
        ("[::1:80", "'[::1'", EXAMPLE),
        ("a b:80", "'a b'", EXAMPLE),
        ("http://orders:80", "'http://orders'", EXAMPLE),
        ("user@orders:80", "'user@orders'", EXAMPLE),
        ("orders/path:80", "'orders/path'", EXAMPLE),
        ("orders:80/path", "port '80/path'", "1 to 65535"),
    ],
)
def test_what_is_wrong_is_named(text: str, part: str, form: str) -> None:
    with pytest.raises(ValueError) as failure:
        split(text)
    message = str(failure.value)
    assert message.startswith("target: ")
    assert part in message
    assert form in message


@given(st.text(max_size=30))
def test_any_text_is_split_or_refused_by_name(text: str) -> None:
    host, port, complaint = "", 0, ""
    try:
        host, port = split(text)
    except ValueError as error:
        complaint = str(error)
    assert complaint.startswith("target: ") or (host and 0 < port < 65536)


@pytest.mark.parametrize(
    ("host", "family"), [("10.0.0.1", socket.AF_INET), ("fd00::1", socket.AF_INET6)]
)
def test_a_literal(host: str, family: int) -> None:
    address = literal(host, 80)
    assert address is not None
    assert (address.family, address.host, address.port) == (family, host, 80)
    with socket.socket(family) as sock:
        sock.setblocking(False)
        assert len(sock.getsockname()) == len(address.sockaddr)


@pytest.mark.parametrize(
    "host", ["", "db", "10.0.0", "10.0.0.256", "0x7f.1", "1", "fe80::1%eth0", "10.0.0.1\0", "\xfc"]
)
def test_a_name_is_no_literal(host: str) -> None:
    assert literal(host, 80) is None


def test_an_address_is_written_as_people_write_it() -> None:
    assert str(literal("10.0.0.1", 80)) == "10.0.0.1:80"
    assert str(literal("fd00::1", 80)) == "[fd00::1]:80"
    assert split(str(literal("fd00::1", 80))) == ("fd00::1", 80)


def test_addresses_are_values() -> None:
    assert literal("10.0.0.1", 80) == Address(socket.AF_INET, ("10.0.0.1", 80))
    assert len({literal("10.0.0.1", 80), literal("10.0.0.1", 80)}) == 1
