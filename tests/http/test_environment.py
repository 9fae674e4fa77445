"""The environment's proxies: the same ways as the family's own client goes, for many environments.

The family's client, built without a transport, is the oracle: which patterns it mounts, in which
order, which proxy each leads to, and which of them a URL takes.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import httpx
import httpx2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outlast.http.client import build_client
from outlast.http.environment import environment_routes
from outlast.http.family import family_in

FAMILIES = pytest.mark.parametrize("package", [httpx, httpx2], ids=["httpx", "httpx2"])
CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # given, so that nobody loads certificates

PROXIES = ["", "proxy:3128", "http://a.proxy:1", "https://u:p%40@b.proxy", "http://[::1]:8080", "p"]
ENTRIES = [
    *("*", "", " ", "localhost", "LocalHost", "example.com", ".example.com", "*.example.com"),
    *("www.example.com", "example.com:8080", "http://example.com", "https://", "all://b.c:99"),
    *("10.0.0.7", "10.0.0.7:80", "10.0.0.0/8", "10.0.0.0/99", "10.0.0.0/x", "::1", "[::1]"),
    *("fd00::/8", "[fd00::]/8", "[::1]:80", "fe80::1%eth0", "example.com/path", "*example.com"),
    *("*.10.0.0.0/8", "svc", ".svc", "cluster.local", "a b", "bücher.de", "1.2.3", "[", "%zz"),
]
URLS = [
    *("http://example.com/", "https://example.com/", "http://www.example.com:8080/", "http://p/"),
    *("http://notexample.com/", "https://10.0.0.7/", "http://10.1.2.3:80/", "http://[::1]:80/"),
    *("http://[fd00::5]/", "https://localhost/", "http://a.svc/", "https://b.cluster.local/"),
    *("http://xn--bcher-kva.de/", "http://b.c:99/", "ws://example.com/", "http://10.0.0.0/"),
]


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """These variables, and no other that speaks of proxies."""
    kept = {name: text for name, text in os.environ.items() if not name.lower().endswith("_proxy")}
    with mock.patch.dict(os.environ, kept | variables, clear=True):
        yield


def recording(package: Any) -> Any:
    """A transport of the family that keeps its arguments."""

    class Recording(package.BaseTransport):  # type: ignore[misc]  # a base known at run time
        def __init__(self, **given: Any) -> None:
            self.given = given

    return Recording


def plain(package: Any, **given: Any) -> Any:
    return package.Client(verify=CONTEXT, **given)


def ours(package: Any, **given: Any) -> Any:
    return build_client(
        family_in(package), package.Client, recording(package), {"verify": CONTEXT, **given}
    )


def outcome(make: Any, package: Any, **given: Any) -> tuple[Any, str | None]:
    """A client, or the error that there is none."""
    try:
        return make(package, **given), None
    except (ValueError, package.InvalidURL) as error:
        return None, f"{type(error).__name__}: {error}"


def proxy_of(transport: Any, package: Any) -> str | None:
    """Where a mounted transport leads, in the words of the oracle's pool."""
    if transport is None:
        return None
    if hasattr(transport, "given"):
        proxy = transport.given["proxy"]
        url = package.Proxy(proxy).url if isinstance(proxy, str) else proxy.url
        return f"{url.scheme}://{url.raw_host.decode()}:{url.port}"
    url = transport._pool._proxy_url
    return f"{url.scheme.decode()}://{url.host.decode()}:{url.port}"


def ways(client: Any, package: Any) -> list[tuple[str, str | None]]:
    """What is mounted, in the order of being asked."""
    return [(pattern.pattern, proxy_of(to, package)) for pattern, to in client._mounts.items()]


def taken(client: Any, package: Any, url: str) -> str | None:
    transport = client._transport_for_url(package.URL(url))
    return None if transport is client._transport else proxy_of(transport, package)


def the_same_ways(package: Any, variables: Mapping[str, str], **given: Any) -> None:
    with environment(**variables):
        theirs, error = outcome(plain, package, **given)
        mine, told = outcome(ours, package, **given)
    assert told == error
    if theirs is None:
        return
    assert ways(mine, package) == ways(theirs, package)
    for url in URLS:
        assert taken(mine, package, url) == taken(theirs, package, url), url


@FAMILIES
@pytest.mark.parametrize("entry", ENTRIES)
def test_each_entry_of_no_proxy(package: Any, entry: str) -> None:
    the_same_ways(package, {"HTTP_PROXY": "p:1", "ALL_PROXY": "q:2", "NO_PROXY": entry})


@FAMILIES
@settings(deadline=None)
@given(
    proxies=st.lists(st.sampled_from(PROXIES), min_size=3, max_size=3),
    entries=st.lists(st.sampled_from(ENTRIES), max_size=4),
    lower=st.booleans(),
)
@example(proxies=["p", "p", "p"], entries=["example.com", "*"], lower=False)
def test_many_environments(
    package: Any, proxies: list[str], entries: list[str], lower: bool
) -> None:
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    values = [*proxies, ",".join(entries)]
    variables = {
        name.lower() if lower else name: value for name, value in zip(names, values, strict=True)
    }
    the_same_ways(package, variables)


@FAMILIES
@settings(deadline=None)
@given(text=st.text(alphabet="*.:/[]%@0123456789abfx-,", max_size=16))
def test_any_no_proxy_at_all(package: Any, text: str) -> None:
    the_same_ways(package, {"ALL_PROXY": "p:1", "NO_PROXY": text})


@FAMILIES
def test_what_the_caller_says_wins(package: Any) -> None:
    variables = {"HTTP_PROXY": "a:1", "ALL_PROXY": "b:2", "NO_PROXY": "example.com"}
    the_same_ways(package, variables, trust_env=False)
    the_same_ways(package, variables, proxy="http://mine:3")
    the_same_ways(package, variables, mounts={"http://": None, "all://*example.com": None})
    the_same_ways(package, {"REQUEST_METHOD": "GET", **variables})  # a CGI script: no HTTP_PROXY


@FAMILIES
def test_a_scheme_that_is_no_proxys(package: Any) -> None:
    the_same_ways(package, {"ALL_PROXY": "gopher://a"})


def test_the_rules_are_those_of_the_version() -> None:
    package: Any = mock.Mock(wraps=httpx)
    package.InvalidURL, package.BaseTransport = httpx.InvalidURL, httpx.BaseTransport
    with environment(NO_PROXY="10.0.0.0/8,*.a.b,c/d"):
        for version, patterns in {
            "0.28.1": ["all://10.0.0.0/8", "all://**.a.b", "all://*c/d"],
            "2.14.0": ["all://10.0.0.0/8", "all://**.a.b"],
            "2.16.0": ["all://10.0.0.0/8", "all://*.a.b"],
            "3": ["all://10.0.0.0/8", "all://*.a.b"],
        }.items():
            package.__version__ = version
            family = mock.Mock(module=package)
            assert list(environment_routes(family)) == patterns, version
