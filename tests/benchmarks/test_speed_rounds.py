"""Rounds of the speed report: two clients take turns, and a small round is turns within turns."""

from __future__ import annotations

from typing import Any, cast

import pytest

from benchmarks.speed.__main__ import _cells
from benchmarks.speed.crew import Found, JobFailed
from benchmarks.speed.plan import CPU, OUTLAST, PLAIN, RATE, Cell, Client, Goal
from benchmarks.speed.rounds import TURNS, Pace, pursue

PACE = Pace(2, 0.4, 1.0)


class Crew:
    """Measures nothing: outlast's windows cost 1 s, 2 s, ... a hundred answers; httpx's 4 s."""

    def __init__(self, patience: int = 1000) -> None:
        self.asked: list[tuple[str, float]] = []
        self._patience = patience

    def measure(self, client: Client, _: Cell, seconds: float, least: int) -> Found:
        assert least >= 20
        if len(self.asked) == self._patience:
            raise JobFailed("gone")
        self.asked.append((client.name, seconds))
        mine = [name for name, _ in self.asked].count(OUTLAST)
        return Found(100, 2.0, float(mine) if client.name == OUTLAST else 4.0)


def pursued(crew: Crew, goal: Goal) -> Any:
    (pairs,) = pursue(cast(Any, crew), [goal], PACE, lambda _: None)
    return pairs


def goal(what: str, cell: Cell) -> Goal:
    return Goal("", what, None, (OUTLAST, cell), (PLAIN, cell))


def test_a_round_at_one_at_once_is_short_windows_in_turn_added_up() -> None:
    crew = Crew()
    found = pursued(crew, goal(CPU, Cell(True)))
    names = [name for name, _ in crew.asked]
    assert len(names) == 2 * 2 * TURNS
    assert names[:4] == [OUTLAST, PLAIN, PLAIN, OUTLAST]
    second = names[2 * TURNS :]
    assert second[:4] == [PLAIN, OUTLAST, OUTLAST, PLAIN]  # the other begins
    assert {seconds for _, seconds in crew.asked} == {0.25}
    first = sum(range(1, TURNS + 1)) / (100 * TURNS)
    assert found.pairs[0] == pytest.approx((first, 0.04))
    assert found.pairs[1][0] == pytest.approx(first + TURNS / 100)


@pytest.mark.parametrize("cell", [Cell(False, at_once=100), Cell(False, idle=10)])
def test_a_round_that_opens_many_connections_is_one_window_of_each(cell: Cell) -> None:
    crew = Crew()
    found = pursued(crew, goal(RATE, cell))
    assert crew.asked == [(OUTLAST, 1.0), (PLAIN, 1.0), (PLAIN, 1.0), (OUTLAST, 1.0)]
    assert found.pairs == [(50.0, 50.0)] * 2


def test_what_fails_keeps_the_rounds_before() -> None:
    found = pursued(Crew(patience=2 * TURNS + 3), goal(CPU, Cell(True)))
    assert len(found.pairs) == 1
    assert found.error == "gone"


@pytest.mark.parametrize(
    ("words", "count"), [((), 16), (("sync",), 8), (("sync", "HTTP/1.1", "1 MiB"), 2)]
)
def test_cells_are_chosen_by_what_they_are_called(words: tuple[str, ...], count: int) -> None:
    found = _cells((500,), words)
    assert len(found) == count
    assert all(cell.sync for cell in found if words)


def test_words_that_no_cell_has_are_refused() -> None:
    with pytest.raises(SystemExit, match="--cells sync HTTP/3: no cell"):
        _cells((500,), ("sync", "HTTP/3"))
