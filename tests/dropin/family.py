"""Which family is compared: httpx with `outlast`, or httpx2 with `outlast.httpx2`.

`tests/conftest.py` has put httpx2 in the place of httpx where OUTLAST_FAMILY says so; the cases say
httpx and mean whichever it is.
"""

from __future__ import annotations

import importlib
from typing import Any

import httpx

__all__ = ["FAMILY", "OURS"]

FAMILY = httpx.__name__
OURS: Any = importlib.import_module({"httpx": "outlast", "httpx2": "outlast.httpx2"}[FAMILY])
