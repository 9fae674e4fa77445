"""Every test runs under the guards; see `guards.py`."""

from __future__ import annotations

pytest_plugins = ["tests.guards"]
