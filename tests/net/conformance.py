"""What every implementation of the seam must do; see `outlast.net.seam`.

An implementation subclasses `SeamConformance` in a test module and gives the fixture `world`
(`tests.net.far_side.World`). Everything runs in a plain thread, on asyncio and on trio.
"""

from __future__ import annotations

from tests.net.conformance_background import Background
from tests.net.conformance_cancel import Cancellation
from tests.net.conformance_liveness import Liveness
from tests.net.conformance_lookup import Lookups
from tests.net.conformance_streams import Streams
from tests.net.conformance_waits import Waits

__all__ = ["SeamConformance"]


class SeamConformance(Waits, Lookups, Streams, Liveness, Cancellation, Background):
    """The whole suite."""
