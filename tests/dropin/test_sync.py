"""The table of cases, by `httpx.Client` in this thread."""

from __future__ import annotations

import pytest

import tests.dropin.cases  # noqa: F401  fills the table
from tests.dropin.sides import SyncSide, run_now
from tests.dropin.table import names, run


@pytest.mark.parametrize("name", names())
def test_sync(name: str) -> None:
    run_now(run(name, SyncSide, "threads"))
