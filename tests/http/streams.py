"""Worlds in which a case about raw connections runs: a thread, asyncio, trio.

Cases are coroutines over a `World`. In a thread nothing in them ever waits: what a synchronous
client gives is there at once (`settled`), and `run_now` carries the case out.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import trio

import outlast
from tests.http.callers import run_now
from tests.http.servers import BOUND, Peer

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: echo\r\nconnection: upgrade\r\n\r\n"
UPGRADE = {"upgrade": "echo", "connection": "upgrade"}


async def settled(value: Any) -> Any:
    """What comes of a call, sync or async."""
    return await value if inspect.isawaitable(value) else value


class World:
    """One way to run a case, and to make clients for it."""

    def __init__(self, name: str) -> None:
        self.waits = name != "threads"
        self.name = name

    def run(self, case: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a case to its end."""
        if not self.waits:
            run_now(case())
        elif self.name == "asyncio":
            asyncio.run(case())
        else:
            trio.run(case)

    @contextlib.asynccontextmanager
    async def client(self, home: Any = outlast, **given: Any) -> AsyncIterator[Any]:
        """A client of `home`, closed at the end."""
        make = home.async_client if self.waits else home.client
        client = make(**{"timeout": BOUND, **given})
        try:
            yield client
        finally:
            await self.close(client)

    def close_now(self, what: Any) -> Any:
        """Close a client, a response or a stream; to be awaited where there is a loop."""
        return what.aclose() if self.waits else what.close()

    async def close(self, what: Any) -> None:
        """Close it."""
        await settled(self.close_now(what))

    async def body(self, response: Any) -> bytes:
        """Read a response to its end."""
        data: bytes = await settled(response.aread() if self.waits else response.read())
        return data

    @contextlib.asynccontextmanager
    async def response(self, client: Any, method: str, url: str, **more: Any) -> AsyncIterator[Any]:
        """A response, unread, closed at the end."""
        request = client.build_request(method, url, **more)
        response = await settled(client.send(request, stream=True))
        try:
            yield response
        finally:
            await self.close(response)

    @contextlib.asynccontextmanager
    async def upgraded(self, client: Any, url: str) -> AsyncIterator[Any]:
        """The stream of a response that has switched protocols."""
        async with self.response(client, "GET", url, headers=UPGRADE) as response:
            assert response.status_code == 101
            yield response.extensions["network_stream"]

    async def beside(self, work: Callable[[], Any], then: Callable[[], Any]) -> Any:
        """Call `work` in another thread or task and `then` in this one; what came of `work`."""
        outcomes: list[Any] = []

        async def kept() -> None:
            try:
                outcomes.append(await settled(work()))
            except Exception as error:  # noqa: BLE001  given to the case
                outcomes.append(error)

        if self.waits:
            async with anyio.create_task_group() as group:
                group.start_soon(kept)
                await anyio.lowlevel.checkpoint()
                await settled(then())
        else:
            thread = threading.Thread(target=lambda: run_now(kept()))
            thread.start()
            then()
            thread.join(BOUND)
            assert not thread.is_alive()
        return outcomes[0]


def echo(peer: Peer) -> None:
    """Everything comes back, until the client has gone."""
    while data := peer.sock.recv(65_536):
        peer.send(data)


def switching(then: Callable[[Peer], None] = echo, early: bytes = b"") -> Callable[[Peer], None]:
    """Switches protocols; `early` comes in one piece with the answer."""

    def handler(peer: Peer) -> None:
        if peer.head() is not None:
            peer.send(SWITCH + early)
            then(peer)

    return handler
