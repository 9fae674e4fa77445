"""redis-py with its adapter, without timeouts: a client each time, or one for all threads."""

from __future__ import annotations

import redis

from outlast.shims.adapters.redis import OutlastConnection
from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads, right


def _client() -> redis.Redis:
    pool = redis.ConnectionPool(
        OutlastConnection,
        host=HOST,
        port=PORT,
        socket_timeout=None,
        socket_connect_timeout=None,
    )
    return redis.Redis.from_pool(pool)


shared = _client()


def new() -> None:
    """A new connection."""
    with _client() as own:
        right(own.get("stock"))


def pooled() -> None:
    """The client's pool."""
    right(shared.get("stock"))


in_threads(lambda: new if MODE == "new" else pooled)
