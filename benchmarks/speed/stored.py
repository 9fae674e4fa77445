"""What a run has found, kept in a file, so that its report can be written anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from benchmarks.speed.crew import Found
from benchmarks.speed.plan import Cell, Goal, Memory
from benchmarks.speed.report import Circumstances, Findings
from benchmarks.speed.rounds import Pairs, Row, Weights

__all__ = ["dump", "load"]


def dump(findings: Findings) -> dict[str, Any]:
    """Plain values, for JSON."""
    return dataclasses.asdict(findings)


def load(told: Mapping[str, Any]) -> Findings:
    """The other way round. Raises KeyError or TypeError for what `dump` has not made."""
    return Findings(
        Circumstances(**told["circumstances"]),
        [_pairs(one) for one in told["goals"]],
        [
            Weights(Memory(**one["memory"]), [(a, b) for a, b in one["pairs"]], one["error"])
            for one in told["weights"]
        ],
        [
            Row(
                one["client"], Cell(**one["cell"]), [Found(**f) for f in one["found"]], one["error"]
            )
            for one in told["rows"]
        ],
    )


def _pairs(one: Mapping[str, Any]) -> Pairs:
    goal = one["goal"]
    sides = {side: (goal[side][0], Cell(**goal[side][1])) for side in ("mine", "theirs")}
    return Pairs(Goal(**{**goal, **sides}), [(a, b) for a, b in one["pairs"]], one["error"])
