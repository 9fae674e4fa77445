"""redis-py's asyncio client with its adapter: a client each time, or one for all tasks."""

from __future__ import annotations

import asyncio

import redis.asyncio

from outlast.shims.adapters.redis import OutlastAsyncConnection
from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_tasks, right


def _client() -> redis.asyncio.Redis:
    pool = redis.asyncio.ConnectionPool(
        OutlastAsyncConnection,
        host=HOST,
        port=PORT,
        socket_timeout=None,
        socket_connect_timeout=None,
    )
    return redis.asyncio.Redis.from_pool(pool)


async def main() -> None:
    """Both ways have the same client at hand."""

    async def new() -> None:
        async with _client() as own:
            right(await own.get("stock"))

    async with _client() as shared:

        async def pooled() -> None:
            right(await shared.get("stock"))

        await in_tasks(lambda: new if MODE == "new" else pooled)


asyncio.run(main())
