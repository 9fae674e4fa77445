"""Shares of priority levels, and who panics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.priority import Count, spread


def of_hundred(*fit: int) -> list[Count]:
    """Levels of a hundred endpoints each; whoever is out is out on answers."""
    return [Count(100, each, 100 - each) for each in fit]


# Envoy's documentation: priority levels, and panic threshold. Percents, rounded as there.
@pytest.mark.parametrize(
    ("fit", "loads", "panics"),
    [
        ((100, 100), (100, 0), (False, False)),
        ((72, 100), (100, 0), (False, False)),
        ((71, 100), (99, 1), (False, False)),
        ((50, 100), (70, 30), (False, False)),
        ((25, 100), (35, 65), (False, False)),
        ((0, 100), (0, 100), (False, False)),
        ((72, 72), (100, 0), (False, False)),
        ((71, 71), (99, 1), (False, False)),
        ((50, 60), (70, 30), (False, False)),
        ((25, 25), (50, 50), (True, True)),
        ((5, 65), (7, 93), (True, False)),
        ((20, 30), (50, 50), (True, True)),  # all in panic: as many endpoints, as much load
        ((60, 5), (92, 8), (False, True)),
    ],
)
def test_the_table(fit: tuple[int, int], loads: tuple[int, int], panics: tuple[bool, bool]) -> None:
    shares = spread(of_hundred(*fit), 0.5)
    assert [round(share.load * 100) for share in shares] == list(loads)
    assert [share.panic for share in shares] == list(panics)


def test_three_levels_are_filled_in_order() -> None:
    loads = [share.load for share in spread(of_hundred(25, 25, 100), 0.5)]
    assert loads == pytest.approx([0.35, 0.35, 0.30])


# A level by itself: out / known -> panic. More than half must be out.
@pytest.mark.parametrize(
    ("total", "fit", "panic"),
    [
        *((1, 1, False), (1, 0, True)),
        *((2, 2, False), (2, 1, False), (2, 0, True)),
        *((3, 2, False), (3, 1, True), (3, 0, True)),
        *((5, 3, False), (5, 2, True), (5, 0, True)),
        *((500, 250, False), (500, 249, True), (500, 1, True), (500, 0, True)),
    ],
)
def test_a_level_panics_when_more_than_half_are_out(total: int, fit: int, panic: bool) -> None:
    (share,) = spread([Count(total, fit, total - fit)], 0.5)
    assert share.panic is panic
    assert share.load == 1.0


def test_the_dead_draw_no_load() -> None:
    shares = spread([Count(4, 0, 0), Count(4, 0, 1)], 0.5)
    assert [share.load for share in shares] == [0.0, 1.0]


def test_where_all_are_dead_nobody_gets_anything() -> None:
    assert [share.load for share in spread([Count(4, 0, 0), Count(1, 0, 0)], 0.5)] == [0.0, 0.0]


def test_without_a_threshold_nobody_panics() -> None:
    shares = spread(of_hundred(10, 20), 0.0)
    assert [share.panic for share in shares] == [False, False]
    assert [share.load for share in shares] == pytest.approx([1 / 3, 2 / 3])
    assert [share.load for share in spread(of_hundred(0, 0), 0.0)] == [0.0, 0.0]


def test_no_levels_no_shares() -> None:
    assert spread([], 0.5) == []


COUNTS = st.integers(1, 500).flatmap(
    lambda total: st.integers(0, total).flatmap(
        lambda fit: st.builds(
            Count, st.just(total), st.just(fit), answering=st.integers(0, total - fit)
        )
    )
)


@given(st.lists(COUNTS, min_size=1, max_size=5), st.floats(0.0, 1.0))
def test_the_shares_are_a_whole(levels: list[Count], threshold: float) -> None:
    shares = spread(levels, threshold)
    whole = sum(share.load for share in shares)
    assert whole == pytest.approx(1.0) or whole == 0.0
    assert all(0.0 <= share.load <= 1.0 for share in shares)
    for level, share in zip(levels, shares, strict=True):
        assert not share.load or level.fit or level.answering
        assert not share.panic or level.fit < threshold * level.total
