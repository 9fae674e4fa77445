"""The table of cases, by `httpx.Client` in this thread."""

from __future__ import annotations

import pytest

from tests.dropin.cases import CASES
from tests.dropin.sides import SyncSide, run_now
from tests.dropin.table import run


@pytest.mark.parametrize("name", CASES)
def test_sync(name: str) -> None:
    run_now(run(name, SyncSide, "threads"))
