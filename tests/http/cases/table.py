"""The table of cases, and what each is given: a way to open callers of its kind."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeAlias

from tests.http.callers import AsyncCaller, Caller, SyncCaller

__all__ = ["CASES", "Case", "Open", "case", "opener"]

Open: TypeAlias = "Callable[..., contextlib.AbstractAsyncContextManager[Caller]]"
Case: TypeAlias = "Callable[[Open], Coroutine[Any, Any, None]]"

CASES: dict[str, Case] = {}
NOTHING = {"places": 0, "idle": 0, "busy": 0, "waiting": 0}


def case(function: Case) -> Case:
    """Add a case to the table, under its module's name and its own."""
    module = function.__module__.rpartition(".")[2]
    CASES[f"{module}-{function.__name__}"] = function
    return function


def opener(kind: type[SyncCaller] | type[AsyncCaller]) -> Open:
    """Opens callers of a kind, with the transport's arguments; nothing may be left in the pool."""

    @contextlib.asynccontextmanager
    async def opened(**arguments: Any) -> AsyncIterator[Caller]:
        caller = kind(**arguments)
        try:
            yield caller
        finally:
            await caller.close()
        assert caller.counts() == NOTHING

    return opened
