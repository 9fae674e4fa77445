"""Sleeps are virtual in these tests: the guard against real ones stands aside."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_real_sleep() -> None:
    """In the place of the guard of this name, see `tests.guards`."""
