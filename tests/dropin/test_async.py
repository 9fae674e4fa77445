"""The table of cases, by `httpx.AsyncClient` on asyncio and trio."""

from __future__ import annotations

import pytest

import tests.dropin.cases  # noqa: F401  fills the table
from tests.dropin.sides import AsyncSide
from tests.dropin.table import names, run

pytestmark = [
    pytest.mark.anyio,
    # generators are left to the collector where decoding fails, httpx's own too; trio says so
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]


@pytest.mark.parametrize("name", names())
async def test_async(name: str, anyio_backend_name: str) -> None:
    await run(name, AsyncSide, anyio_backend_name)
