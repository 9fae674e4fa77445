"""LISTEN as people write it: what it means, and what is refused in which words."""

from __future__ import annotations

import pytest

from outlast.shims.forward.listen import ListenAt, parse_listen


@pytest.mark.parametrize(
    ("text", "hosts", "port", "public"),
    [
        ("127.0.0.1:5432", ("127.0.0.1",), 5432, False),
        (" 127.0.0.2:1 ", ("127.0.0.2",), 1, False),
        ("[::1]:5432", ("::1",), 5432, False),
        (":5432", ("127.0.0.1", "::1"), 5432, False),
        ("localhost:5432", ("127.0.0.1", "::1"), 5432, False),
        (":0", ("127.0.0.1", "::1"), 0, False),
        ("[::1]:0", ("::1",), 0, False),
        ("0.0.0.0:65535", ("0.0.0.0",), 65535, True),
        ("[::]:0", ("::",), 0, True),
        ("192.0.2.1:80", ("192.0.2.1",), 80, True),
    ],
)
def test_addresses(text: str, hosts: tuple[str, ...], port: int, public: bool) -> None:
    at = parse_listen(text)
    assert at == ListenAt(text.strip(), hosts=hosts, port=port)
    assert at.public is public


@pytest.mark.parametrize(
    ("text", "path", "mode"),
    [
        ("unix:/run/db.sock", "/run/db.sock", 0o600),
        ("unix:/run/db.sock?mode=660", "/run/db.sock", 0o660),
        ("unix:/run/a b?mode=0666", "/run/a b", 0o666),
    ],
)
def test_unix_sockets(text: str, path: str, mode: int) -> None:
    at = parse_listen(text)
    assert (at.path, at.mode, at.public, at.hosts) == (path, mode, False, ())


@pytest.mark.parametrize(("text", "given"), [("fd:db", "db"), ("fd:3", "3")])
def test_inherited_sockets(text: str, given: str) -> None:
    at = parse_listen(text)
    assert (at.given, at.public, at.what) == (given, False, f"listen {text!r}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no place"),
        (None, "names no place"),
        ("5432", "a port alone; write ':5432' for this machine only"),
        ("127.0.0.1", "has no port"),
        ("127.0.0.1:", "not a number from 1 to 65535"),
        ("127.0.0.1:x", "port 'x'"),
        (":", "port ''"),
        (":65536", "port '65536'"),
        (":-1", "port '-1'"),
        ("::1:5432", "has no port or no brackets"),
        ("[127.0.0.1]:80", "needs no brackets"),
        ("*:5432", "write '0.0.0.0:5432' or '[::]:5432' to be open to the network"),
        ("db.local:5432", "'db.local' is no IP address"),
        ("db.local:0", "'db.local' is no IP address"),
        ("unix:", "no full path"),
        ("unix:run/db.sock", "'run/db.sock' is no full path of a file"),
        ("unix:/run/", "no full path"),
        ("unix:/run/db.sock?mode=999", "'mode=999' is no mode; write 'unix:/run/db.sock?mode=660'"),
        ("unix:/run/db.sock?", "'' is no mode"),
        ("unix:/" + 107 * "x", "more than 107 bytes"),
        ("fd:", "'' is no name of a socket; write 'fd:db'"),
        ("fd:a b", "'a b' is no name"),
    ],
)
def test_what_is_refused(text: object, said: str) -> None:
    with pytest.raises(ValueError, match=r"^listen") as caught:
        parse_listen(text)
    assert said in str(caught.value)
