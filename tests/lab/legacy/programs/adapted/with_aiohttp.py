"""aiohttp with its adapter, without a timeout: a session each time, or one for all tasks."""

from __future__ import annotations

import asyncio

import aiohttp

from outlast.shims.adapters.aiohttp import OutlastConnector
from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_tasks

url = f"http://{HOST}:{PORT}/"
never = aiohttp.ClientTimeout(total=None, sock_connect=None)


async def main() -> None:
    """Both ways have the same session at hand."""

    async def ask(session: aiohttp.ClientSession) -> None:
        async with session.get(url) as answer:
            answer.raise_for_status()
            await answer.read()

    async def new() -> None:
        async with aiohttp.ClientSession(connector=OutlastConnector(), timeout=never) as own:
            await ask(own)

    async with aiohttp.ClientSession(connector=OutlastConnector(), timeout=never) as session:
        await in_tasks(lambda: new if MODE == "new" else lambda: ask(session))


asyncio.run(main())
