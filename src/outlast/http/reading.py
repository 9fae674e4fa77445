"""Reads a family's request: its origin, its timeouts, and the policy that holds for it.

Over the transport's policy come the fields of `override` blocks, then the call's own
`extensions["outlast"]`. Unknown keys and wrong values raise ValueError before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from outlast.core.classify import IDEMPOTENT_METHODS
from outlast.errors import TransportFailure
from outlast.http.message import BytesBody, Request, Route, StreamBody, Timeouts
from outlast.policy import Policy, current_override
from outlast.target import DEFAULT_PORTS, Origin

if TYPE_CHECKING:
    from outlast.http.family import FamilyRequest

__all__ = ["read_request"]

KEY = b"idempotency-key"  # draft-ietf-httpapi-idempotency-key-header


def read_request(request: FamilyRequest, policy: Policy, body: BytesBody | StreamBody) -> Request:
    """The engine's request. Raises ValueError, or TransportFailure for a foreign scheme."""
    extensions = request.extensions
    policy = _policy(policy, extensions.get("outlast"))
    url = request.url
    host = url.raw_host.decode("ascii")
    port = DEFAULT_PORTS.get(url.scheme) if url.port is None else url.port
    if url.scheme not in DEFAULT_PORTS or port is None or not host:
        raise TransportFailure(
            "UnsupportedProtocol", f"{url!s} is no http:// or https:// URL with a host"
        )
    headers = request.headers.raw
    method = request.method
    return Request(
        route=Route(Origin(url.scheme, host, port), extensions.get("sni_hostname") or host),
        method=method,
        target=extensions.get("target", url.raw_path),
        headers=headers,
        body=body,
        timeouts=_timeouts(extensions.get("timeout"), policy),
        policy=policy,
        safe=_safe(method, headers, policy),
    )


def _policy(policy: Policy, own: object) -> Policy:
    fields = current_override()
    if own is not None:
        if not isinstance(own, Mapping):
            raise ValueError(
                f'extensions["outlast"]: {own!r} is no mapping of policy fields, '
                'such as {"attempts": 1, "deadline": 2.0}'
            )
        fields = own if fields is None else {**fields, **own}
    return policy if not fields else policy.merged(fields)


def _safe(method: str, headers: list[tuple[bytes, bytes]], policy: Policy) -> bool:
    if policy.idempotent is not None:
        return policy.idempotent
    return method in IDEMPOTENT_METHODS or any(name.lower() == KEY for name, _ in headers)


def _timeouts(given: Mapping[str, float | None] | None, policy: Policy) -> Timeouts:
    """The caller's timeouts; a request made without a client has none but the connect's."""
    if given is None:
        return Timeouts(connect=policy.connect_timeout, read=None, write=None, pool=None)
    return Timeouts(
        connect=given.get("connect", policy.connect_timeout),
        read=given.get("read"),
        write=given.get("write"),
        pool=given.get("pool"),
    )
