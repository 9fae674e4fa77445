"""The table of cases, by `httpx.AsyncClient` over `outlast.AsyncTransport`, asyncio and trio."""

from __future__ import annotations

import pytest

from tests.http.callers import AsyncCaller
from tests.http.cases.table import Case, opener, parameters

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("case", parameters())
async def test_async(case: Case) -> None:
    await case(opener(AsyncCaller))
