"""By what a request is hashed, where its target is balanced by `ConsistentHash`.

A header's value, a cookie's, or what the caller's own function makes of the request. Refuses to
guess: a request that has none is balanced like any other.
"""

from __future__ import annotations

from outlast.core.balance import Balance, ConsistentHash
from outlast.http.message import Headers, Request

__all__ = ["hash_key"]


def hash_key(balance: Balance, request: Request) -> bytes | None:
    """The key; None where the request has none, or nothing is hashed. What the caller's own
    function raises passes through."""
    if not isinstance(balance, ConsistentHash):
        return None
    if balance.header is not None:
        return _header(request.headers, balance.header.lower().encode("latin-1"))
    if balance.cookie is not None:
        return _cookie(request.headers, balance.cookie.encode("latin-1"))
    assert balance.key is not None
    key = balance.key(request.given)
    if key is None or isinstance(key, bytes):
        return key
    if not isinstance(key, str):
        raise TypeError(f"ConsistentHash: key returned {key!r}; return text, bytes or None")
    return key.encode()


def _header(headers: Headers, wanted: bytes) -> bytes | None:
    return next((value for name, value in headers if name.lower() == wanted), None)


def _cookie(headers: Headers, wanted: bytes) -> bytes | None:
    """RFC 6265 section 5.4: pairs behind semicolons; the first of that name."""
    for name, value in headers:
        if name.lower() == b"cookie":
            for pair in value.split(b";"):
                key, mark, found = pair.partition(b"=")
                if mark and key.strip() == wanted:
                    return found.strip()
    return None
