"""The worlds that engine code runs in: a plain thread, asyncio, trio, and asyncio on uvloop."""

from __future__ import annotations

import asyncio
import sys
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
    if world == "uvloop":
        return _run_on_uvloop(main)
    return asyncio.run(main(), debug=True)


def _run_on_uvloop(main: Main[T]) -> T:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed here")
    if sys.version_info >= (3, 11):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())
    loop = uvloop.new_event_loop()
    try:
        found: T = loop.run_until_complete(main())
        return found
    finally:
        loop.close()
