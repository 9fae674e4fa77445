"""redis-py, without timeouts (its default until version 8): a client each time, or one for all."""

from __future__ import annotations

import redis

from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads, right


def _client() -> redis.Redis:
    return redis.Redis(HOST, PORT, socket_timeout=None, socket_connect_timeout=None)


shared = _client()


def new() -> None:
    """A new connection."""
    with _client() as own:
        right(own.get("stock"))


def pooled() -> None:
    """The client's pool."""
    right(shared.get("stock"))


in_threads(lambda: new if MODE == "new" else pooled)
