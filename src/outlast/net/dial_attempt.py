"""One dial of a race, as the driver knows it: where to, since when, how far it got.

Refuses to take silence for a peer's while this machine's own link is down (DESIGN section 7).
"""

from __future__ import annotations

from dataclasses import dataclass

from outlast.net.address import Address
from outlast.net.seam import Stream

__all__ = ["Dial"]


@dataclass(slots=True)
class Dial:
    """Times on the network's clock. One owner; not thread-safe."""

    address: Address
    started: float
    stream: Stream | None = None
    connected: float | None = None
    cut: bool = False  # our own link was down when it failed

    def linked(self) -> bool:
        """Whether our own link is up: behind a pulled cable silence says nothing."""
        return self.stream is None or self.stream.linked()
