"""What the transports are held to, written once for threads, asyncio and trio.

Each module here adds its cases to the table; `test_transport_sync.py` and
`test_transport_async.py` run the table. Everything is imported here, so that the table is full.
"""

from __future__ import annotations

from tests.http.cases import (
    bodies,
    closing,
    control,
    drops,
    exchanges,
    pooling,
    proxies,
    proxy_refusals,
    refusals,
    repeating,
    socks,
    stalls,
    statuses,
    timeouts,
    tls,
    uds,
)
from tests.http.cases.table import CASES

__all__ = [
    "CASES",
    "bodies",
    "closing",
    "control",
    "drops",
    "exchanges",
    "pooling",
    "proxies",
    "proxy_refusals",
    "refusals",
    "repeating",
    "socks",
    "stalls",
    "statuses",
    "timeouts",
    "tls",
    "uds",
]
