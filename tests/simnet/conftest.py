"""Sleeps are virtual in these tests: the guard against real ones stands aside. Three worlds."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_real_sleep() -> None:
    """In the place of the guard of this name, see `tests.guards`."""


@pytest.fixture(params=["sync", "asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)
