"""A transport's arguments, checked and in this library's own words.

They are `httpx.HTTPTransport`'s, and mean what they mean there. What is wrong, or not served yet,
is a ValueError that names the argument and shows a right form; nothing is passed over.
"""

from __future__ import annotations

import functools
import importlib.util
import ipaddress
import math
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

from outlast.http.h1 import H1Exchange
from outlast.http.tickets import PoolLimits
from outlast.net.options import SocketOption
from outlast.net.seam import Stream
from outlast.policy import Policy
from outlast.target import Origin, Target, parse_origin, parse_target

__all__ = [
    "Cert",
    "Parser",
    "Verify",
    "read_http1_parser",
    "read_limits",
    "read_local_address",
    "read_policy",
    "read_protocols",
    "read_socket_options",
    "read_targets",
    "read_tls",
]

Verify: TypeAlias = "ssl.SSLContext | str | bool"
Parser: TypeAlias = Literal["h11", "httptools"]
Cert: TypeAlias = "str | tuple[str, str] | tuple[str, str, str]"
MAX_CONNECTIONS, MAX_KEEPALIVE = 100, 20  # httpx's defaults


def read_protocols(http1: bool, http2: bool) -> tuple[str, ...]:
    """What ALPN offers, the preferred one first. HTTP/2 alone is spoken without TLS too."""
    if not (http1 or http2):
        raise ValueError("http1=False and http2=False leave no protocol; set one of them to True")
    if http2 and importlib.util.find_spec("h2") is None:
        raise ImportError("http2=True needs the package h2: pip install 'outlast[http2]'")
    return (*(("h2",) if http2 else ()), *(("http/1.1",) if http1 else ()))


def read_http1_parser(name: Any) -> Callable[[Stream], H1Exchange]:
    """What makes the exchanges of an HTTP/1.1 connection. httptools is imported only on use."""
    if name == "h11":
        return H1Exchange
    if name != "httptools":
        raise ValueError(f"http1_parser: {name!r} is no parser; write 'h11' or 'httptools'")
    if importlib.util.find_spec("httptools") is None:
        raise ImportError(
            "http1_parser='httptools' needs that package: pip install 'outlast[httptools]'"
        )
    from outlast.http.h1_httptools import HttptoolsExchange

    return HttptoolsExchange


def read_policy(policy: Any) -> Policy:
    """The policy; the default one for None."""
    if policy is None:
        return Policy()
    if not isinstance(policy, Policy):
        raise ValueError(f"policy: {policy!r} is no outlast.Policy, such as Policy(attempts=3)")
    return policy


def read_targets(targets: Any) -> Mapping[Origin, Target]:
    """Origins and where their endpoints come from."""
    if targets is None:
        return {}
    if not isinstance(targets, Mapping):
        form = "{'http://orders.shop.svc:8080': 'static://10.0.0.1:8080'}"
        raise ValueError(f"targets: {targets!r} maps no origins to targets, such as {form}")
    found: dict[Origin, Target] = {}
    for key, text in targets.items():
        origin = parse_origin(key)
        if origin in found:
            raise ValueError(f"targets: key {key!r} names an origin a second time, {origin}")
        found[origin] = parse_target(text)
    return found


def read_limits(limits: Any, policy: Policy) -> PoolLimits:
    """httpx's limits; None there means no limit. The shorter of both idle times holds."""
    if limits is None:
        return PoolLimits(MAX_CONNECTIONS, MAX_KEEPALIVE, policy.idle_expiry)
    try:
        most, kept = limits.max_connections, limits.max_keepalive_connections
        expiry = limits.keepalive_expiry
    except AttributeError as error:
        form = "as in Limits(max_connections=9)"
        raise ValueError(f"limits: {limits!r} is no httpx.Limits, {form}") from error
    if most is not None and most < 1:
        raise ValueError(f"limits: max_connections={most!r} leaves no place; write 1 or more")
    return PoolLimits(
        _or_endless(most), _or_endless(kept), min(_or_endless(expiry), policy.idle_expiry)
    )


def _or_endless(value: float | None) -> float:
    return math.inf if value is None else value


def read_socket_options(options: Any) -> tuple[SocketOption, ...]:
    """What setsockopt takes; the kernel's own word on it comes with the first connection."""
    form = "write (level, option, value) with whole numbers, or bytes for the value"
    if options is None:
        return ()
    if not isinstance(options, Iterable):
        raise ValueError(f"socket_options: {options!r} is no list; {form}")
    given = [tuple(each) if isinstance(each, list) else each for each in options]
    for option in given:
        if not _is_option(option):
            raise ValueError(f"socket_options: {option!r}: {form}")
    return tuple(given)


def _is_option(option: Any) -> bool:
    if not isinstance(option, tuple) or len(option) not in (3, 4):
        return False
    level, number, *value = option
    if not isinstance(level, int) or not isinstance(number, int):
        return False
    if len(value) == 2:
        return value[0] is None and isinstance(value[1], int)
    return isinstance(value[0], (int, bytes, bytearray))


def read_local_address(address: Any) -> tuple[str, int] | None:
    """Where connections come from. A name is refused: binding to one would block on a look-up."""
    if address is None:
        return None
    try:
        ipaddress.ip_address(address if isinstance(address, str) else "")
    except ValueError as error:
        raise ValueError(
            f"local_address: {address!r} is no IP address, such as '10.0.0.7'"
        ) from error
    return (address, 0)


def read_tls(
    verify: Verify, cert: Cert | None, trust_env: bool, create: Callable[..., ssl.SSLContext]
) -> Callable[[], ssl.SSLContext]:
    """Makes the TLS context with the family's own `create`: at once if it may fail, else when
    the first https request comes, because loading the certificate store takes tens of
    milliseconds."""

    @functools.cache
    def make() -> ssl.SSLContext:
        return create(verify=verify, cert=cert, trust_env=trust_env)

    if verify is not True or cert is not None:
        make()
    return make
