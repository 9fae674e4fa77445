"""Which parser of HTTP/1.1 outlast has in the suites: OUTLAST_HTTP1_PARSER says so, else h11."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["PARSER"]

PARSER: dict[str, Any] = {"http1_parser": os.environ.get("OUTLAST_HTTP1_PARSER", "h11")}
