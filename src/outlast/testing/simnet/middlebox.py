"""A box in the way that keeps state: it forgets idle flows, or speaks for a peer that is dead.

It stands at a node's link and sees what goes to the node and comes from it. What it does not know
it loses, or resets. Speaking for a dead peer means that data and probes are acknowledged that
nobody will ever read; `accepts` completes handshakes too.

Source: linux-tcp facts 11.11; idle times as in the field (Azure 240 s, AWS NLB 350 s, IPVS 900 s).
Refuses to translate addresses: a flow keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from outlast.testing.simnet.packet import ACK, FIN, RST, SYN, Endpoint, Segment
from outlast.testing.simnet.rules import SECOND

if TYPE_CHECKING:
    from outlast.testing.simnet.fabric import Fabric
    from outlast.testing.simnet.host import Host

__all__ = ["Middlebox"]

_WINDOW = 65_535


class _Flow:
    """A connection that the box knows: when it was seen last, and what the client has sent."""

    __slots__ = ("end", "seen")

    def __init__(self) -> None:
        self.seen = 0
        self.end = 0


class Middlebox:
    """One box at one node. Made by `Node.middlebox`."""

    def __init__(
        self,
        host: Host,
        *,
        idle: float | None,
        resets: bool,
        acknowledges: bool,
        accepts: bool,
        note: Callable[[str], None],
    ) -> None:
        if idle is not None and not idle > 0:
            raise ValueError(f"idle={idle!r} is not a time; right: idle=350.0, or None for ever")
        self._host = host
        self._fabric: Fabric = host.fabric
        self._idle = None if idle is None else round(idle * SECOND)
        self._resets = resets
        self._acknowledges = acknowledges or accepts
        self._accepts = accepts
        self._note = note
        self._flows: dict[tuple[Endpoint, Endpoint], _Flow] = {}

    def forget(self) -> None:
        """Lose all state, as a box that was exchanged: what goes on in the middle is unknown."""
        self._flows.clear()
        self._note(f"middlebox of {self._host.name}: forgets everything")

    def passes(self, segment: Segment, *, towards: bool) -> bool:
        """Whether a packet goes on to where it wants to."""
        key = (segment.src, segment.dst) if towards else (segment.dst, segment.src)
        flow = self._known(key, segment)
        if flow is None:
            if self._resets and not segment.flags & RST:
                self._say(segment, RST, segment.ack, 0)
            return False
        flow.seen = self._fabric.timeline.now
        if segment.flags & RST:
            del self._flows[key]
        if not (towards and self._acknowledges and self._nobody()):
            if towards:
                flow.end = max(flow.end, segment.end)
            return True
        self._speak(flow, segment)
        return False

    def _known(self, key: tuple[Endpoint, Endpoint], segment: Segment) -> _Flow | None:
        flow = self._flows.get(key)
        age = 0 if flow is None else self._fabric.timeline.now - flow.seen
        if flow is not None and self._idle is not None and age > self._idle:
            del self._flows[key]
            flow = None
        if flow is None and segment.flags & (SYN | ACK) == SYN:
            flow = self._flows[key] = _Flow()
        return flow

    def _nobody(self) -> bool:
        """Whether the node behind it is beyond reach."""
        return not self._host.up or self._host.link.towards.hole

    def _speak(self, flow: _Flow, segment: Segment) -> None:
        """Acknowledge in the dead node's name."""
        flags = segment.flags
        probe = segment.seq < flow.end  # keepalive's sequence number is one that was used already
        flow.end = max(flow.end, segment.end)
        if flags & SYN:
            if self._accepts:
                self._say(segment, SYN | ACK, self._host.initial_sequence(), segment.end)
        elif not flags & RST and (segment.data or flags & FIN or probe):
            self._say(segment, ACK, segment.ack, flow.end)

    def _say(self, to: Segment, flags: int, seq: int, ack: int) -> None:
        """Answer a packet in the name of the one whom it was for."""
        answer = Segment(to.dst, to.src, flags, seq, ack, _WINDOW, label=to.label)
        answer.echo = to.ts
        self._fabric.speak_for(self._host, answer)
