"""redis-py with a connection class of this library: no command hangs on a server that is lost.

Run `python examples/redis_adapter.py redis://HOST:PORT` (127.0.0.1:6379 if none is given); redis-py
comes by `pip install outlast[redis]`. Take the server's network away while it runs: calls fail
within 12 s though no timeout is set, and work again as soon as one endpoint of the name does.
"""

from __future__ import annotations

import sys
import time

import redis

import outlast
from outlast.shims.adapters.redis import OutlastConnection


def main(url: str) -> None:
    """Count, once a second, for ten seconds."""
    pool = redis.ConnectionPool.from_url(
        url,
        connection_class=OutlastConnection,
        policy=outlast.Policy(connect_timeout="2s"),
        socket_timeout=None,
    )
    client = redis.Redis(connection_pool=pool)
    for _ in range(10):
        began = time.monotonic()
        try:
            said = f"count is {client.incr('outlast:example')}"
        except redis.RedisError as error:
            said = f"{type(error).__name__}: {error}"
        print(f"{time.monotonic() - began:6.3f} s  {said}")
        time.sleep(1)
    pool.disconnect()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "redis://127.0.0.1:6379/0")
