"""Sleeps are virtual in these tests: the guard against real ones stands aside. And figures: what a
test has measured, gathered over all its seeds and printed at the end, with OUTLAST_FULL only."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

_measured: list[tuple[str, float]] = []


@pytest.fixture(autouse=True)
def no_real_sleep() -> None:
    """In the place of the guard of this name, see `tests.guards`."""


@pytest.fixture
def measured() -> Callable[[str, float], None]:
    """Note a figure of this seed, by the name that it has for all of them."""
    return lambda name, value: _measured.append((name, value))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of several processes: its figures go to the one that reports."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["measured"] = _measured


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """See `pytest_sessionfinish`."""
    _measured.extend(map(tuple, getattr(node, "workeroutput", {}).get("measured", ())))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The least and the most of all seeds, and of how many."""
    if not (_measured and os.environ.get("OUTLAST_FULL")):
        return
    terminalreporter.section("figures measured in virtual time")
    found: dict[str, list[float]] = {}
    for name, value in _measured:
        found.setdefault(name, []).append(value)
    for name, values in sorted(found.items()):
        low, high = min(values), max(values)
        terminalreporter.write_line(f"{name:58} {low:10.4g} to {high:<10.4g} ({len(values)})")
