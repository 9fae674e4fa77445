"""The receiving half of a connection: bytes in order, the window, and when to acknowledge.

Source: net/ipv4/tcp_input.c (tcp_data_queue, tcp_event_data_recv), tcp_timer.c (tcp_delack_timer),
__tcp_select_window; RFC 9293 section 3.8.6, RFC 2018. Buffers have a fixed size: nothing is tuned
while a connection lives.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import TYPE_CHECKING

from outlast.testing.simnet.alarm import Alarm
from outlast.testing.simnet.packet import FIN, Segment
from outlast.testing.simnet.rules import ACK_DELAY, MSS

if TYPE_CHECKING:
    from outlast.testing.simnet.tcp import Connection

__all__ = ["Receiver"]

_QUICK = 16  # TCP_MAX_QUICKACKS: so many acknowledgements at once before they are delayed


class Receiver:
    """What one connection receives."""

    __slots__ = (
        "_alarm",
        "_conn",
        "_edge",
        "_owed",
        "_parts",
        "_quick",
        "_talking",
        "ended",
        "nxt",
        "queue",
        "queued",
        "received_at",
        "total",
        "ts",
    )

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self.nxt = 0
        self.queue: deque[bytes] = deque()
        self.queued = 0
        self.total = 0
        self.ended = False  # the peer's FIN has come, in order
        self.received_at = conn.timeline.now
        self.ts = 0  # what to echo
        self._edge = 0  # the window's right edge, as last advertised; it never goes back
        self._parts: list[tuple[int, bytes, bool]] = []  # what came too early
        self._owed = 0  # bytes that came since the last acknowledgement
        self._quick = _QUICK
        self._talking = False  # the program answers at once: an answer will carry the ACK
        wheel = conn.host.kernel.wheel
        self._alarm = Alarm(conn.timeline, self._late, "delayed ACK", wheel)

    def begin(self, nxt: int) -> None:
        """The peer's first sequence number, once it is known."""
        self.nxt = self._edge = nxt

    @property
    def owes(self) -> bool:
        """Whether an acknowledgement is to be sent."""
        return self._owed > 0

    @property
    def sacks(self) -> tuple[tuple[int, int], ...]:
        """The ranges that came too early."""
        ranges: list[tuple[int, int]] = []
        for seq, data, fin in self._parts:
            end = seq + len(data) + fin
            if ranges and seq <= ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
            else:
                ranges.append((seq, end))
        return tuple(ranges)

    @property
    def advertised(self) -> int:
        """What is left of the window that the peer knows of."""
        return self._edge - self.nxt

    def window(self) -> int:
        """What to advertise: __tcp_select_window, never less than was advertised before."""
        full = self._conn.settings.receive_buffer
        free = full - self.queued
        if self._parts:
            free -= sum(len(data) for _, data, _ in self._parts)
        if free < full >> 1 and (free < full >> 4 or free < min(MSS, full)):
            free = 0
        edge = max(self._edge, self.nxt + free)
        self._edge = edge
        return edge - self.nxt

    def acknowledging(self) -> None:
        """Something with an ACK leaves now."""
        if self._owed:
            self._owed = 0
            self._alarm.clear()

    def answering(self) -> None:
        """Data leaves: soon after data came makes it a conversation (pingpong mode)."""
        if self._conn.timeline.now - self.received_at < ACK_DELAY:
            self._talking = True

    def take(self, segment: Segment) -> None:
        """Take a segment with data or FIN, and acknowledge it now or soon."""
        conn = self._conn
        now = conn.timeline.now
        if now - self.received_at > conn.sender.rto:
            self._quick = _QUICK
        seq, data, fin = segment.seq, segment.data, bool(segment.flags & FIN)
        end = seq + len(data) + fin
        if end <= self.nxt or seq > self._edge:  # known already, or beyond the window
            conn.acknowledge()
            return
        self.received_at = now
        if seq > self.nxt:
            if all(part[0] != seq or len(part[1]) < len(data) for part in self._parts):
                insort(self._parts, (seq, data, fin))
            conn.acknowledge()
            return
        self._append(data[self.nxt - seq :] if seq < self.nxt else data, fin)
        early = bool(self._parts)
        if early:
            self._join()
        self._owed += len(data) + fin
        if early or self.ended:
            conn.acknowledge()
        else:
            self._acknowledge_soon()
        conn.arrived()

    def _append(self, data: bytes, fin: bool) -> None:
        if data:
            self.queue.append(data)
            self.queued += len(data)
            self.total += len(data)
            self.nxt += len(data)
        if fin and not self.ended:
            self.nxt += 1
            self.ended = True

    def _join(self) -> None:
        while self._parts and self._parts[0][0] <= self.nxt:
            seq, data, fin = self._parts.pop(0)
            if seq + len(data) + fin > self.nxt:
                self._append(data[self.nxt - seq :], fin)

    def _acknowledge_soon(self) -> None:
        if self._quick and not self._talking:
            self._quick -= 1
            self._conn.acknowledge()
        elif self._owed > 2 * MSS:
            self._conn.acknowledge()
        elif self._alarm.due is None:
            self._alarm.after(ACK_DELAY)

    def _late(self) -> None:
        if self._owed:
            self._talking = False  # no answer came in time: leave pingpong mode
            self._conn.acknowledge()

    def read(self, size: int) -> bytes:
        """Up to `size` bytes of what is there; b"" if nothing is."""
        if not self.queue:
            return b""
        parts = []
        left = size
        while self.queue and left > 0:
            head = self.queue[0]
            if len(head) <= left:
                parts.append(self.queue.popleft())
            else:
                parts.append(head[:left])
                self.queue[0] = head[left:]
            left -= len(parts[-1])
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self.queued -= len(data)
        self._reopen()
        return data

    def _reopen(self) -> None:
        """tcp_cleanup_rbuf: tell of a window that has at least doubled."""
        left = self._edge - self.nxt
        full = self._conn.settings.receive_buffer
        if 2 * left <= full and not self.ended:
            edge = self._edge
            if self.window() >= max(2 * left, 1) and self._edge > edge:
                self._conn.acknowledge()

    def forget(self) -> None:
        """No more acknowledgements."""
        self._alarm.stop()
        self._owed = 0
        self._parts.clear()
