"""The page of the incident table: Markdown, and a picture of every call of each client.

Pure but for the files it writes. A row that was not run says why; a run that failed says so; no
figure is carried over from an earlier page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill

from benchmarks.incident.rows import WAYS, Row
from benchmarks.incident.runs import Record
from outlast.cli import picture
from outlast.cli.figures import Figures, duration, figures, kinds, quantile
from outlast.cli.record import Run, Series
from tests.lab.load import PAUSE, WORKERS

__all__ = ["Circumstances", "behind", "page", "pictures"]

Runs = Mapping[tuple[str, str], Record]

HEAD = """\
| client | calls | errors | hung | p99 | slowest | over 100 ms | machine's stall |
|---|--:|--:|--:|--:|--:|--:|--:|"""
TITLES = {"pooled": "Pooled connections", "new": "A new connection for each call"}
UNSET = "outlast-vip"  # the row that has no setting at all

LOAD = f"{WORKERS} workers, each with one GET at a time and {PAUSE * 1e3:.0f} ms pause"


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Where, when and with what it was measured."""

    date: str
    machine: str
    versions: str
    command: str
    jobs: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One cell row: its figures, with hung calls as slow as they had waited."""

    row: Row
    figures: Figures
    worst: float
    p99: float

    def marks(self) -> dict[str, float]:
        """What rows are compared by; less is better."""
        f = self.figures
        return {
            "errors": f.errors,
            "hung": f.hung,
            "slowest": self.worst,
            "p99": self.p99,
            "over 100 ms": f.slow / f.requests,  # some clients call less often
        }


def page(
    rows: Sequence[Row], runs: Runs, skipped: Mapping[str, str], circumstances: Circumstances
) -> str:
    """The whole page."""
    if not runs:
        return "# The incident table\n\nNothing was run.\n"
    order = next(iter(runs.values())).order
    head = HEADING.format(load=LOAD, command=circumstances.command, **asdict(order))
    parts = ["# The incident table", ""]
    for paragraph in head.split("\n\n"):
        parts += [fill(paragraph, 100, break_on_hyphens=False, break_long_words=False), ""]
    for way in WAYS:
        parts += _table(way, rows, runs)
    parts += _verdict(rows, runs)
    parts += _skipped(rows, skipped)
    parts += _settings(rows, runs)
    parts += ["## How it is measured", "", MEASURED, "", *_told(circumstances), ""]
    parts += _stories(rows, runs)
    parts += _shown(rows, runs)
    return "\n".join(parts).rstrip() + "\n"


HEADING = """\
A node dies behind a Service, and what a dozen kinds of client make of it. `{command}` measures it
again and writes this page.

A Service has two pods on two nodes. {load}. At {power_off:g} s one node loses power, and nobody is
told; at {leaves:g} s the control plane takes its endpoint out; the load ends at {until:g} s. Each
run has a cluster and a process of its own; the cluster is made of network namespaces on this
machine's kernel ([the kernel lab](kernel-lab.md))."""
DRAWS = """\
Behind a VIP every new connection draws a pod blindly. Half of the draws of this incident fall on
the dead one, and each of those costs 10 to 20 ms: one connection in 100 needs seven draws, whatever
is known of the past. A proxy is told of the pods and leaves the dead one out once it has met it; so
does outlast with `static://`, which is what the proxies' p99 is to be compared with."""
MEASURED = """\
- *calls*: all that were begun. A client that waits calls less often.
- *errors*: exceptions, and answers other than 2xx.
- *hung*: calls without answer or error 5 s after the end of the load. They have no latency, so that
  they are in no quantile, and count as slow when they had waited for more than 100 ms.
- *p99*, *slowest*: over all calls that ended, errors with the time they took.
- *machine's stall*: the most by which a thread in another process, which asks to be woken every
  5 ms, was woken late during the run. Calls are late by as much, whatever their client.
- *pooled*: one client with its pool as the library sets it. *New*: the same client, told to keep
  no idle connection; `requests` by `requests.get`.
- Async clients run their 8 workers in one asyncio loop; `requests` and outlast's sync transport
  in 8 threads.
- The proxies run on the client's own node, know the pods by their addresses and check their health,
  as a router does. A Service's VIP hides from outlast what they are told. Their client is httpx
  with `timeout=60`, so that it is the proxy that decides."""


def _table(way: str, rows: Sequence[Row], runs: Runs) -> Iterator[str]:
    yield f"## {TITLES[way]}"
    yield ""
    yield HEAD
    for row in rows:
        record = runs.get((row.key, way))
        if record is None:
            continue
        name = f"**{row.name}**" if row.ours else row.name
        if record.failure:
            yield f"| {name} | the run failed | | | | | | |"
            continue
        f = figures(record.samples)
        times = f"{duration(f.p99)} | {duration(f.slowest)} | {f.slow} | {duration(record.stall)}"
        yield f"| {name} | {f.requests:,} | {f.errors} | {f.hung} | {times} |"
    yield ""


def _measured(way: str, rows: Sequence[Row], runs: Runs) -> list[Measured]:
    found = []
    for row in rows:
        record = runs.get((row.key, way))
        if record is not None and record.samples:
            took = sorted(sample.took for sample in record.samples)
            p99 = quantile(took, 0.99) or 0.0
            found.append(Measured(row, figures(record.samples), took[-1], p99))
    return found


def behind(way: str, rows: Sequence[Row], runs: Runs) -> dict[str, list[str]]:
    """By mark: the rows that are not outlast's and do better than outlast without settings."""
    ours = _ours(way, rows, runs)
    if ours is None:
        return {}
    mine = ours.marks()
    found: dict[str, list[str]] = {}
    for other in _measured(way, rows, runs):
        better = {mark: value for mark, value in other.marks().items() if value < mine[mark]}
        for mark, value in () if other.row.ours else better.items():
            found.setdefault(mark, []).append(f"{other.row.name} ({_shown_as(mark, value)})")
    return found


def _shown_as(mark: str, value: float) -> str:
    if mark == "over 100 ms":
        return f"{value:.2%}"
    return duration(value) if mark in ("p99", "slowest") else f"{value:.0f}"


def _ours(way: str, rows: Sequence[Row], runs: Runs) -> Measured | None:
    return next((one for one in _measured(way, rows, runs) if one.row.key == UNSET), None)


def _verdict(rows: Sequence[Row], runs: Runs) -> Iterator[str]:
    measured = [way for way in WAYS if _ours(way, rows, runs)]
    if not measured:
        return
    yield "## outlast without settings beside the others"
    yield ""
    for way in measured:
        found = behind(way, rows, runs)
        bar = {mark: who for mark, who in found.items() if mark in ("errors", "hung", "slowest")}
        if bar:
            worse = "; ".join(f"{mark}: {', '.join(who)}" for mark, who in bar.items())
            yield f"- {TITLES[way]}: **behind** in {worse}."
        else:
            yield f"- {TITLES[way]}: nobody has fewer errors, fewer hung or a quicker slowest call."
        for mark in ("p99", "over 100 ms"):
            if mark in found:
                yield f"  Better in {mark}: {', '.join(found[mark])}."
    yield ""
    yield DRAWS
    yield ""


def _skipped(rows: Sequence[Row], skipped: Mapping[str, str]) -> Iterator[str]:
    if skipped:
        yield "Not run:"
        yield ""
        yield from (f"- {row.name}: {skipped[row.key]}." for row in rows if row.key in skipped)
        yield ""


def _settings(rows: Sequence[Row], runs: Runs) -> Iterator[str]:
    yield "## What was set, and what the errors were"
    yield ""
    yield "| client | settings | errors, pooled | errors, new |"
    yield "|---|---|---|---|"
    for row in rows:
        found = [runs.get((row.key, way)) for way in WAYS]
        if any(found):
            told = [kinds(record.samples) if record else "" for record in found]
            yield f"| {row.name} | {row.settings} | {told[0]} | {told[1]} |"
    yield ""


def _told(circumstances: Circumstances) -> Iterator[str]:
    beside = "" if circumstances.jobs == 1 else f" ({circumstances.jobs} runs at a time)"
    yield f"Measured on {circumstances.date}{beside}: {circumstances.machine}."
    yield fill(f"{circumstances.versions}.", 100, break_on_hyphens=False)


def _stories(rows: Sequence[Row], runs: Runs) -> Iterator[str]:
    yield "## The slowest calls of outlast"
    yield ""
    for row in rows:
        for way in WAYS if row.ours else ():
            record = runs.get((row.key, way))
            if record is not None and record.stories:
                yield f"{row.name}, {way}:"
                yield ""
                yield f"```text\n{record.stories[0]}\n```"
                yield ""


def _shown(rows: Sequence[Row], runs: Runs) -> Iterator[str]:
    yield "## Every call"
    yield ""
    for row in rows:
        if any((row.key, way) in runs for way in WAYS):
            yield f"![Every call of {row.name}: its latency over time](benchmarks/{_file(row)})"
            yield ""


def _file(row: Row) -> str:
    return f"incident-{row.key}.svg"


def pictures(rows: Sequence[Row], runs: Runs, folder: Path) -> None:
    """Write a picture for each client."""
    folder.mkdir(parents=True, exist_ok=True)
    for row in rows:
        found = [runs[row.key, way] for way in WAYS if (row.key, way) in runs]
        if found and all(record.samples for record in found):
            text = picture.draw_ways(_together(row, found))
            (folder / _file(row)).write_text(text, encoding="utf-8")


def _together(row: Row, found: Sequence[Record]) -> Run:
    """The runs of one client as one, for its picture."""
    made = []
    for record in found:
        series = Series(row.name, record.order.way)
        series.samples += record.samples
        made.append(series)
    first = found[0]
    return Run(first.order.until, tuple(made), tuple(first.happenings), first.where, LOAD)
