"""A kernel and its peer, as far as a sample shows them: what the verdict machine is tested with.

Timers are those of linux-tcp facts 5.1 and 6.1 without slack: a tail loss probe at 0.21 s, then
doubling repeats; keepalive probes after `idle`, every `interval`, suspended while data is out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from outlast.core.liveness import CLOSED, ESTABLISHED, Awaits, Liveness, Sample, Watch
from outlast.core.tolerance import Tolerance

REPEATS = (0.416, 0.856, 1.69, 3.35, 6.6, 13.0)  # after the send, each one more back-off
WINDOW = 64_000


@dataclass
class Peer:
    """One connection. `ack`: seconds until the peer's kernel acknowledges; `window`: its own."""

    now: float = 0.0
    rtt: float = 0.001
    ack: float = 0.001
    alive: bool = True
    window: int = WINDOW
    idle: float = 5.0
    interval: float = 1.0
    acked: int = 0
    written: int = 0
    closed: bool = False
    lost: int = 0  # the next so many answers to probes do not arrive

    def __post_init__(self) -> None:
        self.heard_at = self.data_at = self.now
        self.sent_at: float | None = None  # of what is in flight
        self.probes = 0
        self.probe_at = self.now + self.idle
        self.out = self.into = 10

    def send(self, size: int = 100) -> None:
        """Hand bytes over, which leave at once if the window is open."""
        self.written += size
        self.out += 1
        if self.sent_at is None:
            self.sent_at = self.now

    def hear(self, *, data: bool = False) -> None:
        """A packet from the peer."""
        self.heard_at = self.now
        if data:
            self.data_at = self.now
        self.probes = 0
        self.into += 1
        self.probe_at = self.now + self.idle

    def hurry(self, hurried: bool) -> None:
        """Set keepalive's idle time; one that has passed already sends a probe at once."""
        idle = 1.0 if hurried else 5.0
        if idle != self.idle:
            self.idle = idle
            self.probe_at = max(self.now, self.heard_at + idle)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while True:
            ack_at = self._ack_at()
            moment = min(ack_at, self.probe_at)
            if moment > end:
                break
            self.now = moment
            if moment == ack_at:
                self._acknowledge()
            else:
                self._probe()
        self.now = end

    def _ack_at(self) -> float:
        if self.sent_at is None or not self.alive or not self.window:
            return float("inf")
        return max(self.now, self.sent_at + self.ack)

    def _acknowledge(self) -> None:
        self.acked = self.written
        self.sent_at = None
        self.hear()

    def _probe(self) -> None:
        if self.sent_at is not None and self.window:
            self.probe_at = self.now + self.idle  # suspended
            return
        self.probes += 1
        self.out += 1
        self.probe_at = self.now + self.interval
        if self.alive and not self.lost:
            self.hear()
        self.lost = max(0, self.lost - 1)

    def sample(self) -> Sample:
        """What the kernel tells now."""
        flight = self.sent_at is not None
        out_for = self.now - self.sent_at if self.sent_at is not None else 0.0
        repeats = [moment for moment in REPEATS if moment <= out_for]
        last = out_for - repeats[-1] if repeats else out_for
        return Sample(
            unacked=int(flight and self.window > 0),
            acked=self.acked,
            window=self.window,
            rtt=self.rtt,
            backoff=len(repeats),
            heard=self.now - self.heard_at,
            state=CLOSED if self.closed else ESTABLISHED,
            unsent=int(flight and not self.window),
            probes=self.probes,
            received=self.now - self.data_at,
            sent=last,
            resent=len(repeats),
            segments_out=self.out + len(repeats),
            segments_in=self.into,
        )


# --- watches ---

LIMIT = 11.0

# A request of 1000 bytes, the first on its connection, 0.25 s after it was sent into a black hole.
UNACKED = Sample(
    unacked=1, acked=0, window=64_000, rtt=0.001, backoff=0, heard=0.568, received=999.0, sent=0.04
)
SLOW = replace(UNACKED, unacked=0, acked=1000, heard=0.204)


def watch_of(
    awaits: Awaits = Awaits.RESPONSE, *, tolerance: Tolerance | None = None, keepalive: bool = True
) -> Watch:
    """A request was written at 0, at the beginning of the connection."""
    watch = Watch(
        0.0,
        acked=0,
        user_timeout=LIMIT,
        dead_after=LIMIT,
        keepalive=keepalive,
        tolerance=tolerance,
    )
    watch.sent(0.0)
    watch.expect(awaits, 0.0)
    return watch


def on_time(
    watch: Watch, sample: Sample | None, now: float, *, alternative: bool = False
) -> Liveness:
    """A look that comes when it was asked for."""
    watch.next_look = now
    return watch.look(sample, now, alternative=alternative)


def looks(watch: Watch, peer: Peer, seconds: float) -> list[Liveness]:
    """Look whenever the watch wants to, for so long."""
    verdicts = []
    end = peer.now + seconds
    while watch.next_look <= end:
        peer.advance(watch.next_look - peer.now)
        verdicts.append(watch.look(peer.sample(), peer.now))
        peer.hurry(watch.hurried)
    peer.advance(end - peer.now)
    return verdicts


def waiting(peer: Peer, tolerance: Tolerance | None = None) -> Watch:
    """A watch over a request that is sent now."""
    watch = Watch(
        peer.now,
        acked=peer.written,
        user_timeout=LIMIT,
        dead_after=LIMIT,
        keepalive=True,
        tolerance=tolerance,
    )
    peer.send()
    watch.sent(peer.now)
    watch.expect(Awaits.RESPONSE, peer.now)
    return watch
