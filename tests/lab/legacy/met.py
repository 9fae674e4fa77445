"""What one program met: its lines, read into figures, and the bounds that they are held to.

Three kinds of calls. Begun before the loss and ended after it: in flight, a node that dies takes
them along, and silence must be told from slowness first. Begun after it on a connection that was
open before: cut, at the latest `CUT` after the loss, or `LEAST` after the call began; with a slow
keepalive of the program's own the latter may come at any time. All others: unaffected.

Bounds: issue of the shims: new connections at most `SLOWEST`, no error, none hung; pooled dead
connections are cut within `CUT` of the loss, and calls that begin after that are as if nothing was.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CUT", "SLOWEST", "Call", "Met", "broken", "read"]

CUT = 12.0  # seconds from the loss
LEAST = 5.5  # seconds that a call on a dead connection gets, however late it comes (net.pooled)
SLOWEST = 1.0  # seconds, of a call that opens a connection
# The same with a slow keepalive of the program's own; Go then repeats on the next dead connection.
LEAST_OF_OTHERS = 8.0
_LATE = 0.5  # seconds that the program's own way to the error may take


@dataclass(frozen=True, slots=True)
class Call:
    """One call: when it began, in seconds from the loss, and how long it took."""

    worker: int
    at: float
    took: float
    error: str
    what: str

    @property
    def end(self) -> float:
        """Seconds from the loss."""
        return self.at + self.took


@dataclass(frozen=True, slots=True)
class Met:
    """All calls of one program, and when each of its workers was last heard of at the end."""

    name: str
    new: bool
    calls: tuple[Call, ...]
    hung: tuple[float, ...]  # seconds that each hung worker has been silent
    kept: tuple[float, ...] = ()  # those that hang on a keepalive of the program's own
    own_keepalive: bool = False

    @property
    def before(self) -> list[Call]:
        """Calls that ended before the loss."""
        return [call for call in self.calls if call.end < 0]

    @property
    def in_flight(self) -> list[Call]:
        """Calls that the loss met half way."""
        return [call for call in self.calls if call.at < 0 <= call.end]

    @property
    def after(self) -> list[Call]:
        """Calls begun after the loss."""
        return [call for call in self.calls if call.at >= 0]

    @property
    def cut(self) -> list[Call]:
        """Calls that ended with their connection: in flight, or on a pooled one that was dead."""
        until = math.inf if self.own_keepalive else CUT
        pooled = [] if self.new else [call for call in self.after if call.at < until]
        return [c for c in (*self.in_flight, *pooled) if c.error or c.took > SLOWEST]

    @property
    def unaffected(self) -> list[Call]:
        """What must be as if nothing had happened."""
        gone = {id(call) for call in self.cut}
        return [call for call in self.after if id(call) not in gone]

    @property
    def errors(self) -> list[Call]:
        """Errors that have no excuse."""
        return [call for call in self.unaffected if call.error]

    def percentile(self, share: float) -> float:
        """The time that `share` of the unaffected calls stayed within."""
        times = sorted(call.took for call in self.unaffected)
        return times[min(len(times) - 1, int(len(times) * share))] if times else float("nan")

    def figures(self) -> str:
        """One line of the table."""
        cut = f"{max(call.end for call in self.cut):5.1f} s" if self.cut else "-"
        errors = sum(bool(call.error) for call in self.cut)
        hung = f"{len(self.hung)}" + (f" ({max(self.hung):.0f} s)" if self.hung else "")
        kept = f"  {len(self.kept)} in flight on a keepalive of its own" if self.kept else ""
        return (
            f"{self.name:<38} {len(self.after):>5} calls {len(self.errors):>3} errors "
            f"{hung:>8} hung  p50 {_ms(self.percentile(0.5))} p99 {_ms(self.percentile(0.99))} "
            f"slowest {_ms(self.percentile(1.0))}  cut at {cut:>7} ({errors} errors){kept}"
        )

    def explain(self) -> str:
        """What a failing test shows."""
        worst = sorted(self.after, key=lambda call: -call.took)[:4]
        errors = [call for call in self.calls if call.error]
        return "\n".join([self.figures(), *map(str, errors[:12]), *map(str, worst)])


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:7.1f} ms"


def broken(met: Met, workers: int) -> list[str]:
    """The bounds that do not hold."""
    found = []
    if len(met.before) < workers:
        found.append(f"{len(met.before)} calls before the loss")
    if any(call.error for call in met.before):
        found.append("errors before the loss")
    if met.errors:
        found.append(f"{len(met.errors)} errors")
    if met.hung:
        found.append(f"{len(met.hung)} hung")
    if met.percentile(1.0) > SLOWEST:
        found.append(f"slowest {met.percentile(1.0):.2f} s")
    least, most = (LEAST_OF_OTHERS, CUT + LEAST_OF_OTHERS) if met.own_keepalive else (LEAST, CUT)
    late = [c.end for c in met.cut if c.end > most + _LATE and c.took > least + _LATE]
    if late:
        found.append(f"a dead connection was cut {max(late):.1f} s after the loss")
    if len(met.cut) > workers:
        found.append(f"{len(met.cut)} calls were cut, of {workers} connections")
    return found


def read(
    name: str,
    new: bool,
    said: Path,
    loss: float,
    end: float,
    patience: float,
    own_keepalive: bool = False,
) -> Met:
    """From a program's lines. A worker is hung that was silent for `patience` at the end.

    With a keepalive of its own, those are apart that the loss met half way: the dead node may have
    acknowledged the call, after which nothing but keepalive tells.
    """
    calls = []
    for line in said.read_text(encoding="utf-8", errors="replace").splitlines():
        if not line.startswith("{") or not line.endswith("}"):
            continue  # cut short by the end
        told = json.loads(line)
        if told["at"] + told["took"] <= end:
            at = told["at"] - loss
            calls.append(Call(told["worker"], at, told["took"], told["error"], told["what"]))
    heard: dict[int, float] = {}
    for call in calls:
        heard[call.worker] = max(heard.get(call.worker, call.end), call.end)
    hung: list[float] = []
    kept: list[float] = []
    for last in heard.values():
        silent = end - loss - last
        if silent > patience:
            (kept if own_keepalive and last < 0 else hung).append(silent)
    return Met(name, new, tuple(calls), tuple(hung), tuple(kept), own_keepalive)
