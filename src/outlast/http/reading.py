"""Reads a family's request: its origin, its timeouts, and the policy that holds for it.

Over the transport's policy come the fields of `override` blocks, then the call's own
`extensions["outlast"]`. Unknown keys and wrong values raise ValueError before anything is sent.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from outlast.core.classify import IDEMPOTENT_METHODS
from outlast.errors import TransportFailure
from outlast.http.message import BytesBody, Request, Route, StreamBody, Timeouts
from outlast.policy import Policy, current_override
from outlast.target import DEFAULT_PORTS, Origin

if TYPE_CHECKING:
    from outlast.http.family import Family, FamilyRequest

__all__ = ["read_request"]

# A WebSocket begins as a request: libraries for them hand such URLs to a client.
SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
KEY = b"idempotency-key"  # draft-ietf-httpapi-idempotency-key-header


def read_request(
    request: FamilyRequest, policy: Policy, body: BytesBody | StreamBody, family: Family
) -> Request:
    """The engine's request. Raises ValueError; TypeError for a method that is no ASCII text, as
    httpx does; TransportFailure for a foreign scheme or a port that cannot be."""
    extensions = request.extensions
    own, fields = extensions.get("outlast"), current_override()
    if own is not None or fields is not None:
        policy = _merged(policy, fields, own)
    url = request.url
    route = _route(url.scheme, url.raw_host, url.port, extensions.get("sni_hostname"))
    if route is None:
        raise TransportFailure(
            "UnsupportedProtocol", f"{url!s} is no http:// or https:// URL with a host"
        )
    if route.origin.port > 65535:
        raise TransportFailure("ConnectError", f"{url!s}: port {url.port} is not from 1 to 65535")
    headers = request.headers.raw
    method = request.method
    if not method.isascii():
        raise TypeError(f"method {method!r} is no ASCII text")
    target = extensions.get("target", url.raw_path)
    given = extensions.get("timeout")
    if given is None:  # made without a client: it has none but the connect's
        timeouts = Timeouts(connect=policy.connect_timeout, read=None, write=None, pool=None)
    else:
        find = given.get
        timeouts = _limits(
            find("connect", policy.connect_timeout), find("read"), find("write"), find("pool")
        )
    safe = policy.idempotent
    if safe is None:
        safe = method in IDEMPOTENT_METHODS or _has_key(headers)
    # By position: by name it would take twice the time.
    return Request(
        route, method, target, headers, body, timeouts, policy, safe, None, request, family
    )


@functools.lru_cache(maxsize=1024)
def _route(scheme: str, raw_host: bytes, port: int | None, server_name: str | None) -> Route | None:
    """Where a URL leads; None for one that is not ours to serve."""
    scheme = SCHEMES.get(scheme, "")
    host = raw_host.decode("ascii")
    if port is None:
        port = DEFAULT_PORTS.get(scheme)
    if not scheme or port is None or not host:
        return None
    return Route(Origin(scheme, host, port), server_name or host)


def _merged(policy: Policy, fields: Mapping[str, Any] | None, own: object) -> Policy:
    if own is not None:
        if not isinstance(own, Mapping):
            raise ValueError(
                f'extensions["outlast"]: {own!r} is no mapping of policy fields, '
                'such as {"attempts": 1, "deadline": 2.0}'
            )
        fields = own if fields is None else {**fields, **own}
    return policy if not fields else policy.merged(fields)


def _has_key(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() == KEY for name, _ in headers)


_limits = functools.lru_cache(maxsize=64)(Timeouts)  # a client's requests nearly all have the same
