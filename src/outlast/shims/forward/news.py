"""What the forwarder tells: log lines, events, and for `--explain` a line per connection.

`outlast.forward` is the logger. A connection that is cut or never reaches upstream is a warning:
its client sees a reset, and not why. One that ends in good order is told to whoever explains.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from outlast import events
from outlast.core.report import Report
from outlast.net.dial import DialError, Won
from outlast.shims.forward.passage import Passage
from outlast.shims.forward.relay import CLIENT, UPSTREAM, End

__all__ = ["Counts", "News"]

log = logging.getLogger("outlast.forward")

REASONS = {End.CLOSED: "peer", End.FAILED: "suspect", End.IDLE: "idle", End.CUT: "closed"}


@dataclass(slots=True)
class Counts:
    """Connections since the start. `accepted` is the sum of the others and of those that are open.

    `unreached`: upstream did not answer, and the client was reset. `gone`: the client left before
    upstream stood. `closed`: ended in good order. `failed`: one side was reset, or dead. `idle`,
    `cut`: by the idle limit; by the forwarder's end. `up`, `down`: bytes of ended connections.
    """

    accepted: int = 0
    unreached: int = 0
    gone: int = 0
    closed: int = 0
    failed: int = 0
    idle: int = 0
    cut: int = 0
    up: int = 0
    down: int = 0

    @property
    def open(self) -> int:
        """Connections at this moment, those that wait for upstream included."""
        ended = self.unreached + self.gone + self.closed + self.failed + self.idle + self.cut
        return self.accepted - ended

    def __str__(self) -> str:
        told = {name: getattr(self, name) for name in self.__slots__}
        up, down = told.pop("up"), told.pop("down")
        parts = [f"{count} {name}" for name, count in told.items() if count or name == "accepted"]
        return f"{', '.join(parts)}; {up} bytes up, {down} down"


class News:
    """Tells, and counts. `explain` is called with text for people."""

    def __init__(self, explain: Callable[[str], None] | None = None) -> None:
        self._explain = explain
        self.counts = Counts()

    @property
    def _explains(self) -> bool:
        return self._explain is not None

    def _tell(self, text: str) -> None:
        """To whoever wants it explained, and is told no more if that fails."""
        if self._explain is None:
            return
        try:
            self._explain(text)
        except Exception:
            self._explain = None
            log.exception("the explanation of connections has failed; it goes on without")

    def accepted(self) -> None:
        """Somebody has come in."""
        self.counts.accepted += 1

    def opened(self, passage: Passage, won: Won, report: Report, now: float) -> None:
        """Upstream stands."""
        if events.wanted(events.ConnectionOpened):
            events.emit(
                events.ConnectionOpened(
                    at=now,
                    target=passage.route.target.text,
                    address=passage.where,
                    connect=won.rtt,
                    dials=won.dials,
                    local_port=passage.local_port,
                )
            )
        if self._explains:
            took = (now - passage.opened) * 1e3
            many = f"{won.dials} dial{'s' * (won.dials != 1)}"
            head = f"{_way(passage)}: {passage.where} from port {passage.local_port}"
            self._tell(f"{head} in {took:.1f} ms, {many}\n{_indented(report)}")

    def unreached(self, passage: Passage, error: DialError, report: Report) -> None:
        """No upstream: the client is reset."""
        self.counts.unreached += 1
        log.warning("%s: reset: %s", _way(passage), error.message)
        self._tell(f"{_way(passage)}: reset: {error.message}\n{_indented(report)}")

    def fault(self, passage: Passage, error: BaseException) -> None:
        """A fault of ours, or of a resolver's: this client is reset, the others stay."""
        self.counts.unreached += 1
        log.error("%s: reset: a fault in the dial", _way(passage), exc_info=error)

    def gone(self, passage: Passage, why: str) -> None:
        """The client has left before upstream stood."""
        self.counts.gone += 1
        self._tell(f"{_way(passage)}: {why}")

    def ended(self, passage: Passage, now: float) -> None:
        """Both sockets are closed."""
        relay = passage.relay
        if relay is None or relay.end is None:
            self.counts.cut += 1
            return
        counts, end = self.counts, relay.end
        setattr(counts, end.value, getattr(counts, end.value) + 1)
        up, down = relay.total(CLIENT), relay.total(UPSTREAM)
        counts.up += up
        counts.down += down
        if events.wanted(events.ConnectionClosed):
            events.emit(
                events.ConnectionClosed(
                    at=now,
                    target=passage.route.target.text,
                    address=passage.where,
                    reason=REASONS[end],
                    age=now - passage.opened,
                    local_port=passage.local_port,
                )
            )
        if not self._explains and end is not End.FAILED:
            return
        age = now - passage.opened
        text = f"{_way(passage)}: {_why(passage)} after {age:.1f} s, {up} bytes up, {down} down"
        if end is End.FAILED and relay.failed == UPSTREAM:
            log.warning("%s", text)
        self._tell(text)

    def no_room(self, why: str, pause: float) -> None:
        """The process is out of descriptors or memory."""
        log.warning(
            "cannot accept another connection: %s; those who come wait, and it is tried again in "
            "%g s; raise the limit (ulimit -n, LimitNOFILE=), or lower the most connections",
            why,
            pause,
        )

    def full(self, most: int) -> None:
        """All places are taken."""
        log.warning("all %d connections are in use; those who come now wait", most)

    def draining(self, bound: float) -> None:
        """No more are taken; those that are open may end."""
        log.info("draining: %d connections have %g s to end", self.counts.open, bound)

    def broken(self, place: str, error: OSError) -> None:
        """A listener has failed."""
        log.error("%s: no connection can be taken there any more: %s", place, error)


def _way(passage: Passage) -> str:
    return f"#{passage.number} {passage.name} -> {passage.route.target.text}"


def _why(passage: Passage) -> str:
    relay = passage.relay
    assert relay is not None
    if relay.end is End.CLOSED:
        return "closed by both sides"
    if relay.end is End.IDLE:
        return "cut: nothing moved within the idle limit"
    if relay.end is End.CUT:
        return "cut: the forwarder ends"
    who = "the client" if relay.failed == CLIENT else f"upstream {passage.where}"
    said = passage.why
    words = "ended without order" if said is None or said.errno is None else os.strerror(said.errno)
    return f"cut: {who}: {words.lower()}"


def _indented(report: Report) -> str:
    return "\n".join(f"    {line}" for line in str(report).splitlines())
