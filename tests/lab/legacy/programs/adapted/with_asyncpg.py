"""asyncpg with its adapter: a connection each time, or a pool for all tasks.

The modes `new-uvloop` and `pooled-uvloop` do the same on uvloop.
"""

from __future__ import annotations

import asyncio

from outlast.shims.adapters import asyncpg
from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_tasks, right

QUERY = "SELECT count FROM stock WHERE id = 1"


async def new() -> None:
    """A new connection."""
    connection = await asyncpg.connect(host=HOST, port=PORT, user="postgres")
    try:
        right(await connection.fetchval(QUERY))
    finally:
        await connection.close()


async def main() -> None:
    """The pool is there in both ways, and opens nothing before it is asked."""
    if MODE.startswith("new"):
        await in_tasks(lambda: new)
    async with asyncpg.create_pool(host=HOST, port=PORT, user="postgres", min_size=0) as pool:

        async def pooled() -> None:
            right(await pool.fetchval(QUERY))

        await in_tasks(lambda: pooled)


if MODE.endswith("uvloop"):
    import uvloop

    uvloop.run(main())
else:
    asyncio.run(main())
