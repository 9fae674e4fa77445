"""What a process knows of its targets at one moment, for people and for programs.

Values only: who fills them is the table. A snapshot does not change afterwards, holds nothing
alive, and is never an input to a decision. Times are on the network's clock, as in events
(`Snapshot.at` is its "now"); durations are seconds. As large as the endpoint table is, no larger.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["EndpointSnapshot", "Snapshot", "TargetSnapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSnapshot:
    """One endpoint.

    `standing`: "in", "out" (used last) or "trial". Of an endpoint that is not in: `evidence`,
    "answers" or "death"; `rule`, by which it was ejected, "" if it was only put aside; `why`, in
    words; `until`, when its trial is due, `math.inf` for when its active check passes.
    `ejections`: how many there were. `pending`: requests under way. `latency`: what one is
    expected to take (peak EWMA), None until known. `weight`: its own times its slow start, which
    is 0.1 to 1.0. `suspect`: the kernel has evidence against it. `last_success`: None for never.
    `check`: what the active check found, "up", "down" or "" (none has ended), and `check_why` in
    words. `connections`: open, idle ones included, and `idle` of them; None where nobody counts.
    Under circuit limits, else None: `in_flight`, requests that count, of at most `limit` (None for
    any number), and `waiting`, those in line. `full`: the limits that are reached, in words.
    """

    address: str
    standing: str = "in"
    evidence: str = ""
    rule: str = ""
    why: str = ""
    until: float | None = None
    ejections: int = 0
    pending: int = 0
    latency: float | None = None
    weight: float = 1.0
    priority: int = 0
    zone: str = ""
    node: str = ""
    suspect: bool = False
    last_success: float | None = None
    check: str = ""
    check_why: str = ""
    connections: int | None = None
    idle: int | None = None
    in_flight: int | None = None
    waiting: int | None = None
    limit: int | None = None
    full: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSnapshot:
    """One target and its endpoints, those of the lowest priority number first.

    `panic`: what was ejected on its answers is used all the same. `retry_budget_left`: repeats
    and hedges that could start now. `redials_left`: extra dials that could. (None: not known.)
    `calls`, and `held_back`, the repeats that dry runs have only counted: since the process knows
    the target.
    """

    target: str
    endpoints: tuple[EndpointSnapshot, ...] = ()
    panic: bool = False
    retry_budget_left: float | None = None
    redials_left: float | None = None
    calls: int = 0
    held_back: int = 0

    def standing(self, word: str) -> int:
        """How many endpoints are "in", "out" or "trial"."""
        return sum(each.standing == word for each in self.endpoints)

    @property
    def pending(self) -> int:
        """Requests under way to all endpoints."""
        return sum(each.pending for each in self.endpoints)

    def get(self, address: str) -> EndpointSnapshot | None:
        """The endpoint with this address, if there is one."""
        return next((each for each in self.endpoints if each.address == address), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All targets, in the order in which the process met them. `str()` is a table."""

    at: float
    targets: tuple[TargetSnapshot, ...] = ()

    def get(self, target: str) -> TargetSnapshot | None:
        """The target that was written so, if there is one."""
        return next((each for each in self.targets if each.target == target), None)

    def as_dict(self) -> dict[str, Any]:
        """The same in lists, dictionaries, numbers and strings, fit for JSON: infinity is None."""
        told = dataclasses.asdict(self)
        for target in told["targets"]:
            target["endpoints"] = list(target["endpoints"])
            for each in target["endpoints"]:
                each["until"] = None if each["until"] == math.inf else each["until"]
        told["targets"] = list(told["targets"])
        return told

    def __iter__(self) -> Iterator[TargetSnapshot]:
        return iter(self.targets)

    def __len__(self) -> int:
        return len(self.targets)

    def __str__(self) -> str:
        if not self.targets:
            return "no target has been used yet"
        return "\n\n".join(_target(each, self.at) for each in self.targets)


# -- for people --------------------------------------------------------------------------------

HEADINGS = ("endpoint", "standing", "weight", "pending", "latency", "answered", "notes")
RIGHT = frozenset({2, 3, 4, 5})  # columns of figures


def _target(target: TargetSnapshot, now: float) -> str:
    rows = [HEADINGS, *(_endpoint(each, now) for each in target.endpoints)]
    return "\n".join([_heading(target), *(f"  {line}" for line in _aligned(rows))])


def _heading(target: TargetSnapshot) -> str:
    total = len(target.endpoints)
    parts = [f"{total} endpoint{'s' * (total != 1)}"]
    parts += [f"{count} {word}" for word in ("out", "trial") if (count := target.standing(word))]
    parts += [f"{target.calls} call{'s' * (target.calls != 1)}"]
    budgets = (("repeats", target.retry_budget_left), ("extra dials", target.redials_left))
    if target.held_back:
        parts.append(f"{target.held_back} repeats held back")
    parts += [f"{left:.0f} {what} left" for what, left in budgets if left is not None]
    if target.panic:
        parts.append("PANIC")
    return f"{target.target}  ({', '.join(parts)})"


def _endpoint(each: EndpointSnapshot, now: float) -> tuple[str, ...]:
    return (
        each.address,
        _standing(each, now),
        f"{each.weight:.2f}",
        str(each.pending),
        "-" if each.latency is None else _span(each.latency),
        "never" if each.last_success is None else f"{_span(now - each.last_success)} ago",
        _notes(each),
    )


def _standing(each: EndpointSnapshot, now: float) -> str:
    if each.until is None:
        return each.standing
    if each.until == math.inf:
        return f"{each.standing}, until checked"
    left = each.until - now
    return f"{each.standing}, {_span(left)} left" if left > 0 else f"{each.standing}, trial due"


def _notes(each: EndpointSnapshot) -> str:
    notes = [f"priority {each.priority}"] if each.priority else []
    notes += [text for text in (each.zone, each.node) if text]
    if each.evidence:
        rule = f" ({each.rule})" if each.rule else ""
        notes.append(f"on {each.evidence}{rule}: {each.why}")
    if each.ejections:
        notes.append(f"ejected {each.ejections} time{'s' * (each.ejections != 1)}")
    if each.suspect:
        notes.append("suspect")
    if each.check and each.rule != "check":  # else it has been said
        reason = f" ({each.check_why})" if each.check_why else ""
        notes.append(f"check {each.check}{reason}")
    if each.connections is not None:
        idle = "" if each.idle is None else f" ({each.idle} idle)"
        notes.append(f"{each.connections} connection{'s' * (each.connections != 1)}{idle}")
    if each.in_flight:
        most = "" if each.limit is None else f" of {each.limit}"
        notes.append(f"{each.in_flight}{most} in flight")
    if each.waiting:
        notes.append(f"{each.waiting} waiting")
    if each.full:
        notes.append(f"full: {each.full}")
    return "; ".join(notes)


def _span(seconds: float) -> str:
    if seconds < 1:
        return f"{max(seconds, 0.0) * 1e3:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            text.rjust(width) if column in RIGHT else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
