"""One connection through the forwarder, decided: what to move next, and when it is over.

A pure machine over two flows, from the client and from upstream. It is told what the sockets did
and says what to do next with a flow and what to wait for. Bytes never pass it, and none are held
here: a flow whose reader is slow is *stuck*, and then its source is not read.

An end is passed on as it came: what one side has closed in good order is closed in good order for
the other (half-close, TCP's FIN, RFC 9293 section 3.6), and whatever ends in another way ends the
other side with a reset, after what had arrived before was handed over. It never makes up an
orderly end: a reader that lives by the end of the stream must be able to tell that it was cut.

Reads no clock. Not thread-safe; one relay, one owner.
"""

from __future__ import annotations

import math
from enum import Enum

__all__ = ["BULK", "CLIENT", "LAST_WORDS", "READ", "UPSTREAM", "WRITE", "Do", "End", "Relay"]

CLIENT, UPSTREAM = 0, 1  # sides; a flow goes by the side that it comes from
READ, WRITE = 1, 2  # as in the seam
BULK = 1 << 16  # bytes that came at once: worth a pipe
LAST_WORDS = 1.0  # seconds to hand over what had arrived before a side failed


class Do(Enum):
    """The next step of a flow."""

    REST = "rest"  # nothing to do before something happens
    COPY = "copy"
    SPLICE = "splice"  # fill a pipe; copy if there is none to be had
    POUR = "pour"  # hand over what the pipe holds
    SHUT = "shut"  # pass the end on


class End(Enum):
    """How a relay has ended."""

    CLOSED = "closed"  # both sides, in good order
    FAILED = "failed"  # one side was reset, or is dead
    IDLE = "idle"  # nothing moved for too long
    CUT = "cut"  # because the forwarder ends


class _Flow:
    """One direction. `held`: bytes in its pipe. `shut`: its end was passed on."""

    __slots__ = ("bulk", "ended", "held", "ready", "shut", "stuck", "total")

    def __init__(self) -> None:
        self.ready = False
        self.bulk = False
        self.ended = False
        self.shut = False
        self.stuck = False
        self.held = 0
        self.total = 0

    @property
    def dry(self) -> bool:
        """Whether nothing will come out of it any more."""
        return self.ended and not self.held


class Relay:
    """One client, one upstream, from the moment both stand.

    idle_limit: seconds without a byte in either direction; inf for none.
    `end`: how it ended, None while it has not. `failed`: the side that did, None if none did.
    """

    __slots__ = ("_flows", "_idle_limit", "_touched", "_until", "end", "failed")

    def __init__(self, now: float, idle_limit: float = math.inf) -> None:
        self._flows = (_Flow(), _Flow())
        self._idle_limit = idle_limit
        self._touched = now
        self._until = math.inf
        self.failed: int | None = None
        self.end: End | None = None

    def total(self, side: int) -> int:
        """Bytes from this side that the other has taken."""
        return self._flows[side].total

    # -- what is next ----------------------------------------------------------------------

    def wants(self, side: int) -> int:
        """What to wait for on this side's socket: READ, WRITE, both, or nothing."""
        if self.end is not None or side == self.failed:
            return 0
        mask = 0
        leaving, coming = self._flows[side], self._flows[1 - side]
        if self.failed is None and not (leaving.ended or leaving.stuck or leaving.held):
            mask = READ
        if coming.stuck:
            mask |= WRITE
        return mask

    def next(self, side: int) -> Do:
        """What to do with the flow from this side."""
        flow = self._flows[side]
        if self.end is not None or flow.stuck or flow.shut or self.failed == 1 - side:
            return Do.REST
        if flow.held:
            return Do.POUR
        if flow.ended:
            return Do.REST if self.failed is not None else Do.SHUT
        if not flow.ready:
            return Do.REST
        return Do.SPLICE if flow.bulk else Do.COPY

    @property
    def due(self) -> float:
        """When to call `late`, if nothing happens before; inf for never."""
        if self.end is not None:
            return math.inf
        return min(self._until, self._touched + self._idle_limit)

    # -- what happened ---------------------------------------------------------------------

    def readable(self, side: int) -> None:
        """Something has arrived from this side, or its end."""
        self._flows[side].ready = True

    def writable(self, side: int) -> None:
        """This side takes bytes again."""
        self._flows[1 - side].stuck = False

    def copied(self, side: int, count: int | None, *, full: bool, now: float) -> None:
        """A copy from this side: bytes moved, 0 at its end, None for nothing; `full`: the other
        side takes no more at the moment."""
        flow = self._flows[side]
        flow.stuck = full
        if count:
            flow.total += count
            flow.bulk = count >= BULK
            self._touched = now
        self._taken(flow, side, count, full=full)

    def filled(self, side: int, count: int | None) -> None:
        """A pipe was filled from this side: bytes, 0 at its end, None for nothing."""
        flow = self._flows[side]
        if count:
            flow.held += count
            flow.bulk = count >= BULK
        else:
            flow.bulk = False
        self._taken(flow, side, count, full=False)

    def poured(self, side: int, count: int, now: float) -> None:
        """The other side has taken so much of this flow's pipe."""
        flow = self._flows[side]
        flow.held -= count
        flow.total += count
        flow.stuck = flow.held > 0
        if count:
            self._touched = now
        self._settle()

    def passed_on(self, side: int) -> None:
        """This flow's end has been passed on to the other side."""
        self._flows[side].shut = True
        if all(flow.shut for flow in self._flows):
            self.end = End.CLOSED

    def lost(self, side: int, now: float) -> None:
        """This side has failed: reset, dead, or gone. What it said before is handed over yet."""
        if self.failed is not None:
            self.end = End.FAILED
        if self.end is not None:
            return
        self.failed = side
        self._until = now + LAST_WORDS
        flow = self._flows[side]
        flow.ready = True
        self._settle()

    def late(self, now: float) -> bool:
        """`due` may have come: whether it is over for that."""
        if now < self.due:
            return False
        self.end = End.IDLE if self.failed is None else End.FAILED
        return True

    def cut(self) -> None:
        """The forwarder ends."""
        if self.end is None:
            self.end = End.CUT

    def _taken(self, flow: _Flow, side: int, count: int | None, *, full: bool) -> None:
        """A try to read is over. Of a side that has failed everything is read at once: nothing
        will say that there is more."""
        if count == 0 or (side == self.failed and count is None and not full):
            flow.ended = True
        flow.ready = side == self.failed
        self._settle()

    def _settle(self) -> None:
        if self.failed is not None and self._flows[self.failed].dry:
            self.end = End.FAILED
