"""Looks at one connection, and has on its socket what the verdict machine wants there.

The one place where `core.liveness` meets a socket: requests that wait and sockets that were
handed out are looked at by the same lines. Before a peer is held suspect our own link is asked
for: silence behind a pulled cable says nothing (DESIGN section 7). Refuses to touch keepalive
that is the caller's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from outlast.core.liveness import CLOSED, Awaits, Liveness, Sample, Watch
from outlast.net.options import Keepalive
from outlast.net.probe import hurried

__all__ = ["Observed", "Observer"]

_EVIDENCE = frozenset({Liveness.SUSPECT, Liveness.DEAD})


class Observed(Protocol):
    """What is looked at: a stream, or somebody else's socket. See `Stream`."""

    def state(self) -> Sample | None:
        """See `Stream.state`."""

    def linked(self) -> bool:
        """See `Stream.linked`."""

    @property
    def keepalive(self) -> Keepalive | None:
        """See `Stream.keepalive`."""

    def set_keepalive(self, keepalive: Keepalive) -> None:
        """See `Stream.set_keepalive`."""


class Observer:
    """One connection under watch. One owner at a time; `end` it, and the socket is as before.

    `limit(seconds)` sets the user timeout; it is called after each look, also with the same value.
    """

    __slots__ = ("_cut", "_hurried", "_limit", "_observed", "watch")

    def __init__(self, observed: Observed, watch: Watch, limit: Callable[[float], None]) -> None:
        self._observed = observed
        self._limit = limit
        self._hurried = False
        self._cut = False  # our own link was down at the last look that found evidence
        self.watch = watch

    def expect(self, awaits: Awaits, now: float) -> None:
        """See `Watch.expect`."""
        self.watch.expect(awaits, now)
        self._apply_keepalive()

    def look(self, now: float, *, alternative: bool = False) -> Liveness:
        """Take one sample and judge it; see `Watch.look`."""
        sample = self._observed.state()
        verdict = self.watch.look(sample, now, alternative=alternative)
        if verdict in _EVIDENCE and sample is not None and sample.state != CLOSED:
            cut, self._cut = self._cut, not self._observed.linked()
            if cut or self._cut:  # it may have come back only just now
                self.watch.excuse(now, sample)
                verdict = self.watch.verdict
        self._limit(self.watch.user_timeout)
        self._apply_keepalive()
        return verdict

    def end(self, now: float) -> None:
        """Nobody waits any more: keepalive is put back. The user timeout is the owner's."""
        self.expect(Awaits.NOTHING, now)

    def _apply_keepalive(self) -> None:
        if self.watch.hurried == self._hurried:
            return
        planned = self._observed.keepalive
        if planned is None:
            self.watch.leave_keepalive()
            return
        self._hurried = self.watch.hurried
        self._observed.set_keepalive(hurried(planned) if self._hurried else planned)
