"""TCP probes of idle connections, all at once: does the peer's kernel still know them?

Keepalive is hurried for the moment, which makes a probe leave at the kernel's next tick, and put
back afterwards, whatever ends the wait. No byte of the application is sent (linux-tcp facts 6.2).
Which connections to probe, and what an outcome means, is `core.probe`'s to say. Refuses to touch
keepalive that the caller set, or switched off: such connections stay unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from outlast.core.liveness import CLOSED
from outlast.core.probe import Probed, TcpProbe, may_probe
from outlast.net.options import Keepalive
from outlast.net.seam import READ, Network, Stream, Wait

__all__ = ["hurried", "probe"]


def hurried(planned: Keepalive) -> Keepalive:
    """`planned` with a probe every second, after a second of silence."""
    return Keepalive(1, 1, planned.count)


async def probe(
    network: Network, streams: Sequence[Stream], until: float = math.inf
) -> list[Probed]:
    """Ask the peers of idle connections; the outcomes in the order of `streams`.

    It takes one round trip and a tick where a peer lives or has rebooted, and at most max(4 round
    trips, 50 ms); whoever has not answered by `until` (on the network's clock) is unknown. The
    streams are the caller's and stay open.
    """
    found: dict[Stream, Probed] = {}
    under_way: dict[Stream, TcpProbe] = {}
    try:
        for stream in streams:
            begun = _begin(stream, network.now())
            if isinstance(begun, TcpProbe):
                under_way[stream] = begun
            else:
                found[stream] = begun
        while waiting := [stream for stream in under_way if stream not in found]:
            interests = [(stream, READ) for stream in waiting]
            look = min(under_way[each].next_look for each in waiting)
            ready = await Wait(interests, min(until, look))
            for stream in waiting:
                outcome = _outcome(stream, under_way[stream], stream in ready, network.now())
                if outcome is None and network.now() >= until:
                    outcome = Probed.UNKNOWN
                if outcome is not None:
                    found[stream] = outcome
    finally:
        for stream in under_way:
            _restore(stream)
    return [found[stream] for stream in streams]


def _begin(stream: Stream, now: float) -> TcpProbe | Probed:
    before, planned = stream.state(), stream.keepalive
    if before is not None and before.state == CLOSED:
        return Probed.GONE
    if before is None or planned is None or not may_probe(before):
        return Probed.UNKNOWN
    stream.set_keepalive(hurried(planned))
    return TcpProbe(before, now)


def _outcome(stream: Stream, under_way: TcpProbe, ready: bool, now: float) -> Probed | None:
    """Anything that arrives on an idle connection ends it: a farewell, or data out of turn."""
    if ready and not stream.quiet():
        return Probed.GONE
    return under_way.look(stream.state(), now) if now >= under_way.next_look else None


def _restore(stream: Stream) -> None:
    planned = stream.keepalive
    if planned is not None:
        stream.set_keepalive(planned)
