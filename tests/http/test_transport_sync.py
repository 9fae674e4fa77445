"""The table of cases, by `httpx.Client` over `outlast.Transport`."""

from __future__ import annotations

import pytest

from tests.http.callers import SyncCaller, run_now
from tests.http.cases.table import Case, opener, parameters


@pytest.mark.parametrize("case", parameters())
def test_sync(case: Case) -> None:
    run_now(case(opener(SyncCaller)))
