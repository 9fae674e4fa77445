"""Speed, measured: writes a report with all figures, the machine and the command.

Run: python -m benchmarks.speed [--smoke | --again | --add] [--parts ...] [--clients ...]
  [--asked ...] [--cells ...] [--rounds N]

Parts: `numbers` (the ratios that the project has set itself bounds for), `memory` (of idle
connections), `tables` (every client in every cell). The report is `benchmarks-speed.md`, with its
pictures in the folder benchmarks beside it, in docs if nothing else is said. `--smoke` runs all of
it in brief, to see that it works, and writes into benchmarks/results. `--again` writes the report
of the last run anew; `--add` keeps what that has of the parts, and the cells, that are not measured
now. NIQUESTS_PYTHON names the Python of an environment in which niquests is installed; without it
niquests is left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Container, Sequence
from pathlib import Path

from benchmarks.machine import ROOT, commit, machine, version
from benchmarks.speed.certificates import certificates
from benchmarks.speed.crew import Crew
from benchmarks.speed.plan import (
    ASKED,
    CLIENTS,
    LARGE,
    SMALL,
    Cell,
    Client,
    goals,
    matrix,
    weighed,
)
from benchmarks.speed.report import Circumstances, Findings, page, pictures
from benchmarks.speed.rounds import Pace, Row, Say, fill, pursue, weigh
from benchmarks.speed.stored import dump, load

PARTS = ("numbers", "memory", "tables")
BESIDE = ("httpcore", "h11", "h2", "anyio", "urllib3")  # what clients stand on


def main(argv: Sequence[str]) -> int:
    """Run it."""
    options = _options(argv)
    results = ROOT / "benchmarks" / "results"
    file = results / ("speed-smoke.json" if options.smoke else "speed.json")
    if options.again:
        return _write(load(json.loads(file.read_text(encoding="utf-8"))), options.output)
    results.mkdir(exist_ok=True)

    def keep(findings: Findings) -> None:
        """After each part: an hour is long, and what is found should outlast a cut."""
        file.write_text(json.dumps(dump(findings)), encoding="utf-8")

    stored = options.add and load(json.loads(file.read_text(encoding="utf-8")))
    findings = _measure(options, argv, keep, stored or None)
    return _write(findings, options.output or (results if options.smoke else None))


def _measure(
    options: argparse.Namespace,
    argv: Sequence[str],
    keep: Callable[[Findings], None],
    before: Findings | None,
) -> Findings:
    alone = os.environ.get("NIQUESTS_PYTHON", "")
    if alone and not Path(alone).is_file():
        sys.exit(f"NIQUESTS_PYTHON={alone}: there is no such file; `make bench-speed` makes one")
    clients = [
        client
        for client in CLIENTS
        if (alone or not client.alone) and (not options.clients or client.name in options.clients)
    ]
    few = options.smoke
    pace = Pace(options.rounds or (1 if few else 7), 0.05 if few else 0.4, 0.05 if few else 1.0)
    cells = _cells(options.asked or ((1, 20) if few else ASKED), options.cells)
    say = _teller()
    with tempfile.TemporaryDirectory() as folder:
        certificate, authority = certificates(Path(folder))
        with Crew(certificate, authority, alone=alone, pin=not options.no_pin) as crew:
            now = _circumstances(clients, alone, crew.pinned, argv)
            found = Findings(now, [], [], [])
            if before is not None:
                asked = {(client.name, cell) for client in clients for cell in cells}
                found = _over(before, found, options.parts, asked)
            if "numbers" in options.parts:
                found.goals.extend(pursue(crew, goals(200 if few else 2000), pace, say))
                keep(found)
            if "memory" in options.parts:
                found.weights.extend(weigh(crew, weighed(100 if few else 500), pace, say))
                keep(found)
            if "tables" in options.parts:
                found.rows.extend(fill(crew, cells, clients, pace, say))
                found.rows.sort(key=_in_order)
                keep(found)
            return found


def _cells(asked: tuple[int, ...], words: Sequence[str]) -> list[Cell]:
    """The cells of the tables, or those that are called by all of `words`."""
    cells = [
        cell for cell in matrix(asked, (SMALL, LARGE)) if set(words) <= set(cell.words.split(", "))
    ]
    if not cells:
        sys.exit(f"--cells {shlex.join(words)}: no cell of the tables is all of that")
    return cells


def _in_order(row: Row) -> tuple[bool, str, bool, int, int]:
    """As the tables have their cells."""
    cell = row.cell
    return cell.sync, cell.protocol, cell.tls, cell.size, cell.at_once


def _over(
    before: Findings, now: Findings, parts: Sequence[str], asked: Container[tuple[str, Cell]]
) -> Findings:
    """What an earlier run has found of the parts, and the cells, that are not measured now."""
    told = "; the rest before that: " + before.circumstances.told
    return Findings(
        dataclasses.replace(now.circumstances, earlier=told),
        [] if "numbers" in parts else before.goals,
        [] if "memory" in parts else before.weights,
        [row for row in before.rows if not ("tables" in parts and (row.client, row.cell) in asked)],
    )


def _teller() -> Say:
    """Tells on standard error what is being measured."""
    began = time.monotonic()

    def say(what: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        print(f"{minutes:3}:{seconds:02} {what}", file=sys.stderr, flush=True)

    return say


def _circumstances(
    clients: Sequence[Client], alone: str, pinned: bool, argv: Sequence[str]
) -> Circumstances:
    versions = [f"outlast {version('outlast')} ({commit()})"]
    for client in clients:
        if client.package != "outlast":
            found = _version_in(alone, client.package) if client.alone else version(client.package)
            versions.append(f"{client.name} {found}")
    versions += [
        f"{name} {version(name)}" for name in BESIDE if name not in {c.name for c in clients}
    ]
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    given = shlex.join(argv)
    command = "make bench-speed" + (f" BENCH_ARGS={shlex.quote(given)}" if given else "")
    return Circumstances(date, machine(), ", ".join(versions), command, pinned)


def _version_in(python: str, package: str) -> str:
    """The version that is installed in another environment."""
    program = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "-"


def _write(findings: Findings, output: Path | None) -> int:
    folder = output or ROOT / "docs"
    drawn = pictures(findings)
    (folder / "benchmarks").mkdir(parents=True, exist_ok=True)
    for name, text in drawn.items():
        (folder / "benchmarks" / name).write_text(text, encoding="utf-8")
    written = folder / "benchmarks-speed.md"
    written.write_text(page(findings), encoding="utf-8")
    print(f"written: {written}")
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--smoke", action="store_true", help="one short round of everything")
    kind.add_argument("--again", action="store_true", help="only write the report anew")
    kind.add_argument("--add", action="store_true", help="keep the last run's other parts")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    names = [client.name for client in CLIENTS]
    parser.add_argument(
        "--clients", nargs="+", choices=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument("--asked", nargs="+", type=int, metavar="N", help="requests at once")
    parser.add_argument(
        "--cells", nargs="+", default=(), metavar="WORD", help="of the tables: sync TLS '1 MiB' ..."
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="of everything (default: 7)")
    parser.add_argument("--no-pin", action="store_true", help="leave all cores to all processes")
    parser.add_argument("--output", type=Path, help="the folder to write into")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
