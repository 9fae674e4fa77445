"""The arguments of the active check by HTTP: what is wrong is a ValueError naming the part."""

from __future__ import annotations

import re
from typing import Any

import pytest

from outlast.http.check_http import HttpCheck
from outlast.service.check_kinds import CheckKind


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "healthz"}, "path 'healthz' is none; write it like '/healthz?full=1'"),
        ({"path": "/a b"}, "path '/a b'"),
        ({"path": "/a#b"}, "path '/a#b'"),
        ({"path": "/\r\nx: y"}, "path "),
        ({"path": "/ä"}, "path '/ä'"),
        ({"path": None}, "path None"),
        ({"host": ""}, "host ''"),
        ({"host": "a/b"}, "host 'a/b'"),
        ({"host": "a b"}, "host 'a b'"),
        ({"host": "a\r\nx: y"}, "host "),
        ({"host": 5}, "host 5"),
        ({"method": "GET /"}, "method 'GET /'"),
        ({"method": ""}, "method ''"),
        ({"status": 200}, "status 200 is no set of status codes; write {200, 204}"),
        ({"status": "200"}, "status '200' is no set"),
        ({"status": set()}, "status set() is empty"),
        ({"status": range(200, 200)}, "status range(200, 200) is empty"),
        ({"status": {100}}, "status 100 is not from 200 to 599"),
        ({"status": {600}}, "status 600"),
        ({"status": {True}}, "status True"),
        ({"status": ["200"]}, "status '200'"),
        ({"body": "ready"}, "body 'ready' is neither bytes nor a pattern of bytes"),
        ({"body": b""}, "body b'' is neither"),
        ({"body": re.compile("up")}, "body re.compile('up') is neither"),
        ({"body": b"x", "method": "HEAD"}, "body: an answer to HEAD has none"),
        ({"headers": "x: y"}, "headers 'x: y' are no pairs"),
        ({"headers": 5}, "headers 5 are no pairs"),
        ({"headers": ["xy"]}, "headers: 'xy' is no pair"),
        ({"headers": [("x", "y", "z")]}, "headers: ('x', 'y', 'z') is no pair"),
        ({"headers": {"x y": "1"}}, "headers: 'x y' is no name of a field"),
        ({"headers": {"x": "1\r\ny: 2"}}, "headers: 'x' cannot be"),
        ({"headers": {"x": 1}}, "headers: 'x' cannot be 1"),
        ({"headers": {"Host": "a"}}, "headers: 'Host' is the check's own to say; write host=..."),
        ({"headers": {"Connection": "a"}}, "headers: 'Connection' is the check's own to say"),
        ({"headers": {"content-length": "3"}}, "headers: 'content-length'"),
        ({"port": 0}, "port 0 is not from 1 to 65535"),
        ({"tls": "yes"}, "tls 'yes' is not True, False or None"),
        ({"tls": 1}, "tls 1 is not"),
        ({"fall": 0}, "fall 0 is no number of checks"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as caught:
        HttpCheck(**given)
    assert str(caught.value).startswith(f"HttpCheck: {said}")


def test_they_are_values_whatever_they_were_made_of() -> None:
    statuses = [200, 204]
    made = HttpCheck(status=statuses, headers={"x": "1"})
    statuses.append(500)
    assert made == HttpCheck(status={204, 200}, headers=[("x", "1")])
    assert len({made, HttpCheck(status=(200, 204), headers=(("x", "1"),))}) == 1
    kind: CheckKind = made
    assert kind.at_once == 256
