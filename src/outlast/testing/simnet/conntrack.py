"""Connection tracking: which tracked connection a packet belongs to, and for how long it is kept.

The draw of a pod is kept in the entry, so that a connection's packets, its retransmitted SYNs and a
new connection from the same local port all go to the same pod while the entry lives.

Source: net/netfilter/nf_conntrack_proto_tcp.c and its sysctls, linux-tcp facts 2.2 and 9.2. Leaves
out the window check (as with be_liberal) and the states that only shorten handshakes.
"""

from __future__ import annotations

from outlast.testing.simnet.packet import ACK, FIN, RST, SYN, Endpoint, Segment
from outlast.testing.simnet.rules import SECOND

__all__ = ["Entry", "Table"]

_SYN_SENT = 120 * SECOND
_SYN_RECV = 60 * SECOND
_ESTABLISHED = 432_000 * SECOND
_UNANSWERED = 300 * SECOND  # nf_conntrack_tcp_timeout_max_retrans
_MAX_RETRANS = 3
_FIN_WAIT = 120 * SECOND
_CLOSE_WAIT = 60 * SECOND
_LAST_ACK = 30 * SECOND
_TIME_WAIT = 120 * SECOND
_CLOSE = 10 * SECOND


class Entry:
    """One tracked connection: as the client sees it, and as the server sees it."""

    __slots__ = (
        *("_answered", "_ends", "_repeats", "_reset", "_seq", "client", "there", "until", "via"),
        "vip",
    )

    def __init__(self, client: Endpoint, vip: Endpoint, via: Endpoint, there: Endpoint) -> None:
        self.client = client
        self.vip = vip  # what the client dialled
        self.via = via  # who the server sees as its client
        self.there = there  # the server that was drawn
        self.until = 0
        self._answered = False
        self._ends = 0  # FINs seen: 1 the client's, 2 the server's
        self._reset = False
        self._seq = -1
        self._repeats = 0

    @property
    def closed(self) -> bool:
        """Whether the connection is over: a new SYN then begins another, and is drawn anew."""
        return self._reset or self._ends == 3

    def seen(self, segment: Segment, now: int, *, reply: bool) -> None:
        """A packet of the connection has passed."""
        flags = segment.flags
        if reply:
            self._answered = True
            self._repeats = 0
        elif segment.end == self._seq and (segment.data or flags & (SYN | FIN)):
            self._repeats += 1
        else:
            self._seq, self._repeats = segment.end, 0
        if flags & FIN:
            self._ends |= 2 if reply else 1
        if flags & RST:
            self._reset = True
        self.until = now + self._lifetime(flags)

    def _lifetime(self, flags: int) -> int:
        if self._reset:
            return _CLOSE
        if flags & SYN:
            return _SYN_RECV if flags & ACK else _SYN_SENT
        if self._ends == 3:
            return _TIME_WAIT if not flags & FIN else _LAST_ACK
        if self._ends:  # one end's; any packet after it finds the connection half closed
            return _FIN_WAIT if flags & FIN else _CLOSE_WAIT
        if not self._answered:
            return _SYN_SENT
        return _UNANSWERED if self._repeats >= _MAX_RETRANS else _ESTABLISHED


class Table:
    """The tracked connections of one host, found from either side."""

    __slots__ = ("_forth", "_sweep_at", "back")

    def __init__(self) -> None:
        self._forth: dict[tuple[Endpoint, Endpoint], Entry] = {}
        self.back: dict[tuple[Endpoint, Endpoint], Entry] = {}
        self._sweep_at = 256

    def find(self, source: Endpoint, target: Endpoint, now: int) -> Entry | None:
        """The living entry of what a client sends."""
        entry = self._forth.get((source, target))
        return entry if entry is not None and entry.until > now else None

    def find_reply(self, source: Endpoint, target: Endpoint, now: int) -> Entry | None:
        """The living entry of what a server answers."""
        entry = self.back.get((source, target))
        return entry if entry is not None and entry.until > now else None

    def add(self, entry: Entry, now: int) -> None:
        """Track a new connection."""
        entry.until = now + _SYN_SENT
        old = self._forth.get((entry.client, entry.vip))
        if old is not None:
            self.back.pop((old.there, old.via), None)
        self._forth[entry.client, entry.vip] = entry
        self.back[entry.there, entry.via] = entry
        if len(self._forth) > self._sweep_at:
            self._sweep(now)

    def clear(self) -> None:
        """Forget everything, as `conntrack -F` does."""
        self._forth.clear()
        self.back.clear()

    def _sweep(self, now: int) -> None:
        for key, entry in tuple(self._forth.items()):
            if entry.until <= now:
                del self._forth[key]
                self.back.pop((entry.there, entry.via), None)
        self._sweep_at = max(256, 2 * len(self._forth))

    def __len__(self) -> int:
        return len(self._forth)
