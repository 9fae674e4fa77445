"""httpx beside outlast: every case on plain httpx and on this library, against the same server.

Each case runs on `httpx.Client(**kw)` (or `httpx.AsyncClient(**kw)`) and on the same client over
`outlast.Transport` (`AsyncTransport`), in threads, on asyncio and on trio, and the two records are
compared: status, headers, body, the exception's class, the connections that the server saw with
the requests on each, and the requests themselves, byte for byte. Where ours differs, `better.py`
says how and why; docs/drop-in.md is written from it. Everything else that differs is a fault.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.dropin.table", "tests.dropin.cases")
