"""Which destinations a shim looks after: patterns, defaults, mappings, and bad words."""

from __future__ import annotations

import pytest

from outlast.shims.scope import EVERYTHING, REMEMBERED, Scope, parse_pattern, parse_scope

FAR = ("10.96.0.2", 8080)


def looks_after(scope: Scope, host: str, port: int = 8080) -> bool:
    return scope.target_for(host, port) is not None


@pytest.mark.parametrize("host", ["10.96.0.2", "fd00::7", "orders.shop.svc", "8.8.8.8", "a"])
def test_by_default_all_that_leaves_the_link_is_in_scope(host: str) -> None:
    target = EVERYTHING.target_for(host, 80)
    assert target is not None
    assert target.text in (f"dns://{host}:80", f"static://{host}:80", f"static://[{host}]:80")


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST.", "0.0.0.0", "::", ""),
        *("169.254.169.254", "fe80::1", "fe80::1%eth0", "224.0.0.251", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254"),
    ],
)
def test_what_stays_here_is_left_alone(host: str) -> None:
    assert not looks_after(EVERYTHING, host)
    assert not looks_after(parse_scope(skip=["10.0.0.0/8"]), host)


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_what_is_no_port_is_left_alone(port: int) -> None:
    assert not looks_after(EVERYTHING, "10.0.0.1", port)


@pytest.mark.parametrize(
    ("pattern", "host", "port", "meets"),
    [
        ("orders.shop.svc", "orders.shop.svc", 1, True),
        ("orders.shop.svc", "Orders.Shop.SVC.", 1, True),
        ("orders.shop.svc", "orders.shop", 1, False),
        ("*.svc", "orders.shop.svc", 443, True),
        ("*.svc", "orders.shop.svc.example", 443, False),
        ("*.svc:443", "orders.shop.svc", 80, False),
        ("*", "10.0.0.1", 80, True),
        ("*:5432-5440", "db", 5440, True),
        ("*:5432-5440", "db", 5441, False),
        ("10.96.0.0/12", "10.100.0.1", 80, True),
        ("10.96.0.0/12:80", "10.100.0.1", 81, False),
        ("10.96.0.0/12", "fd00::1", 80, False),
        ("10.96.0.0/12", "::ffff:10.96.0.2", 80, True),
        ("10.96.0.0/12", "ten.example", 80, False),
        ("10.0.0.1:80", "10.0.0.1", 80, True),
        ("fd00::1", "fd00:0:0::1", 80, True),
        ("[fd00::1]:80", "fd00::1", 81, False),
        ("[fd00::]/8:80", "fd12::1", 80, True),
        ("fd00::/8", "fd12::1", 99, True),
    ],
)
def test_patterns(pattern: str, host: str, port: int, meets: bool) -> None:
    assert looks_after(parse_scope(only=[pattern]), host, port) is meets
    assert looks_after(parse_scope(only=["*"], skip=[pattern]), host, port) is not meets


def test_only_may_name_what_stays_here() -> None:
    assert looks_after(parse_scope(only=["127.0.0.0/8"]), "127.0.0.1")


def test_what_is_mapped_goes_to_its_target_whatever_only_and_skip_say() -> None:
    scope = parse_scope(
        ["*.svc"], ["*"], {"db:5432": "static://10.0.0.1:5432,10.0.0.2:5432", "127.0.0.1": "x:1"}
    )
    target = scope.target_for("db", 5432)
    assert target is not None
    assert [str(each) for each in target.addresses] == ["10.0.0.1:5432", "10.0.0.2:5432"]
    assert looks_after(scope, "127.0.0.1", 7)
    assert not looks_after(scope, "db", 5433)


def test_names_are_those_that_are_named_one_by_one() -> None:
    scope = parse_scope(
        ["*.svc", "b.svc:80", "c.svc:80-81", "10.0.0.1:80"],
        [],
        {"a.svc:5432": "static://1.2.3.4:1"},
    )
    assert scope.names == (("a.svc", 5432), ("b.svc", 80))


def test_scopes_of_the_same_words_are_equal_and_what_is_remembered_is_bounded() -> None:
    one, other = parse_scope(["*.svc"]), parse_scope(["*.svc"])
    for number in range(REMEMBERED + 10):
        one.target_for(f"n{number}.svc", 80)
    assert one == other
    assert hash(one) == hash(other)
    assert len(one._known) <= REMEMBERED


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "names no host"),
        ("  ", "names no host"),
        ("a b", "names no host"),
        (7, "names no host"),
        (":80", "no host"),
        ("a:0", "no port"),
        ("a:65536", "no port"),
        ("a:9-8", "no port"),
        ("a:http", "no port"),
        ("10.0.0.1/8", "no network"),
        ("10.0.0.0/33", "no network"),
        ("a/8", "no network"),
        ("http://a", "no port"),
        ("a@b", "no host"),
    ],
)
def test_bad_words_are_refused_by_name(text: object, part: str) -> None:
    with pytest.raises(ValueError, match=f"^here.*{part}"):
        parse_pattern(text, "here")


def test_one_text_is_no_list() -> None:
    with pytest.raises(ValueError, match=r"^only: '\*.svc' is one text"):
        parse_scope("*.svc")


def test_a_bad_target_is_named() -> None:
    with pytest.raises(ValueError, match="unknown scheme 'ftp'"):
        parse_scope(targets={"a:1": "ftp://x"})
    with pytest.raises(ValueError, match=r"^targets: key 'a:x'"):
        parse_scope(targets={"a:x": "static://1.2.3.4:1"})
