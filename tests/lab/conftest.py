"""What every test on the kernel lab needs: a lab, or a skip that says what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outlast.net.kernel import kernel
from outlast.service import table
from outlast.testing import KernelLab


@pytest.fixture
def lab() -> Iterator[KernelLab]:
    """A lab of the test's own; the test is skipped where labs are not possible."""
    reason = KernelLab.missing()
    if reason is not None:
        pytest.skip(f"kernel lab: {reason}")
    table._tables.pop(kernel(), None)  # labs have the same addresses: what one has taught is false
    with KernelLab() as net:
        yield net


_figures: list[str] = []


@pytest.fixture
def figures() -> Callable[[str], None]:
    """Print a line of measured figures at the end of the run."""
    return _figures.append


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of several processes: its figures go to the one that reports."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["figures"] = _figures


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """See `pytest_sessionfinish`."""
    _figures.extend(getattr(node, "workeroutput", {}).get("figures", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what was measured, passed or not."""
    if _figures:
        terminalreporter.section("figures measured on the kernel lab")
        for line in _figures:
            terminalreporter.write_line(line)
