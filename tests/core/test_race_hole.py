"""An address that has left two dials unanswered is a hole: further dials follow faster."""

from __future__ import annotations

import pytest

from outlast.core.classify import ConnectFault
from outlast.core.latency import later_delay
from outlast.core.race import Pause, Race, Start
from tests.core.world import ANSWERS, REFUSED, SILENT, Bottomless, Path, Scenario, plan

RESET = Path(0.005, handshake=0.01, broken=ConnectFault.REFUSED)  # in its handshake


def starts(scenario: Scenario) -> list[float]:
    """When dials began."""
    return [moment for moment, what in scenario.trail if what.startswith("dial")]


def test_after_two_unanswered_dials_the_gap_is_the_later_one() -> None:
    race = Scenario({"v": SILENT}, plan(delay=0.02, later_delay=0.01, deadline=0.075)).run()
    assert starts(race) == [0.0, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07]


def test_each_address_has_two_dials_first() -> None:
    table = {"a": SILENT, "b": SILENT}
    race = Scenario(table, plan(delay=0.02, later_delay=0.01, deadline=0.105)).run()
    assert starts(race) == [0.0, 0.02, 0.04, 0.06, 0.07, 0.08, 0.09, 0.1]


@pytest.mark.parametrize(
    ("paths", "dialled"),
    [
        ([REFUSED, SILENT], [0.0, 0.0, 0.02, 0.03, 0.04]),
        ([Path(0.0, ConnectFault.UNREACHABLE), SILENT], [0.0, 0.0, 0.02, 0.03, 0.04]),
        ([Path(0.0, ConnectFault.SILENT), SILENT], [0.0, 0.0, 0.01, 0.02, 0.03, 0.04]),
        ([Path(0.005, handshake=9.0), SILENT], [0.0, 0.025, 0.045]),
        (
            [Path(0.005, handshake=0.01, broken=ConnectFault.REFUSED), SILENT],
            [0.0, 0.015, 0.035, 0.045],
        ),
    ],
)
def test_a_dial_that_was_answered_is_not_counted(paths: list[Path], dialled: list[float]) -> None:
    figures = plan(delay=0.02, later_delay=0.01, patience=0.02, deadline=0.045001)
    assert starts(Scenario({"v": paths}, figures).run()) == dialled


def test_a_connected_dial_is_told_once_or_twice() -> None:
    """A driver may repeat itself: one answer stays one answer."""
    machine = Race(plan(delay=0.02, later_delay=0.01, patience=0.0), Bottomless(), ["v"])
    assert isinstance(machine.step(0.0), Start)
    machine.connected(0, 0.001)
    machine.connected(0, 0.002)
    assert [isinstance(machine.step(now), Start) for now in (0.02, 0.04)] == [True] * 2
    assert machine.step(0.04) == Pause(0.04 + 0.01)


def test_the_sixth_draw_answers_sooner() -> None:
    paths = [SILENT] * 5 + [ANSWERS]
    constant = Scenario({"v": paths}, plan(delay=0.02)).run()
    faster = Scenario({"v": paths}, plan(delay=0.02, later_delay=0.01)).run()
    assert constant.trail[-1][0] - faster.trail[-1][0] == pytest.approx(0.04)


def test_a_slow_path_keeps_its_first_dial() -> None:
    slow = Scenario({"v": Path(3.0)}, plan(delay=0.02, later_delay=0.01, deadline=5.0)).run()
    assert (3.0, "won v#0") in slow.trail


@pytest.mark.parametrize(("delay", "later"), [(0.02, 0.01), (0.25, 0.125), (0.015, 0.01)])
def test_half_the_delay_but_not_below_the_minimum_of_the_rfc(delay: float, later: float) -> None:
    assert later_delay(delay) == pytest.approx(later)
