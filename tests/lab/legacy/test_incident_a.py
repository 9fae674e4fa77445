"""Incident A for programs that cannot be changed: real ones, real servers, every shim.

`make test` meets a handful of rows in one outage of six seconds. OUTLAST_FULL=1 (make legacy) has
every row, an outage of 40 s for each way. A row whose program or server is not installed is skipped
by name. The bounds are in `met`; without a shim the fault shows, which is asserted as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pytest

from outlast.testing import KernelLab
from tests.lab.legacy import ways
from tests.lab.legacy.incident import Outage, outlive
from tests.lab.legacy.met import CUT, SLOWEST, Met, broken
from tests.lab.legacy.rows import BRIEF, ROWS, WAYS, Row, rows_of
from tests.lab.legacy.table import record

pytestmark = pytest.mark.incident("A")

LONG = bool(os.environ.get("OUTLAST_FULL"))
SHORT_OUTAGE = Outage(workers=4, pause=0.2, lasts=6.0, watched=CUT + 2.0)
REAL_OUTAGE = Outage(workers=6, pause=0.4, lasts=40.0, watched=44.0)

Chosen = Sequence[tuple[str, Row]]


def held(
    lab: KernelLab,
    chosen: Chosen,
    outage: Outage,
    figures: Callable[[str], None],
    subtests: pytest.Subtests,
) -> None:
    """Run the rows that can be run here; each is a test of its own."""
    lacking = {f"{way}: {row.name}": ways.lacking(way) or row.lacking() for way, row in chosen}
    possible = [(way, row) for way, row in chosen if lacking[f"{way}: {row.name}"] is None]
    found = outlive(lab, possible, outage) if possible else {}
    for way, row in chosen:
        name = f"{way}: {row.name}"
        with subtests.test(name):
            if (reason := lacking[name]) is not None:
                record(way, row.name, reason, outage.workers)
                pytest.skip(f"{name}: {reason}")
            met = found[name]
            assert isinstance(met, Met), met
            figures(met.figures())
            record(way, row.name, met, outage.workers)
            if way != "bare":
                assert not broken(met, outage.workers), met.explain()
    bare = [met for met in found.values() if isinstance(met, Met) and met.name.startswith("bare:")]
    if bare:
        assert any(suffered(met) for met in bare), "the fault did not show without a shim"


def suffered(met: Met) -> bool:
    """Whether somebody without a shim would have noticed."""
    return bool(met.hung or met.errors or met.percentile(1.0) > SLOWEST)


@pytest.mark.skipif(LONG, reason="OUTLAST_FULL has every row")
def test_a_handful_outlives_the_node(
    lab: KernelLab, figures: Callable[[str], None], subtests: pytest.Subtests
) -> None:
    rows = {row.name: row for row in ROWS}
    chosen = [(way, rows[name]) for way, name in BRIEF]
    held(lab, chosen, SHORT_OUTAGE, figures, subtests)


@pytest.mark.skipif(not LONG, reason="takes minutes: OUTLAST_FULL=1, or make legacy")
@pytest.mark.parametrize("way", WAYS)
def test_every_program_outlives_the_node(
    lab: KernelLab, figures: Callable[[str], None], subtests: pytest.Subtests, way: str
) -> None:
    chosen = [(way, row) for row in rows_of(way)]
    held(lab, chosen, REAL_OUTAGE, figures, subtests)
