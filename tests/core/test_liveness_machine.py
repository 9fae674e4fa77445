"""The verdict machine against a made-up kernel: whatever happens, the living are not suspected
and the dead are found out."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlast.core.liveness import LONGEST_GAP, STALLED, Awaits, Liveness, Watch
from outlast.core.tolerance import Tolerance
from tests.core.peer import WINDOW, Peer

LIMIT = 11.0
ON_TIME = 0.2  # seconds that a look may be late and count
# A sound network: the peer's kernel acknowledges within this, and at most one probe is lost.
ACK = 0.09
# Seconds after which evidence must be there: three probes of 5 + 1 + 1 s where nobody hurries
# them, the repeats of RTO back-off, one keepalive tick, and a look of two seconds.
FOUND_OUT = 12.0


class Watching(RuleBasedStateMachine):
    """One watched connection; the peer may die once."""

    def __init__(self) -> None:
        super().__init__()
        self.peer = Peer(now=100.0)
        self.tolerance = Tolerance()
        self.awaits = Awaits.NOTHING
        self.late = False
        self.died_at = 0.0

    @initialize(keepalive=st.booleans(), rtt=st.sampled_from([0.0, 0.001, 0.02]))
    def begin(self, keepalive: bool, rtt: float) -> None:
        self.keepalive = keepalive
        self.peer.rtt = rtt
        self.watch = Watch(
            self.peer.now,
            acked=0,
            rtt=rtt,
            user_timeout=LIMIT,
            dead_after=LIMIT,
            keepalive=keepalive,
            tolerance=self.tolerance,
        )

    # -- the owner -------------------------------------------------------------------------

    @rule(awaits=st.sampled_from(Awaits))
    def expect(self, awaits: Awaits) -> None:
        self.awaits = awaits
        self.watch.expect(awaits, self.peer.now)
        self.peer.hurry(self.watch.hurried)

    @rule()
    def send(self) -> None:
        self.peer.send()
        self.watch.sent(self.peer.now)

    @rule(late=st.floats(0.0, ON_TIME), alternative=st.booleans())
    def look(self, late: float, alternative: bool) -> None:
        self._look(late, alternative)

    @rule(late=st.floats(STALLED + 0.01, 30.0), alternative=st.booleans())
    def stall(self, late: float, alternative: bool) -> None:
        self._look(late, alternative)
        if self.watch.verdict is not Liveness.DEAD:
            assert self.watch.verdict is not Liveness.SUSPECT, "evidence from a stall"

    def _look(self, late: float, alternative: bool) -> None:
        peer, watch = self.peer, self.watch
        self.late = late > STALLED
        peer.advance(max(0.0, watch.next_look + late - peer.now))
        watch.look(peer.sample(), peer.now, alternative=alternative)
        peer.hurry(watch.hurried)
        assert peer.now < watch.next_look <= peer.now + LONGEST_GAP

    # -- the peer --------------------------------------------------------------------------

    @rule(seconds=st.floats(0.0, 1.0))
    def pass_time(self, seconds: float) -> None:
        """But never past a look."""
        self.peer.advance(max(0.0, min(seconds, self.watch.next_look - self.peer.now)))

    @precondition(lambda self: self.peer.alive)
    @rule()
    def answer(self) -> None:
        self.peer.hear(data=True)

    @precondition(lambda self: self.peer.alive)
    @rule(ack=st.floats(0.0, ACK), lost=st.integers(0, 1))
    def weather(self, ack: float, lost: int) -> None:
        self.peer.ack, self.peer.lost = ack, lost

    @precondition(lambda self: self.peer.alive)
    @rule(window=st.sampled_from([0, 1000, WINDOW]))
    def read(self, window: int) -> None:
        if self.peer.sent_at is not None and not self.peer.window and window:
            self.peer.sent_at = self.peer.now  # what has waited leaves now
            self.watch.sent(self.peer.now)
        self.peer.window = window
        self.peer.hear()

    @precondition(lambda self: self.peer.alive)
    @rule()
    def die(self) -> None:
        self.peer.alive = False
        self.died_at = self.peer.now

    # -- what always holds -----------------------------------------------------------------

    @precondition(lambda self: hasattr(self, "watch"))
    @invariant()
    def the_living_are_not_suspected(self) -> None:
        if self.peer.alive:
            assert self.watch.verdict in (Liveness.ALIVE, Liveness.QUIET), self.watch.why
        elif not self.peer.window:
            assert self.watch.verdict is not Liveness.SUSPECT, self.watch.why

    @precondition(lambda self: hasattr(self, "watch"))
    @invariant()
    def keepalive_is_hurried_for_a_response_only(self) -> None:
        if self.watch.hurried:
            assert self.keepalive
            assert self.awaits is Awaits.RESPONSE

    @precondition(lambda self: hasattr(self, "watch"))
    @invariant()
    def the_user_timeout_stands_or_is_lifted(self) -> None:
        assert self.watch.user_timeout in (0.0, LIMIT)

    def teardown(self) -> None:
        """The user timeout follows the window; a dead peer is found out, and given up."""
        if not hasattr(self, "watch"):
            return
        self._look(0.0, False)
        if self.peer.alive or self.peer.window:
            assert self.watch.user_timeout == (LIMIT if self.peer.window else 0.0)
        if self.peer.alive or not self.peer.window:
            return
        start = self.peer.now
        while self.watch.verdict not in (Liveness.SUSPECT, Liveness.DEAD):
            assert self.peer.now < start + FOUND_OUT, self.peer.sample()
            self._look(0.0, False)
        while self.watch.verdict is not Liveness.DEAD:
            assert self.peer.now < start + FOUND_OUT + LIMIT, self.peer.sample()
            self._look(0.0, False)


TestWatching = Watching.TestCase
