"""The report: Markdown and pictures from what a run has found. Pure.

Nothing is left out: a bound that is not kept is called so, a client that failed in a cell is named
with its error, and where there were fewer rounds their number stands beside the figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks.speed.figures import cost, kib, rate, ratio, spread
from benchmarks.speed.picture import Panel, draw
from benchmarks.speed.plan import CLIENTS, CPU, H1, LARGE, SMALL, Cell, Client
from benchmarks.speed.rounds import Pairs, Row, Weights

__all__ = ["Circumstances", "Findings", "page", "pictures"]

Key: TypeAlias = "tuple[str, Cell]"


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Where, when and with what it was measured."""

    date: str
    machine: str
    versions: str
    command: str
    pinned: bool
    earlier: str = ""  # of parts that were measured before, in words

    @property
    def told(self) -> str:
        """In words."""
        return f"{self.date}, {self.versions.partition(',')[0]}, `{self.command}`{self.earlier}"


@dataclass(frozen=True, slots=True)
class Findings:
    """All of a run."""

    circumstances: Circumstances
    goals: list[Pairs]
    weights: list[Weights]
    rows: list[Row]


def page(findings: Findings) -> str:
    """The whole report."""
    parts = [
        "# Speed: what outlast costs when nothing is wrong",
        _opening(findings.circumstances),
        *(["## The numbers", _numbers(findings)] if findings.goals or findings.weights else []),
        *([PICTURES] if pictures(findings) else []),
        *_tables(findings.rows),
        *_failures(findings),
    ]
    return "\n\n".join(parts) + "\n"


def _opening(found: Circumstances) -> str:
    where = (
        "Server and client have a core each."
        if found.pinned
        else "The processes could not be given cores of their own."
    )
    return f"""\
Each client gets the same page from the same server on loopback, over and over. CPU is the client
process's own, user and system, all threads. Figures are the medians of rounds in which the clients
take turns, with the lowest and the highest round in brackets. {where}

- Measured on {found.date}: {found.machine}.
- Versions: {found.versions}.
- Command: `{found.command}`{found.earlier}.

The same for all: `max_connections` and `max_keepalive_connections` (or what a client has of that
kind) are the number of requests at once; the default event loop of asyncio; TLS as Python's
`ssl.create_default_context()` has it; the body wholly read; no proxy, no limit of time below a
minute. Everything else is each library's default: outlast has its default policy, and no extra but
`http2`. Each client is a process of its own, and its connections stand before anything counts.
The server answers at once whoever asks; "small" is a body of 2 bytes. HTTP/2 without TLS is spoken
by prior knowledge; 100 streams share a connection at most."""


# -- the numbers -----------------------------------------------------------------------------

PICTURES = """\
![CPU for one request of each client, by how many are asked for at once](benchmarks/speed-cost.svg)

![Requests in a second of each client, on one core](benchmarks/speed-rate.svg)"""
PREFACE = """\
{count} rounds. Ratios of outlast to plain httpx in the same round, unless another comparison is
named; the bounds are the project's own. A round at 1 at once is eight short windows of each side,
in turn, added up; any other is one window of each. Memory is weighed in three rounds, each in a
fresh process.

"""
HEADING = """\
| | bound | ratio, lowest–highest | ours | the other's | |
|---|--:|--:|--:|--:|---|
"""


def _numbers(findings: Findings) -> str:
    lines = [_goal_line(pairs) for pairs in findings.goals]
    lines += [_weight_line(weights) for weights in findings.weights]
    count = max((len(pairs.pairs) for pairs in findings.goals), default=0)
    return PREFACE.format(count=count) + HEADING + "\n".join(lines)


def _goal_line(found: Pairs) -> str:
    goal = found.goal
    bound = "" if goal.bound is None else f"{'≤' if goal.most else '≥'} {goal.bound:.2f}"
    unit, form = ("ms", cost) if goal.what == CPU else ("/s", rate)
    return _line(f"{goal.what}: {goal.title}", bound, found.pairs, goal.met, form, unit)


def _weight_line(found: Weights) -> str:
    title = f"memory per idle connection: {found.memory.words}"
    return _line(title, "≤ 1.00", found.pairs, lambda value: value <= 1.0, kib, "KiB")


def _line(
    title: str,
    bound: str,
    pairs: Sequence[tuple[float, float]],
    met: Callable[[float], bool],
    form: Callable[[float], str],
    unit: str,
) -> str:
    ratios = spread([mine / theirs for mine, theirs in pairs])
    mine, theirs = spread([pair[0] for pair in pairs]), spread([pair[1] for pair in pairs])
    if ratios is None or mine is None or theirs is None:
        return f"| {title} | {bound} | failed | - | - | failed |"
    verdict = "" if not bound else "kept" if met(ratios.median) else "**not kept**"
    return (
        f"| {title} | {bound} | {ratios.write(ratio)} | {form(mine.median)} {unit}"
        f" | {form(theirs.median)} {unit} | {verdict} |"
    )


# -- the tables ------------------------------------------------------------------------------


ROUNDS = """\
Below are all clients, in {full} rounds; where a figure is of fewer their number stands beside it.
`outlast+httptools` is outlast with the extra of that name, and `http1_parser="httptools"`."""


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each way of asking, protocol, layer and size."""
    found = {(row.client, row.cell): row for row in rows}
    cells = list(dict.fromkeys(row.cell for row in rows))
    asked = sorted({cell.at_once for cell in cells})
    full = max((len(row.found) for row in rows), default=0)
    if rows:
        yield ROUNDS.format(full=full)
    heading = None
    for kind in dict.fromkeys((c.sync, c.protocol, c.tls, c.size) for c in cells):
        sync, protocol, tls, size = kind
        way = "Sync: as many threads as requests at once" if sync else "Async: asyncio"
        if way != heading:
            heading = way
            yield f"## {way}"
        words = "HTTP/1.1" if protocol == H1 else "HTTP/2"
        body = "1 MiB" if size == LARGE else "small"
        yield f"### {words}, {'TLS' if tls else 'plain'}, {body}"
        yield _table([Cell(*kind, at_once) for at_once in asked], found, full)


def _table(cells: Sequence[Cell], found: dict[Key, Row], full: int) -> str:
    heads = [f"ms CPU at {cell.at_once}" for cell in cells]
    heads += [f"requests/s at {cell.at_once}" for cell in cells]
    lines = ["| client | " + " | ".join(heads) + " |", "|---" + "|--:" * len(heads) + "|"]
    for client in _shown(found):
        of = [found.get((client.name, cell)) for cell in cells]
        texts = [
            _text(row, [one.cost for one in row.found], cost, full) if row else "-" for row in of
        ]
        texts += [
            _text(row, [one.rate for one in row.found], rate, full) if row else "-" for row in of
        ]
        name = f"**{client.name}**" if client.name.startswith("outlast") else client.name
        lines.append(f"| {name} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _shown(found: dict[Key, Row]) -> list[Client]:
    names = {name for name, _ in found}
    return [client for client in CLIENTS if client.name in names]


def _text(row: Row, values: Sequence[float], form: Callable[[float], str], full: int) -> str:
    got = None if row.error else spread(values)
    if got is None:
        return "failed"
    few = f" ×{got.count}" if got.count < full else ""
    return got.write(form) + few


def _failures(findings: Findings) -> Iterator[str]:
    """What did not work, and why."""
    told = [(f"{row.client}: {row.cell.words}", row.error) for row in findings.rows if row.error]
    told += [(pairs.goal.title, pairs.error) for pairs in findings.goals if pairs.error]
    told += [(each.memory.words, each.error) for each in findings.weights if each.error]
    if told:
        yield "## What failed"
        yield "\n".join(f"- {what}: `{error}`" for what, error in told)


# -- the pictures ----------------------------------------------------------------------------


def pictures(findings: Findings) -> dict[str, str]:
    """File names and texts: cost and throughput for small bodies over plain HTTP/1.1."""
    chosen = [row for row in findings.rows if _drawn(row.cell) and not row.error and row.found]
    if not chosen:
        return {}
    under = f"HTTP/1.1, plain, small bodies; {findings.circumstances.machine}"
    costs = _panels(chosen, lambda row: [one.cost for one in row.found], cost)
    rates = _panels(chosen, lambda row: [one.rate for one in row.found], rate)
    return {
        "speed-cost.svg": draw("CPU for one request, in ms: less is better", under, costs),
        "speed-rate.svg": draw("Requests in a second on one core: more is better", under, rates),
    }


def _drawn(cell: Cell) -> bool:
    return cell.protocol == H1 and not cell.tls and cell.size == SMALL


def _panels(
    rows: Sequence[Row], values: Callable[[Row], list[float]], form: Callable[[float], str]
) -> list[Panel]:
    panels = []
    for cell in dict.fromkeys(row.cell for row in rows):
        bars = []
        for row in rows:
            got = spread(values(row)) if row.cell == cell else None
            if got is not None:
                bars.append((row.client, got.median, form(got.median)))
        way = f"{cell.at_once} {'thread' if cell.sync else 'task'}{'s' * (cell.at_once > 1)}"
        panels.append(Panel(f"{'sync' if cell.sync else 'async'}, {way}", bars))
    return panels
