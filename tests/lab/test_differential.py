"""The same scenarios on the kernel and on the simulation: the same errors at the same times.

All rows of a table are played at once, in sockets side by side. `OUTLAST_FULL=1` (make
differential) plays the long rows too, two and a half minutes.
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable

import pytest

from outlast.testing import KernelLab
from tests.docs.pages import page
from tests.lab import play_lab, play_sim
from tests.lab.rows import BRIEF, BRIEF_LIMIT, LONG, LONG_LIMIT, Heard, Row

FULL = bool(os.environ.get("OUTLAST_FULL"))
Results = tuple[dict[str, Heard], dict[str, Heard]]


def syn_linear() -> int:
    """This kernel's schedule of SYNs; kernels before 6.5 have the classic one only."""
    try:
        with open("/proc/sys/net/ipv4/tcp_syn_linear_timeouts", encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


@functools.cache
def results(long: bool) -> Results:
    """The kernel's and the simulation's, played once."""
    rows, limit = (LONG, LONG_LIMIT) if long else (BRIEF, BRIEF_LIMIT)
    return play_lab.play(rows, limit), play_sim.play(rows, limit, syn_linear())


def known(rows: tuple[Row, ...]) -> list[object]:
    """Rows with their names."""
    return [pytest.param(row, id=row.name) for row in rows]


def need_lab() -> None:
    reason = KernelLab.missing()
    if reason is not None:
        pytest.skip(f"kernel lab: {reason}")


def compare(row: Row, real: Heard, simulated: Heard, figures: Callable[[str], None]) -> None:
    """The simulation against the kernel, and both against what the row says."""
    pairs = [heard.first for heard in (real, simulated)]
    shown = [
        f"{f'{errno.errorcode.get(pair[1], 0)} at {pair[0]:.2f} s' if pair else 'nothing':>24}"
        for pair in pairs
    ]
    figures(f"{row.name:<40} kernel {shown[0]}   simulation {shown[1]}")
    for pair in pairs:
        assert (pair[1] if pair else None) == row.ends
    if pairs[0] is not None and pairs[1] is not None:
        assert pairs[1][0] == pytest.approx(pairs[0][0], abs=row.within)
    for (at, code), (there, other) in zip(real.errors, simulated.errors, strict=False):
        assert code == other
        assert there == pytest.approx(at, abs=row.within)
    assert abs(len(real.errors) - len(simulated.errors)) <= 1  # the last may be just late


@pytest.mark.parametrize("row", known(BRIEF))
def test_brief_rows(row: Row, figures: Callable[[str], None]) -> None:
    need_lab()
    real, simulated = results(False)
    compare(row, real[row.name], simulated[row.name], figures)


# {idle, data in flight, zero window} x {keepalive, user timeout, both}: seconds; None: never.
DEATHS: dict[str, float | None] = {
    "idle, keepalive 1/1/3": 4.0,
    "idle, UT 2500": None,
    "idle, keepalive 1/1/9, UT 2500": 3.0,
    "in flight, keepalive 1/1/3": None,
    "in flight, UT 2500": 2.9,
    "in flight, keepalive 1/1/3, UT 2500": 2.9,
    "zero window, keepalive 1/1/3": None,
    "zero window, UT 2500": 2.6,
    "zero window, keepalive 1/1/3, UT 2500": 2.6,
}


@pytest.mark.parametrize("name", DEATHS)
def test_fr27_a_connection_dies_when_it_is_known_to(name: str) -> None:
    """The clock of an idle one began when it was last heard, up to 0.3 s before the cut."""
    need_lab()
    first, wanted = results(False)[0][name].first, DEATHS[name]
    assert (first is None) is (wanted is None)
    if first is not None and wanted is not None:
        assert first[0] == pytest.approx(wanted, abs=0.4)


@pytest.mark.skipif(not FULL, reason="two and a half minutes: make differential")
@pytest.mark.parametrize("row", known(LONG))
def test_long_rows(row: Row, figures: Callable[[str], None]) -> None:
    need_lab()
    real, simulated = results(True)
    compare(row, real[row.name], simulated[row.name], figures)


def test_the_page_has_every_row() -> None:
    names = [row.name for row in BRIEF + LONG]
    rows = page("docs/simnet-and-kernel.md").rows()
    assert [row[0] for row in rows if row[0] in names] == names


@pytest.mark.parametrize("name", ["in flight", "gone, in flight", "in flight, keepalive 1/1/3"])
def test_what_tcp_info_shows_meanwhile(name: str) -> None:
    """unacked, backoff, retransmits and total_retrans at 0.05, 0.25, 0.5, 1, 2 and 4 s."""
    need_lab()
    real, simulated = results(False)
    assert simulated[name].samples[:6] == real[name].samples[:6]
