"""Every test runs under the guards; see `guards.py`.

With OUTLAST_FAMILY=httpx2 in the environment the suite meets httpx2 wherever it says httpx, as a
program does that has called `httpx2.alias_httpx()`.
"""

from __future__ import annotations

import os

if os.environ.get("OUTLAST_FAMILY") == "httpx2":
    import httpx2

    httpx2.alias_httpx()

pytest_plugins = ["tests.guards"]
