"""What late ACKs and losses teach, in figures."""

from __future__ import annotations

import pytest

from outlast.core.tolerance import Tolerance


@pytest.mark.parametrize(
    ("late", "rtt", "patience"),
    [
        (0, 0.0, 0.1),
        (0, 0.02, 0.1),
        (0, 0.05, 0.2),
        (1, 0.0, 0.1),
        (2, 0.0, 0.25),
        (7, 0.02, 0.25),
        (2, 0.1, 0.4),
        (0, 1.0, 4.0),
    ],
)
def test_an_ack_may_take_four_round_trips_and_longer_where_late_ones_were_harmless(
    late: int, rtt: float, patience: float
) -> None:
    tolerance = Tolerance()
    for _ in range(late):
        tolerance.late()
    assert tolerance.patience(rtt) == pytest.approx(patience)


@pytest.mark.parametrize(
    ("segments", "lost", "loss", "probes"),
    [
        (0, 0, 0.0, 3),
        (1, 0, 0.0, 3),
        (1, 1, 0.05, 5),  # one of a few is not yet a tenth
        (2, 2, 0.1, 5),
        (3, 3, 0.15, 6),
        (1, 5, 0.05, 5),  # no more is lost than was sent
        (150, 1, 1 / 150, 4),
        (100, 1, 0.01, 4),
        (100, 2, 0.02, 5),
        (100, 10, 0.1, 5),
        (100, 11, 0.11, 6),
        (100, 100, 1.0, 6),
        (2000, 2, 0.001, 3),
        (2000, 3, 0.0015, 4),
    ],
)
def test_one_more_probe_for_each_tenfold_of_loss(
    segments: int, lost: int, loss: float, probes: int
) -> None:
    tolerance = Tolerance()
    tolerance.count(segments, lost)
    assert tolerance.loss == pytest.approx(loss)
    assert tolerance.probes == probes


def test_loss_that_has_ended_is_forgotten() -> None:
    tolerance = Tolerance()
    for _ in range(100):
        tolerance.count(10, 3)
    assert tolerance.loss == pytest.approx(0.3)
    seen = []
    for _ in range(100):
        tolerance.count(20, 0)
        seen.append(tolerance.probes)
    assert seen == sorted(seen, reverse=True)
    assert (seen[0], seen[-1]) == (6, 3)


def test_only_some_may_be_suspect_in_haste() -> None:
    tolerance = Tolerance()
    assert [tolerance.hasty(100.0) for _ in range(12)] == [True] * 10 + [False] * 2
    assert not tolerance.hasty(100.9)
    assert [tolerance.hasty(101.1) for _ in range(2)] == [True, False]
    assert [tolerance.hasty(500.0) for _ in range(12)] == [True] * 10 + [False] * 2
    for now in (499.9, 500.5):  # the clock of another thread may be a little behind
        assert not tolerance.hasty(now)


def test_of_a_thousand_waits_four_in_a_hundred_may() -> None:
    tolerance = Tolerance()
    for _ in range(1000):
        tolerance.looked()
    assert sum(tolerance.hasty(7.0) for _ in range(1000)) == 40
