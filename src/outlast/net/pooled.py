"""Somebody else's connection, which may have been idle when its peer died.

While data is unacknowledged keepalive is suspended, and the user timeout counts from that data
(linux-tcp facts 6.1): a request that a pool sends after 5 s of silence would be given up 16 s
after the loss. But a living peer has answered a keepalive probe within its idle time, so the
silence before the data counts too, and what stands meanwhile is the rest of the user timeout.
Where the program's own keepalive is slower than ours silence tells less, and more is left.
"""

from __future__ import annotations

from outlast.core.liveness import Sample
from outlast.net.held import HeldSocket, SocketSource
from outlast.net.options import Keepalive

__all__ = ["PooledSocket"]

LEAST = 3.0  # seconds; four repeats have left by then
LEAST_OF_OTHERS = 6.0  # seconds; five
FIRST_GAP = 0.2  # seconds; the least time until a repeat


class PooledSocket(HeldSocket):
    """See the module, and `Held`. Not thread-safe."""

    __slots__ = ("_rest", "_seen")

    def __init__(self, source: SocketSource) -> None:
        super().__init__(source)
        self._seen: Sample | None = None
        self._rest: float | None = None  # as long as the same data is unacknowledged

    def state(self) -> Sample | None:
        """See `Stream.state`."""
        self._seen = super().state()
        return self._seen

    def limit(self, seconds: float) -> None:
        """See `Held.limit`."""
        sample = self._seen
        if sample is None or not (seconds and sample.unacked and sample.window):
            self._rest = None
        elif self._rest is None and (keepalive := self.keepalive) is not None:
            least = LEAST if keepalive.idle <= Keepalive().idle else LEAST_OF_OTHERS
            self._rest = max(least, seconds - max(0.0, sample.silence - _in_flight(sample)))
        super().limit(seconds if self._rest is None else self._rest)


def _in_flight(sample: Sample) -> float:
    """Seconds since unacknowledged data left first: the last repeat's age, and the gaps between
    the repeats, which double from 200 ms (linux-tcp facts 5.1)."""
    return sample.sent + FIRST_GAP * ((1 << min(sample.backoff, 8)) - 1)
