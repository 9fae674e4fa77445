"""redis-py's asyncio client, without timeouts: a client each time, or one for all tasks."""

from __future__ import annotations

import asyncio

import redis.asyncio

from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_tasks, right


def _client() -> redis.asyncio.Redis:
    return redis.asyncio.Redis(
        host=HOST, port=PORT, socket_timeout=None, socket_connect_timeout=None
    )


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
