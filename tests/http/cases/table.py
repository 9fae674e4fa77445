"""The table of cases, and what each is given: a way to open callers of its kind.

A case that replays a report from the field names it, by `@incident("FR-53")` above `@case`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeAlias

import pytest

from tests.http.callers import AsyncCaller, Caller, SyncCaller

__all__ = ["CASES", "Case", "Open", "case", "incident", "opener", "parameters"]

Open: TypeAlias = "Callable[..., contextlib.AbstractAsyncContextManager[Caller]]"
Case: TypeAlias = "Callable[[Open], Coroutine[Any, Any, None]]"

CASES: dict[str, Case] = {}
INCIDENTS: dict[Case, tuple[str, ...]] = {}
NOTHING = {"places": 0, "idle": 0, "busy": 0, "waiting": 0}


def case(function: Case) -> Case:
    """Add a case to the table, under its module's name and its own."""
    module = function.__module__.rpartition(".")[2]
    CASES[f"{module}-{function.__name__}"] = function
    return function


def incident(*names: str) -> Callable[[Case], Case]:
    """The case replays these reports."""

    def named(function: Case) -> Case:
        INCIDENTS[function] = names
        return function

    return named


def parameters() -> list[Any]:
    """The cases as pytest's parameters, with the marks of their incidents."""
    marks = {
        function: [pytest.mark.incident(each) for each in names]
        for function, names in INCIDENTS.items()
    }
    return [
        pytest.param(function, id=name, marks=marks.get(function, ()))
        for name, function in CASES.items()
    ]


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
