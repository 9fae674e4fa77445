"""What every test on the kernel lab needs: a lab, or a skip that says what is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outlast.testing import KernelLab


@pytest.fixture
def lab() -> Iterator[KernelLab]:
    """A lab of the test's own; the test is skipped where labs are not possible."""
    reason = KernelLab.missing()
    if reason is not None:
        pytest.skip(f"kernel lab: {reason}")
    with KernelLab() as net:
        yield net
