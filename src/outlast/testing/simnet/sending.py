"""The sending half of a connection: what is in flight, and the timer that watches over it.

Retransmission time-outs that double, the tail loss probe before the first of them, losses told by
SACK, probes of a closed window, and when all of it is given up.

Source: net/ipv4/tcp_timer.c (tcp_retransmit_timer, tcp_write_timeout, tcp_probe_timer) and
tcp_output.c (tcp_schedule_loss_probe, tcp_send_probe0) as told in linux-tcp facts 5; RFC 8985
(RACK-TLP), RFC 6069. Leaves out congestion control: the peer's window is the only limit.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from outlast.testing.simnet.alarm import Alarm
from outlast.testing.simnet.flight import Flight, RoundTrip, mark_lost
from outlast.testing.simnet.packet import ACK, FIN, Segment
from outlast.testing.simnet.rules import JIFFY, MSS, RTO_INITIAL, RTO_MIN, model
from outlast.testing.simnet.states import SYN_RECV, SYN_SENT

if TYPE_CHECKING:
    from outlast.testing.simnet.tcp import Connection

__all__ = ["Sender"]

_MAX_SEGMENT = 44 * MSS  # what segmentation offload carries as one, just below 64 KiB
_RTO, _TLP, _PROBE = "time-out", "tail probe", "window probe"
_NONE, _QUEUED, _SENT = 0, 1, 2  # of a FIN


class Sender:
    """What one connection sends. Times in microseconds; sequence numbers are `Segment`'s."""

    __slots__ = (
        "_alarm",
        "_conn",
        "_fin",
        "_kind",
        "_loss_end",
        "_probe_end",
        "_probing_since",
        "_retrying_since",
        "_start",
        "_timeouts",
        "_unsent",
        "_wl1",
        "backoff",
        "flight",
        "nxt",
        "retransmits",
        "rto",
        "sent_at",
        "total_retrans",
        "trip",
        "una",
        "wnd",
    )

    def __init__(self, conn: Connection, start: int) -> None:
        self._conn = conn
        self._start = start
        self.una = self.nxt = start
        self.wnd = 0
        self._wl1 = 0
        self.flight: deque[Flight] = deque()
        self._unsent = bytearray()
        self._fin = _NONE
        self.trip = RoundTrip()
        self.rto = RTO_INITIAL
        self.backoff = 0
        self.retransmits = 0
        self._retrying_since: int | None = None
        self._probing_since: int | None = None
        self._timeouts = 0  # of the connection's life; the linear schedule of SYNs counts these
        self.total_retrans = 0
        self.sent_at = conn.timeline.now
        self._loss_end = start  # until this is acknowledged, a loss is being repaired
        self._probe_end = start  # until this is acknowledged, no other tail loss probe
        self._kind = ""
        self._alarm = Alarm(conn.timeline, self._ring, "retransmission", conn.host.kernel.wheel)

    @property
    def outstanding(self) -> int:
        """Bytes not acknowledged, sent or not (SIOCOUTQ)."""
        return self.nxt - self.una + len(self._unsent)

    @property
    def unsent(self) -> int:
        """Bytes that were never sent (SIOCOUTQNSD)."""
        return len(self._unsent)

    @property
    def acked_bytes(self) -> int:
        """What the peer's kernel has, the SYN counted (tcpi_bytes_acked)."""
        return self.una - self._start

    @property
    def packets(self) -> int:
        """Packets in flight, as the kernel counts them (tcpi_unacked)."""
        return sum(max(1, -(-len(one.data) // MSS)) for one in self.flight)

    @property
    def idle(self) -> bool:
        """Whether everything was sent and acknowledged."""
        return not self.flight and not self._unsent and self._fin != _QUEUED

    @property
    def finished(self) -> bool:
        """Whether our FIN was sent and acknowledged."""
        return self._fin == _SENT and not self.flight

    # -- sending ---------------------------------------------------------------------------

    def begin(self, flags: int) -> None:
        """Send SYN or SYN+ACK."""
        self._retrying_since = self._conn.timeline.now
        self._launch(b"", flags)
        self._arm(_RTO, self.rto)

    def queue(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes of the program's, and send what can be sent."""
        self._unsent += data
        self.push()

    def finish(self) -> None:
        """Send FIN after all that is queued."""
        if self._fin == _NONE:
            self._fin = _QUEUED
            self.push()

    def push(self) -> None:
        """Send what the peer's window takes."""
        alone = not self.flight
        before = self.nxt
        while self._unsent or self._fin == _QUEUED:
            room = self.una + self.wnd - self.nxt
            size = len(self._unsent)
            if room < min(size, MSS) or room <= 0:
                break
            if size < MSS and self.flight and not (self._conn.settings.nodelay or self._fin):
                break  # Nagle
            data = bytes(self._unsent[: min(size, room, _MAX_SEGMENT)])
            del self._unsent[: len(data)]
            last = self._fin == _QUEUED and not self._unsent
            if last:
                self._fin = _SENT
            self._launch(data, ACK | FIN if last else ACK)
        if self.nxt != before:
            if alone:
                self._alarm.clear()
            self._watch_tail(advancing=False)
        elif alone and not self.idle and self._alarm.due is None:
            self._arm(_PROBE, self._probe_gap())

    def _launch(self, data: bytes, flags: int) -> None:
        conn = self._conn
        now = self.sent_at = conn.timeline.now
        one = Flight(self.nxt, data, flags, now)
        self.nxt = one.end
        self.flight.append(one)
        one.segment = conn.emit(flags, one.seq, data)

    def _repeat(self, one: Flight, why: str) -> None:
        """Send it again, unless its last copy has not even left this host."""
        if one.segment is not None and one.segment.held:
            return
        conn = self._conn
        one.sent = conn.timeline.now
        one.repeats += 1
        one.lost = False
        self.total_retrans += 1
        conn.tell(f"retransmits ({why}, backoff {self.backoff})")
        one.segment = conn.emit(one.flags, one.seq, one.data)

    # -- acknowledgements ------------------------------------------------------------------

    def acknowledged(self, segment: Segment) -> bool:
        """Take an acknowledgement; False if it is for what was never sent."""
        if segment.ack > self.nxt:
            return False
        if segment.ack < self.una:
            return True
        self._take_window(segment)
        advanced = segment.ack > self.una
        if advanced:
            self._advance(segment)
        if segment.sacks:
            mark_lost(self.flight, segment.sacks, self.trip.least // 4)
        if advanced or segment.sacks:
            self._repair()
        if not self.flight:
            self._settle()
        elif advanced:
            self._watch_tail(advancing=True)
        if not self.idle:
            self.push()
        if advanced:
            self._conn.room()
        return True

    def _take_window(self, segment: Segment) -> None:
        """tcp_may_update_window."""
        newer = segment.ack > self.una or segment.seq > self._wl1
        if newer or (segment.seq == self._wl1 and (segment.wnd > self.wnd or not segment.wnd)):
            self.wnd = segment.wnd
            self._wl1 = segment.seq

    def _settle(self) -> None:
        """Nothing is in flight: the timer is off, unless a closed window is being probed."""
        blocked = not self.idle and (self.wnd == 0 or self.wnd < min(len(self._unsent), MSS))
        if blocked and self._kind == _PROBE:  # tcp_ack_probe: an answer starts the gap anew
            self._arm(_PROBE, self._clamped_probe())
            return
        self._alarm.clear()
        if self._kind == _PROBE:
            self.backoff = 0
            self._probing_since = None
            self._kind = ""

    def _advance(self, segment: Segment) -> None:
        now = self._conn.timeline.now
        flight = self.flight
        if flight and not flight[0].repeats and not flight[0].sacked:
            self.trip.sample(now - flight[0].sent)
        elif segment.echo:
            self.trip.sample(now - segment.echo)
        while flight and flight[0].end <= segment.ack:
            flight.popleft()
        self.una = segment.ack
        self.retransmits = self.backoff = 0
        self.rto = min(self.trip.time_out(), self._conn.settings.rto_max)
        if self.una >= self._loss_end:
            self._retrying_since = None

    def _repair(self) -> None:
        for one in self.flight:
            if one.lost:
                self._loss_end = max(self._loss_end, self.nxt)
                self._repeat(one, "lost")
                if self._retrying_since is None:
                    self._retrying_since = one.sent

    # -- the timer -------------------------------------------------------------------------

    def _arm(self, kind: str, delay: int) -> None:
        self._kind = kind
        self._alarm.after(max(delay, 1))

    def _watch_tail(self, *, advancing: bool) -> None:
        """tcp_schedule_loss_probe, else tcp_rearm_rto."""
        left = self.rto
        if not advancing:
            left += self.flight[0].sent - self._conn.timeline.now
        if self.una < self._loss_end or self.trip.smooth == 0:
            if advancing or self._alarm.due is None:
                self._arm(_RTO, left)
            return
        probe = 2 * self.trip.smooth + (RTO_MIN if len(self.flight) == 1 else 2 * JIFFY)
        self._arm(_TLP, min(probe, left) if left > 0 else probe)

    def _ring(self) -> None:
        if self._kind == _PROBE:
            self._probe_window()
        elif not self.flight:
            return
        elif self._kind == _TLP:
            self._probe_tail()
        else:
            self._time_out()

    def _probe_tail(self) -> None:
        if self.una >= self._probe_end:
            self._probe_end = self.nxt
            if self._unsent and self.una + self.wnd - self.nxt >= min(len(self._unsent), MSS):
                self.push()
            else:
                self._repeat(self.flight[-1], _TLP)
        # From the oldest one's last sending: the probe of a lone segment starts the time-out anew.
        self._arm(_RTO, self.flight[0].sent + self.rto - self._conn.timeline.now)

    def _time_out(self) -> None:
        conn = self._conn
        now = conn.timeline.now
        if self._expired(now):
            conn.give_up()
            return
        for one in self.flight:
            one.lost = not one.sacked
        self._loss_end = max(self._loss_end, self.nxt)
        self.retransmits += 1
        self._timeouts += 1
        first = self.flight[0]
        if self._retrying_since is None:  # by the last time that it was really sent
            held = first.segment is not None and first.segment.held
            self._retrying_since = first.sent if held else now
        if conn.state != SYN_SENT or self._timeouts > conn.host.kernel.syn_linear:
            self.backoff += 1
            self.rto = min(self.rto * 2, conn.settings.rto_max)
        self._arm(_RTO, self._clamped_rto(now))
        self._repeat(first, _RTO)

    def _expired(self, now: int) -> bool:
        """tcp_write_timeout."""
        conn = self._conn
        kernel = conn.host.kernel
        base = RTO_MIN
        boundary = kernel.orphan_retries if conn.orphan else kernel.retries2
        if conn.state == SYN_SENT:
            boundary = conn.settings.syncnt or kernel.syn_retries
            base = RTO_INITIAL
            if self.retransmits >= boundary + kernel.syn_linear:
                return True
        elif conn.state == SYN_RECV:
            return self.retransmits >= kernel.synack_retries
        if not self.retransmits or self._retrying_since is None:
            return False
        limit = conn.settings.user_timeout or model(boundary, base, conn.settings.rto_max)
        return now - self._retrying_since >= limit

    def _clamped_rto(self, now: int) -> int:
        """tcp_clamp_rto_to_user_timeout."""
        limit = self._conn.settings.user_timeout
        if not limit or self._retrying_since is None:
            return self.rto
        left = limit - (now - self._retrying_since)
        return min(self.rto, left) if left > 0 else JIFFY

    # -- a closed window -------------------------------------------------------------------

    def _probe_gap(self) -> int:
        return min(max(self.rto, RTO_MIN) << self.backoff, self._conn.settings.rto_max)

    def _clamped_probe(self) -> int:
        """tcp_clamp_probe0_to_user_timeout."""
        gap = self._probe_gap()
        limit = self._conn.settings.user_timeout
        if not limit or self._probing_since is None:
            return gap
        left = limit - (self._conn.timeline.now - self._probing_since)
        return min(max(left, 2 * JIFFY), gap)

    def _probe_window(self) -> None:
        conn = self._conn
        if self.flight or self.idle:
            return
        now = conn.timeline.now
        limit = conn.settings.user_timeout
        if self._probing_since is None:
            self._probing_since = now
        elif limit and now - self._probing_since >= limit:
            conn.give_up()
            return
        if conn.probes >= conn.host.kernel.retries2:
            conn.give_up()
            return
        if self.wnd > 0 and self._unsent:  # tcp_write_wakeup: what little fits
            data = bytes(self._unsent[: self.wnd])
            del self._unsent[: len(data)]
            self._launch(data, ACK)
            self._arm(_RTO, self.rto)
            return
        conn.probe()
        self.backoff = min(self.backoff + 1, conn.host.kernel.retries2)
        self._arm(_PROBE, self._clamped_probe())

    # -- news from the path ----------------------------------------------------------------

    def revert(self, seq: int) -> None:
        """RFC 6069: an unreachable host is no congestion, so one step of back-off is undone."""
        if seq != self.una or not self.retransmits or not self.backoff or not self.flight:
            return
        self.backoff -= 1
        rto = self.trip.time_out() << self.backoff
        self.rto = min(rto, self._conn.settings.rto_max)
        left = self.rto - (self._conn.timeline.now - self.flight[0].sent)
        if left > 0:
            self._arm(_RTO, left)
        else:
            self._kind = _RTO
            self._time_out()

    def forget(self) -> None:
        """The connection is dead: nothing is in flight any more, as TCP_INFO shows it."""
        self._alarm.stop()
        self.flight.clear()
        self._unsent.clear()
        self.una = self.nxt
        self.backoff = self.retransmits = 0
