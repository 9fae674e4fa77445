"""Dead or slow: the verdict over one connection, from what its own kernel knows of the peer.

A pure machine. It is shown samples (TCP_INFO) at the times it asks for and says *alive*, *quiet*,
*suspect* or *dead*, what keepalive and user timeout shall stand on the socket meanwhile, and when
to look next. A reply that comes quickly meets no look at all.

Suspect is kernel evidence alone (DESIGN section 6): data that was repeated or not acknowledged, or
keepalive probes without an answer. Sources: linux-tcp facts 5 to 7, measured on Linux 6.18.

It refuses to suspect a peer that has closed its window (it lives and does not read), to hold
evidence against it that a stall of this machine explains, and to guess where the platform tells
nothing: there keepalive and user timeout decide alone. Not thread-safe; one watch, one owner.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from outlast.core.tolerance import LATE_PATIENCE, Tolerance

__all__ = ["CLOSED", "ESTABLISHED", "Awaits", "Liveness", "Sample", "Watch", "first_look"]

ESTABLISHED = 1  # the kernel's numbers of states, linux-tcp facts 2.3
CLOSED = 7
LONGEST_GAP = 2.0  # seconds; DESIGN section 6: a watched socket is sampled at least every 2 s
UNACKED_GAP = 0.5  # seconds; the third repeat comes 1.7 s after the send (facts 5.1)
LEAST_GAP = 0.15  # seconds; three keepalive timers are late by up to 0.1 s together (facts 11)
HURRY_AFTER = 1.0  # seconds without a packet; DESIGN section 6
HURRIED = 1.0  # seconds, keepalive's idle time and interval from then on
REPEATS = 3  # doublings of the retransmission timer; DESIGN section 6
STALLED = 0.25  # seconds that a look may come late before it is our own doing


class Liveness(Enum):
    """What is thought of a peer."""

    ALIVE = "alive"
    QUIET = "quiet"  # nothing heard for a second while something is awaited; no evidence
    SUSPECT = "suspect"  # evidence against it, not yet given up
    DEAD = "dead"  # the kernel has given it up, or the evidence has stood for too long


class Awaits(Enum):
    """What the connection's owner waits for."""

    NOTHING = "nothing"  # idle, or nobody says
    RESPONSE = "response"
    ROOM = "room"  # an upload under way: the peer is to take more


@dataclass(frozen=True, slots=True)
class Sample:
    """What a kernel says of a connection, at one moment. Durations in seconds.

    `unacked`: segments in flight. `acked`: bytes of ours that the peer's kernel has, over the
    connection's life. `window`: bytes that the peer is willing to take. `backoff`: doublings of
    the retransmission timer. `heard`: since the last ACK. `state`: the kernel's number. `unsent`:
    bytes that have not left. `probes`: keepalive or window probes sent since the last answer.
    `received`: since data came. `sent`: since data left last, repeats included. `resent`,
    `segments_out`, `segments_in`: counted over the connection's life.
    """

    unacked: int
    acked: int
    window: int
    rtt: float
    backoff: int
    heard: float
    state: int = ESTABLISHED
    unsent: int = 0
    probes: int = 0
    received: float = math.inf
    sent: float = math.inf
    resent: int = 0
    segments_out: int = 0
    segments_in: int = 0

    @property
    def silence(self) -> float:
        """Seconds since any packet came. (Data alone may not count as an ACK in the kernel.)"""
        return min(self.heard, self.received)


def first_look(now: float, rtt: float, tolerance: Tolerance) -> float:
    """When a response that is awaited from `now` on is looked at first: as `Watch.expect` has it,
    so that the watch need not be made before that."""
    return now + min(LONGEST_GAP, tolerance.patience(rtt))


class Watch:
    """The verdict over one connection.

    `rtt`: a first guess. `acked`: bytes written before what is watched. `user_timeout`: what the
    caller wants to stand on the socket; 0 for none. `dead_after`: evidence that stands for so
    long is death; 0 for never. `keepalive`: whether keepalive may be hurried on this socket, as
    far as is known; see `leave_keepalive`. `tolerance`: what the endpoint has taught; its watches
    share one.

    After each look: `verdict` and `why`; `user_timeout`, the value to stand on the socket from
    now on; `hurried`, whether keepalive is to probe every second; `next_look`, when to look again.
    """

    __slots__ = (
        "_acked",
        "_awaits",
        "_base",
        "_counted",
        "_dead_after",
        "_doubted",
        "_expected",
        "_gap",
        "_grace",
        "_keepalive",
        "_limit",
        "_looked",
        "_rtt",
        "_since",
        "_started",
        "_steady",
        "_tolerance",
        "hurried",
        "next_look",
        "user_timeout",
        "verdict",
        "why",
    )

    def __init__(
        self,
        now: float,
        *,
        rtt: float = 0.0,
        acked: int = -1,
        user_timeout: float = 0.0,
        dead_after: float = 0.0,
        keepalive: bool = True,
        tolerance: Tolerance | None = None,
    ) -> None:
        self._rtt = rtt
        self._acked = acked
        self._limit = user_timeout
        self._dead_after = dead_after
        self._keepalive = keepalive
        self._tolerance = Tolerance() if tolerance is None else tolerance
        self._since: float | None = None  # when the data in flight left, or was last acknowledged
        self._base: tuple[float, int, int] | None = None  # excused at, with so much evidence
        self._grace = -math.inf  # until then nothing is evidence
        self._counted: tuple[float, Sample] | None = None  # as loss was counted last
        self._doubted = False  # for the lateness of an ACK alone
        self._looked = False  # since the owner waits
        self._steady = False  # too many others are suspect already: longer patience
        self.user_timeout = user_timeout
        self.hurried = False
        self.verdict = Liveness.ALIVE
        self.why = ""
        self._awaits = Awaits.NOTHING
        self._expected = now
        self._started = now  # what the peer owes us it owes from here on
        self._gap = 0.0
        self.next_look = now + LONGEST_GAP

    # -- the owner -------------------------------------------------------------------------

    def expect(self, awaits: Awaits, now: float) -> None:
        """The owner waits for this from now on; the looks begin anew."""
        self._awaits = awaits
        self._expected = self._started = now
        self._looked = self._steady = False
        self._gap = self._patience()
        idle = awaits is Awaits.NOTHING
        self.next_look = now + (LONGEST_GAP if idle else min(LONGEST_GAP, self._gap))
        if awaits is not Awaits.RESPONSE:
            self.hurried = False

    def sent(self, now: float) -> None:
        """The owner has handed bytes over. What was in flight before keeps its own time."""
        if self._since is None:
            self._since = now

    def leave_keepalive(self) -> None:
        """Keepalive of this connection is off, or somebody else's to set."""
        self._keepalive = self.hurried = False

    def answered(self) -> None:
        """The peer has answered: if only the lateness of its ACK spoke against it, that was
        harmless."""
        if self._doubted:
            self._doubted = False
            self._tolerance.late()

    def excuse(self, now: float, sample: Sample) -> None:
        """Packets may have been lost on our own side up to `now`, such as while our link was down:
        only what is sent from here on, and not answered, is evidence."""
        self._base = (now, sample.backoff, sample.probes)
        self._begin_anew(now)
        if self.verdict in (Liveness.SUSPECT, Liveness.DEAD):
            self._say(Liveness.QUIET, "")

    def _begin_anew(self, now: float) -> None:
        """This machine may have slept: what has arrived meanwhile is taken in first."""
        self._grace = now + self._patience()
        self._started = now
        if self._since is not None:
            self._since = now

    # -- looks -----------------------------------------------------------------------------

    def look(self, sample: Sample | None, now: float, *, alternative: bool = False) -> Liveness:
        """Judge a sample taken `now`; None where the platform tells nothing.

        `alternative`: something else is safe to do, such as a second attempt elsewhere; then a
        late ACK is enough to suspect.
        """
        if sample is None:
            self.next_look = math.inf
            return self._say(Liveness.ALIVE, "")
        if sample.state == CLOSED:
            self.next_look = math.inf
            return self._say(Liveness.DEAD, "the connection has ended")
        late = now - self.next_look > STALLED
        if not self._looked:
            self._looked = True
            self._tolerance.looked()
        self._rtt = sample.rtt
        self._note_progress(sample, now)
        self._note_loss(sample, now)
        if late:
            self._begin_anew(now)
        why = self._evidence(sample, now, alternative)
        self._plan(sample, now)
        if why:
            given_up = 0 < self._dead_after <= self._unheard(sample, now)
            return self._say(Liveness.DEAD if given_up else Liveness.SUSPECT, why)
        if self._shut_in(sample, now):
            told = f"{sample.probes} probes of its closed window without an answer"
            return self._say(Liveness.DEAD, told)
        idle = self._awaits is Awaits.NOTHING
        quiet = not idle and min(sample.silence, now - self._expected) >= HURRY_AFTER
        return self._say(Liveness.QUIET if quiet else Liveness.ALIVE, "")

    def _say(self, verdict: Liveness, why: str) -> Liveness:
        self.verdict = verdict
        self.why = why
        return verdict

    def _note_progress(self, sample: Sample, now: float) -> None:
        moved = sample.acked > self._acked
        self._acked = sample.acked
        if moved or not sample.unacked:
            self.answered()
            self._since = now if sample.unacked else None
        elif self._since is None:
            self._since = now

    def _note_loss(self, sample: Sample, now: float) -> None:
        """Count what was lost since the last count, once the peer has been heard again: what a
        dead peer does not answer is no loss."""
        if self._counted is None:
            self._counted = now, sample
            return
        at, before = self._counted
        if sample.silence >= now - at:
            return
        self._counted = now, sample
        out = sample.segments_out - before.segments_out
        lost = sample.resent - before.resent
        if not (sample.unacked or before.unacked or sample.acked > before.acked):
            if sample.received >= now - at:  # nothing but probes and their answers has passed
                answered = sample.segments_in - before.segments_in
                lost += max(0, before.probes + out - answered - sample.probes)
        self._tolerance.count(out, lost)

    def _patience(self) -> float:
        patience = self._tolerance.patience(self._rtt)
        steady = self._steady or self._awaits is Awaits.ROOM
        return max(patience, LATE_PATIENCE) if steady else patience

    def _unheard(self, sample: Sample, now: float) -> float:
        """For how long the peer has owed us a packet."""
        begun = self._started if self._since is None else self._since
        return min(sample.silence, now - begun)

    def _evidence(self, sample: Sample, now: float, alternative: bool) -> str:
        """What speaks against the peer, in words; nothing if it closed its window: it lives."""
        if not sample.window or now < self._grace:
            return ""
        patience = self._patience()
        backoff, probes = self._excused(sample, now)
        if not sample.unacked:
            needed = self._tolerance.probes
            if sample.probes >= max(needed, probes + 2):
                return f"{sample.probes - 1} keepalive probes without an answer"
            return ""
        if sample.backoff >= max(REPEATS, backoff + 1):
            if self._base is None or sample.sent >= patience:
                return f"repeated {sample.backoff} times and not acknowledged"
        if not alternative or self._since is None or self._base is not None:
            return ""  # after an excuse only what the kernel has repeated since tells anything
        if now >= self._since + patience:
            if self._doubted or patience >= LATE_PATIENCE or self._tolerance.hasty(now):
                self._doubted = True
                return f"not acknowledged for {now - self._since:.3f} s"
            self._steady = True
        return ""

    def _shut_in(self, sample: Sample, now: float) -> bool:
        """Whether a peer that had closed its window has died behind it. The kernel would find out
        by the user timeout, but only when its next probe is due, and the gaps between them double
        (facts 5.4); nothing short of that tells against it."""
        if sample.window or now < self._grace:
            return False
        needed = max(self._tolerance.probes, self._excused(sample, now)[1] + 2)
        return sample.probes >= needed and 0 < self._dead_after <= self._unheard(sample, now)

    def _excused(self, sample: Sample, now: float) -> tuple[int, int]:
        """Back-off and probes that do not count; none where there was no excuse, or where the
        peer has been heard since."""
        if self._base is not None and sample.silence < now - self._base[0]:
            self._base = None
        return (-1, -2) if self._base is None else self._base[1:]

    # -- what is to be done ----------------------------------------------------------------

    def _plan(self, sample: Sample, now: float) -> None:
        self.user_timeout = self._limit if self._holds(sample) else 0.0
        if self._keepalive and self._awaits is Awaits.RESPONSE and not sample.unacked:
            self.hurried = self.hurried or sample.silence >= HURRY_AFTER
        self.next_look = now + self._next_gap(sample, now)
        if now < self._grace:
            self.next_look = min(self.next_look, self._grace)
        if self._steady and self._since is not None and now < self._since + LATE_PATIENCE:
            self.next_look = min(self.next_look, self._since + LATE_PATIENCE)

    def _holds(self, sample: Sample) -> bool:
        """Whether the user timeout may stand: it also kills a live peer that does not read
        (facts 5.4). Behind a closed window only unanswered probes tell death; the gaps between
        them double, so that silence alone tells nothing."""
        if sample.window:
            return True
        return sample.probes >= self._tolerance.probes and sample.silence >= self._limit

    def _next_gap(self, sample: Sample, now: float) -> float:
        if sample.unacked and sample.window:
            self._gap = min(UNACKED_GAP, 2 * self._gap or UNACKED_GAP)
            return self._gap
        if self._awaits is Awaits.RESPONSE and self._keepalive and sample.window:
            due = HURRY_AFTER
            if self.hurried:
                due += (self._tolerance.probes - 1) * HURRIED + LEAST_GAP
            return min(LONGEST_GAP, max(LEAST_GAP, due - sample.silence))
        if sample.probes and not sample.window and self._dead_after:
            return min(LONGEST_GAP, max(LEAST_GAP, self._dead_after - self._unheard(sample, now)))
        return HURRIED if sample.probes and sample.window else LONGEST_GAP
