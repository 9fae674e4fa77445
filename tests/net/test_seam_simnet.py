"""The simulated network passes the seam's suite."""

from __future__ import annotations

import pytest

from tests.net.conformance import SeamConformance
from tests.net.sim_world import SimWorld


@pytest.fixture
def world() -> SimWorld:
    """A simulated client node, and a far side on another node."""
    return SimWorld()


class TestSimNet(SeamConformance):
    """The simulation behind the seam."""
