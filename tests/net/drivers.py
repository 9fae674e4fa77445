"""The worlds that engine code runs in: a plain thread, asyncio, trio, and asyncio on uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

import pytest
import trio

from outlast.net.run import run_async, run_sync
from outlast.net.seam import Network

T = TypeVar("T")
Engine: TypeAlias = Callable[[], Coroutine[Any, Any, T]]
Main: TypeAlias = Callable[[], Coroutine[Any, Any, T]]


class Driver:
    """Runs engine code on `network`: in this thread, or in an event loop made for it."""

    def __init__(self, world: str, network: Network) -> None:
        self.world = world
        self.network = network

    def __call__(self, engine: Engine[T]) -> T:
        """The result of `engine()`."""
        if self.world == "sync":
            return run_sync(self.network, engine())

        async def main() -> T:
            return await run_async(self.network, engine())

        return run_in_loop(self.world, main)


def run_in_loop(world: str, main: Main[T]) -> T:
    """Run `main()` in a new event loop of that kind."""
    if world == "trio":
        result: T = trio.run(main)
        return result
    if world in ("uvloop", "eager"):
        return _run_in(_uvloop() if world == "uvloop" else _eager_loop(), main)
    return asyncio.run(main(), debug=True)


def _uvloop() -> asyncio.AbstractEventLoop:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed here")
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _eager_loop() -> asyncio.AbstractEventLoop:
    """asyncio whose tasks begin at once, up to their first wait (Python 3.12)."""
    factory = getattr(asyncio, "eager_task_factory", None)
    if factory is None:
        pytest.skip("asyncio.eager_task_factory came with Python 3.12")
    loop = asyncio.new_event_loop()
    loop.set_task_factory(factory)
    loop.set_debug(True)
    return loop


def _run_in(loop: asyncio.AbstractEventLoop, main: Main[T]) -> T:
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main())
    finally:
        asyncio.set_event_loop(None)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
