"""The kernel's side of the seam passes the suite; and what only the kernel has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.net.conformance import SeamConformance
from tests.net.kernel_world import KernelWorld


@pytest.fixture
def world() -> Iterator[KernelWorld]:
    """The kernel network and a far side on loopback."""
    made = KernelWorld()
    yield made
    made.close()


class TestKernel(SeamConformance):
    """The kernel behind the seam."""
