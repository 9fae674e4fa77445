"""One pod of four answers 503 for ten seconds, another is 20 times as slow: who hides it best.

Run: python -m benchmarks.routing [--smoke] [--output FOLDER]

Writes `benchmarks-routing.md` into the folder (default: docs). All rows take three and a half
minutes. `--smoke` plays each for seconds, to see that all of it works, and writes into
benchmarks/results.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.incident import programs
from benchmarks.machine import ROOT, commit, machine, version
from benchmarks.routing.one_run import ILL, SLOW_POD, Found, Times
from benchmarks.routing.rows import ROWS
from outlast.cli.figures import duration
from outlast.cli.stage import enter_namespace
from outlast.testing import KernelLab

FULL, SMOKE = Times(3.0, 13.0, 33.0), Times(1.0, 5.0, 11.0)
PATIENCE = 120.0  # seconds for one row

HEAD = """# The router's job, side by side

Four pods, and 8 workers with 50 ms between two calls. At {begin:g} s one pod begins to answer 503
to everything, health checks too, and another takes 0.2 s for an answer instead of 0.01 s; at
{healed:g} s both are well again; the end is at {until:g} s. `{command}` measures it again and
writes this page. The proxies and their settings are those of
[the incident table](benchmarks-incident.md), which aims at nodes that die, not at pods that err.

| client | calls | errors | p50 | p99 | slowest | to the 503 pod | to the slow pod | in the end |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
"""
TAIL = """
*Errors*: calls that ended with 503 or an exception. *To ... pod*: its part of all requests, repeats
included and health checks not, from three seconds of the fault on; *in the end*: the 503 pod's in
the last five seconds, where a quarter is its full share. A proxy is a hop more for each call, and a
thing to run.

Measured on {date}: {machine}; {versions}.
"""


def main(argv: Sequence[str]) -> int:
    """Run it; 1 where a row has failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.routing", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--smoke", action="store_true", help="every row for seconds only")
    parser.add_argument("--output", type=Path, help="the folder to write into")
    options = parser.parse_args(argv)
    skipped = {row.key: why for row in ROWS if row.proxy and (why := programs.lacking(row.proxy))}
    enter_namespace()
    if (reason := KernelLab.missing()) is not None:
        sys.exit(f"no kernel lab is possible here: {reason}")
    before, times = machine(), SMOKE if options.smoke else FULL
    found: dict[str, Found] = {}
    for row in ROWS:
        if row.key not in skipped and (figures := _run(row.key, times)) is not None:
            found[row.key] = figures
            print(_line(row.name, figures), flush=True)
    folder = options.output or (ROOT / "benchmarks" / "results" if options.smoke else ROOT / "docs")
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "benchmarks-routing.md"
    written.write_text(page(found, skipped, times, before, smoke=options.smoke), encoding="utf-8")
    print(f"written: {written}")
    return 0 if len(found) + len(skipped) == len(ROWS) else 1


def _run(key: str, times: Times) -> Found | None:
    """One row's figures; None, and its last words printed, where it has failed."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    order = json.dumps({"row": key, "times": asdict(times)})
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.routing.one_run", order],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            timeout=PATIENCE,
            check=True,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{key}: {error}\n{(error.stderr or b'')[-2000:]!r}", flush=True)
        return None
    return Found(**json.loads(done.stdout.splitlines()[-1]))


def page(
    found: Mapping[str, Found],
    skipped: Mapping[str, str],
    times: Times,
    where: str,
    *,
    smoke: bool,
) -> str:
    """The page. A row without figures says why it has none."""
    text = HEAD.format(
        **asdict(times), command=f"make bench-routing{' BENCH_ARGS=--smoke' if smoke else ''}"
    )
    for row in ROWS:
        if row.key in found:
            text += _line(row.name, found[row.key]) + "\n"
        else:
            why = skipped.get(row.key, "the run failed")
            text += f"| {row.name} | {why} |" + " |" * 7 + "\n"
    packages = ", ".join(f"{name} {version(name)}" for name in ("outlast", "httpx"))
    proxies = ", ".join(
        f"{program} {programs.version(program)}"
        for program in ("haproxy", "envoy")
        if programs.find(program)
    )
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    versions = f"{packages} ({commit()}), {proxies}"
    return text + TAIL.format(date=date, machine=where, versions=versions)


def _line(name: str, found: Found) -> str:
    times = " | ".join(duration(each) for each in (found.p50, found.p99, found.slowest))
    parts = (found.learnt[ILL], found.learnt[SLOW_POD], found.last[ILL])
    shares = " | ".join(f"{part:.1%}" for part in parts)
    return f"| {name} | {found.calls:,} | {found.errors:,} | {times} | {shares} |"


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
