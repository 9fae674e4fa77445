"""One TCP connection as a kernel has it: states, segments in, what to say in answer.

The halves are `sending` and `receiving`, the idle watch is `keepalive`, the program's side is
`sockets`. Source: RFC 9293; net/ipv4/tcp_input.c (tcp_rcv_state_process), tcp_ipv4.c (tcp_v4_err),
linux-tcp facts 3.4, 4.3. Leaves out simultaneous open, urgent data and Fast Open.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

from outlast.testing.simnet.alarm import Alarm
from outlast.testing.simnet.keepalive import Keepalive
from outlast.testing.simnet.packet import ACK, FIN, RST, SYN, Endpoint, Segment
from outlast.testing.simnet.receiving import Receiver
from outlast.testing.simnet.sending import Sender
from outlast.testing.simnet.states import (
    CLOSE_WAIT,
    CLOSED,
    CLOSING,
    ESTABLISHED,
    FIN_WAIT1,
    FIN_WAIT2,
    LAST_ACK,
    NAMES,
    SYN_RECV,
    SYN_SENT,
    TIME_WAIT,
)

if TYPE_CHECKING:
    from outlast.testing.simnet.host import Host
    from outlast.testing.simnet.settings import Settings
    from outlast.testing.simnet.sockets import Listener

__all__ = ["Connection"]

# Errors that say nothing of the path's bandwidth, so that back-off may be undone (RFC 6069).
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH)


class Connection:
    """A connection in a host's kernel. Every time is in microseconds."""

    __slots__ = (
        "_farewell",
        "error",
        "heard_at",
        "host",
        "keepalive",
        "label",
        "listener",
        "local",
        "notify",
        "orphan",
        "owner",
        "probes",
        "receiver",
        "remote",
        "rest_with",
        "segments_in",
        "segments_out",
        "sender",
        "settings",
        "shut_read",
        "shut_write",
        "soft_error",
        "state",
        "timeline",
    )

    def __init__(
        self, host: Host, local: Endpoint, remote: Endpoint, settings: Settings, label: str
    ) -> None:
        self.host = host
        self.timeline = host.timeline
        self.local = local
        self.remote = remote
        self.settings = settings
        self.label = label
        self.state = CLOSED
        self.error = 0  # pending, told once
        self.soft_error = 0  # remembered for the end
        self.probes = 0  # unanswered keepalive or window probes
        self.heard_at = self.timeline.now  # when the last acknowledgement came
        self.segments_in = self.segments_out = 0
        self.orphan = False  # the program has closed it
        self.shut_read = self.shut_write = False
        self.owner: object = None
        self.listener: Listener | None = None  # whose accept queue it will join
        self.notify: Callable[[], None] | None = None
        self.rest_with: Connection | None = None
        self.sender = Sender(self, host.initial_sequence())
        self.receiver = Receiver(self)
        self.keepalive = Keepalive(self)
        self._farewell: Alarm | None = None

    # -- what the halves need --------------------------------------------------------------

    def emit(self, flags: int, seq: int, data: bytes = b"") -> Segment:
        """Send a segment with the present acknowledgement and window."""
        receiver = self.receiver
        segment = Segment(self.local, self.remote, flags, seq, label=self.label)
        segment.data = data
        segment.ts = self.timeline.now
        if flags & ACK:
            segment.ack = receiver.nxt
            segment.echo = receiver.ts
            segment.sacks = receiver.sacks
            if receiver.owes:
                receiver.acknowledging()
            if data:
                receiver.answering()
        segment.wnd = receiver.window()
        self.segments_out += 1
        self.host.send(segment)
        return segment

    def acknowledge(self) -> None:
        """Send a bare ACK."""
        self.emit(ACK, self.sender.nxt)

    def probe(self) -> None:
        """Send a segment that the peer must answer and that carries nothing new."""
        self.probes += 1
        self.tell(f"probes (unanswered {self.probes - 1})")
        self.emit(ACK, self.sender.una - 1)

    def room(self) -> None:
        """Bytes were acknowledged: the program may send more."""
        self.changed()

    def arrived(self) -> None:
        """Bytes or the end came, in order."""
        if self.receiver.ended:
            self._peer_finished()
        self.changed()

    def changed(self) -> None:
        """Tell the program's side that it may find something new."""
        if self.notify is not None:
            self.notify()

    def silent(self) -> int:
        """Since when nothing came from the peer."""
        return self.timeline.now - max(self.heard_at, self.receiver.received_at)

    def tell(self, what: str) -> None:
        """A line for the trace."""
        trace = self.host.fabric.trace
        if trace is not None:
            trace(self.label, what)

    def enter(self, state: int) -> None:
        """Change state."""
        self.state = state
        if self.host.fabric.trace is not None:
            self.tell(NAMES[state])

    def setting_changed(self, field: str) -> None:
        """The program has set an option on its socket."""
        if field == "keepalive":
            if self.settings.keepalive:
                self.keepalive.start()
            else:
                self.keepalive.stop()
        elif field == "idle":
            self.keepalive.idle_changed()

    def disturb(self) -> None:
        """Something happens on this connection: if it rests, or its peer does, it wakes."""
        if self.keepalive.resting:
            self.keepalive.wake()
        elif self.rest_with is not None:
            self.rest_with.keepalive.wake()

    # -- life and death --------------------------------------------------------------------

    def open(self) -> None:
        """Send the first SYN."""
        self.state = SYN_SENT
        self.sender.begin(SYN)

    def answer(self, syn: Segment) -> None:
        """Be the far end of a connection that begins with `syn`."""
        self.state = SYN_RECV
        self.receiver.begin(syn.seq + 1)
        self.receiver.ts = syn.ts
        self.sender.wnd = syn.wnd
        self.sender.begin(SYN | ACK)

    def give_up(self, *, reset: bool = False) -> None:
        """The peer has been silent for too long."""
        if reset:
            self.emit(RST | ACK, self.sender.nxt)
        self.die(self.soft_error or errno.ETIMEDOUT)

    def die(self, code: int) -> None:
        """End without a word to the peer; `code` is what the program hears, 0 for nothing."""
        if self.state == CLOSED:
            return
        if code and self.host.fabric.trace is not None:
            self.tell(f"ends: {errno.errorcode[code]}")
        self.error = code
        self.state = CLOSED
        self.shut_read = self.shut_write = True
        self._drop()
        self.changed()

    def _drop(self) -> None:
        self.keepalive.stop()
        self.sender.forget()
        self.receiver.forget()
        if self._farewell is not None:
            self._farewell.stop()
        self.host.forget(self)

    def abort(self) -> None:
        """RST, whatever is under way."""
        if self.state in (CLOSED, TIME_WAIT):
            return
        self.disturb()
        if self.state != SYN_SENT:
            self.emit(RST | ACK, self.sender.nxt)
        self.die(0)

    def finish(self) -> None:
        """FIN after what is queued; the program sends no more."""
        self.shut_write = True
        if self.state in (ESTABLISHED, CLOSE_WAIT):
            self.disturb()
            self.enter(FIN_WAIT1 if self.state == ESTABLISHED else LAST_ACK)
            self.sender.finish()

    def abandon(self) -> None:
        """The program has closed its socket: what is left to do is the kernel's."""
        self.orphan = True
        self.notify = None
        if self.state == SYN_SENT:
            self.die(0)
        elif self.receiver.queue or self.settings.linger_reset:
            self.abort()
        else:
            self.finish()
            if self.state == FIN_WAIT2:
                self._await_end(self.host.kernel.fin_timeout)

    def _await_end(self, duration: int) -> None:
        if self._farewell is None:
            self._farewell = Alarm(self.timeline, self._over, "farewell")
        self._farewell.after(duration)

    def _over(self) -> None:
        self.die(0)

    # -- segments in -----------------------------------------------------------------------

    def take(self, segment: Segment) -> None:
        """A segment for this connection has arrived."""
        self.segments_in += 1
        if self.rest_with is not None:
            self.disturb()
        if self.state == SYN_SENT:
            self._take_answer(segment)
            return
        if segment.flags & RST:
            self._take_reset(segment)
            return
        if segment.flags & SYN:
            if self.state == SYN_RECV:
                self.emit(SYN | ACK, self.sender.una)
            else:
                self.acknowledge()  # RFC 5961: a challenge
            return
        if segment.seq <= self.receiver.nxt:
            self.receiver.ts = segment.ts
        if self.state == SYN_RECV and not self._complete(segment):
            return
        if not self.sender.acknowledged(segment):
            self.acknowledge()
            return
        self.probes = 0
        self.heard_at = self.timeline.now
        if self.sender.finished:
            self._our_end_acknowledged()
        if segment.data or segment.flags & FIN or segment.seq < self.receiver.nxt:
            self._take_data(segment)

    def _take_answer(self, segment: Segment) -> None:
        """In SYN_SENT."""
        if segment.flags & ACK and segment.ack != self.sender.nxt:
            if not segment.flags & RST:
                self.host.refuse(segment)
            return
        if segment.flags & RST:
            if segment.flags & ACK:
                self.die(errno.ECONNREFUSED)
            return
        if not segment.flags & SYN or not segment.flags & ACK:
            return
        self.receiver.begin(segment.seq + 1)
        self.receiver.ts = segment.ts
        self.enter(ESTABLISHED)
        self.heard_at = self.timeline.now
        self.sender.acknowledged(segment)
        self.acknowledge()
        self.keepalive.start()
        self.changed()

    def _complete(self, segment: Segment) -> bool:
        """In SYN_RECV: the handshake ends, if the accept queue has room."""
        if not segment.flags & ACK or segment.ack != self.sender.nxt:
            return False
        if self.listener is None or not self.listener.admit(self):
            return False
        self.enter(ESTABLISHED)
        self.keepalive.start()
        return True

    def _take_reset(self, segment: Segment) -> None:
        if segment.seq != self.receiver.nxt and self.state != SYN_RECV:
            if segment.seq > self.receiver.nxt:
                self.acknowledge()  # RFC 5961: a challenge
            return
        self.die(errno.EPIPE if self.state == CLOSE_WAIT else errno.ECONNRESET)

    def _take_data(self, segment: Segment) -> None:
        if self.state == TIME_WAIT:
            self.acknowledge()
            return
        fresh = segment.data and segment.seq + len(segment.data) > self.receiver.nxt
        if self.orphan and fresh:  # nobody will ever read it
            self.host.refuse(segment)
            self.die(0)
            return
        self.receiver.take(segment)

    def _peer_finished(self) -> None:
        self.shut_read = True
        if self.state == ESTABLISHED:
            self.enter(CLOSE_WAIT)
        elif self.state == FIN_WAIT1:
            self.enter(CLOSING)
        elif self.state == FIN_WAIT2:
            self._linger()

    def _our_end_acknowledged(self) -> None:
        if self.state == FIN_WAIT1:
            self.enter(FIN_WAIT2)
            if self.orphan:
                self._await_end(self.host.kernel.fin_timeout)
        elif self.state == CLOSING:
            self._linger()
        elif self.state == LAST_ACK:
            self.die(0)

    def _linger(self) -> None:
        self.enter(TIME_WAIT)
        self.keepalive.stop()
        self._await_end(self.host.kernel.time_wait)

    def unreachable(self, code: int, seq: int) -> None:
        """An ICMP error about a segment of ours: tcp_v4_err."""
        sender = self.sender
        if not sender.una <= seq <= sender.nxt:
            return
        self.tell(f"hears {errno.errorcode[code]}")
        if self.state in (SYN_SENT, SYN_RECV):
            self.die(code)
            return
        if code in _UNREACHABLE:
            sender.revert(seq)
        if self.state == CLOSED:
            return
        if self.settings.recverr:
            self.error = code
            self.changed()
        else:
            self.soft_error = code
