"""Which connections `transport.drop` means: all, an origin's, a target's, or those to an endpoint.

An address means every connection that goes there; a target also those whose endpoints come from
it; an origin, `http://host:port`, those for its URLs. Refuses text that is none of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from outlast.http.connection import Connection
from outlast.http.engine import Engine
from outlast.target import parse_origin, parse_target

__all__ = ["drop"]


def drop(engine: Engine, which: Any, reason: Any, *, abort: bool) -> int:
    """See `SyncShell.drop`."""
    if not isinstance(reason, str) or not reason:
        raise ValueError(f"reason: {reason!r} is no text, such as 'the database has failed over'")
    return engine.drop(None if which is None else _wanted(engine, which), reason, abort=abort)


def _wanted(engine: Engine, which: Any) -> Callable[[Connection], bool]:
    if isinstance(which, str) and which.strip().lower().startswith(("http://", "https://")):
        origin = parse_origin(which.strip())
        return lambda connection: connection.route.origin == origin
    target = parse_target(which)
    addresses = frozenset(target.addresses)
    return lambda connection: (
        connection.address in addresses
        or engine.service(connection.route.origin).target.text == target.text
    )
