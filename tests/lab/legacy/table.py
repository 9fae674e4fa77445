"""The figures of a whole run as the tables of docs/legacy.md (in short) and docs/legacy-figures.md.

OUTLAST_LEGACY_RECORD=FILE make legacy; python -m tests.lab.legacy.table FILE

Each row of the run adds a JSON line to FILE; this prints Markdown.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.lab.legacy.met import Met
from tests.lab.legacy.rows import ROWS, WAYS

__all__ = ["main", "record"]

_PLACE = "OUTLAST_LEGACY_RECORD"


def record(way: str, name: str, met: Met | str, workers: int) -> None:
    """Add what a row met to the file, if one is wanted; a text is why there is nothing."""
    place = os.environ.get(_PLACE)
    if place is None:
        return
    told: dict[str, Any] = {"way": way, "row": name}
    if isinstance(met, Met):
        told |= {
            "new": met.new,
            "workers": workers,
            "calls": len(met.after),
            "errors": len(met.errors),
            "hung": len(met.hung),
            "kept": len(met.kept),
            "p99": met.percentile(0.99),
            "slowest": met.percentile(1.0),
            "cut": max((call.end for call in met.cut), default=None),
            "cut_errors": sum(bool(call.error) for call in met.cut),
        }
    else:
        told["missing"] = met
    with Path(place).open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")


def main(path: str) -> None:
    """Print the tables. Of a row that was run more than once: its last run."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        rows[told["row"], told["way"]] = told
    _in_short(list(rows.values()))
    cells = {place: _cell(told) for place, told in rows.items()}
    for new, title in ((True, "A new connection for each call"), (False, "Pooled connections")):
        _say(
            f"### {title}", "", f"| program | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 1) + "|"
        )
        for row in ROWS:
            if row.new == new:
                found = [cells.get((row.name, way), "") for way in WAYS]
                _say(f"| {row.name.rpartition(', ')[0]} | {' | '.join(found)} |")
        _say("")


def _in_short(rows: list[dict[str, Any]]) -> None:
    _say(f"| | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 1) + "|")
    by_way = [[r for r in rows if r["way"] == way and "missing" not in r] for way in WAYS]
    for words, figure in (
        ("programs and modes", lambda met: str(len(met))),
        ("calls after the loss", lambda met: str(sum(r["calls"] for r in met))),
        ("errors, but for the calls that were cut", lambda met: str(sum(r["errors"] for r in met))),
        ("workers that hung", lambda met: str(sum(r["hung"] for r in met))),
        ("new connections, slowest", lambda met: _slowest(met, new=True)),
        ("pooled connections, slowest", lambda met: _slowest(met, new=False)),
        ("dead connections cut", _cut),
    ):
        _say(f"| {words} | {' | '.join(figure(met) if met else '' for met in by_way)} |")
    _say("")


def _slowest(met: list[dict[str, Any]], *, new: bool) -> str:
    return _time(max((r["slowest"] for r in met if r["new"] == new), default=0.0))


def _cut(met: list[dict[str, Any]]) -> str:
    cut = [r["cut"] for r in met if r["cut"] is not None]
    if not cut or met[0]["way"] == "bare":
        return "never"
    return f"{min(cut):.1f} to {max(cut):.1f} s after the loss"


def _cell(told: dict[str, Any]) -> str:
    if "missing" in told:
        return f"not run: {told['missing']}"
    if told["way"] == "bare":
        return _bare(told)
    parts = []
    if told["cut"] is not None:
        parts.append(f"cut at {told['cut']:.1f} s ({told['cut_errors']} errors), else")
    errors = f"**{told['errors']}**" if told["errors"] else "0"
    parts.append(f"{errors} / {told['calls']},")
    if told["hung"]:
        parts.append(f"**{told['hung']} hung**,")
    if told.get("kept"):
        parts.append(f"{told['kept']} in flight on its own keepalive,")
    if told["new"]:
        parts.append(f"p99 {_time(told['p99'])},")
    parts.append(f"slowest {_time(told['slowest'])}")
    return " ".join(parts)


def _bare(told: dict[str, Any]) -> str:
    parts = []
    if told["hung"]:
        parts.append(f"{told['hung']} of {told['workers']} workers hung")
    errors = told["errors"] + told["cut_errors"]
    if errors:
        parts.append(f"{errors} errors")
    slowest = max(told["slowest"], told["cut"] or 0.0)
    if not parts or slowest > 1.0:
        parts.append(f"slowest {_time(slowest)}")
    return ", ".join(parts)


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 1.0 else f"{seconds:.1f} s"


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
