"""The figures of a client, and how they are written."""

from __future__ import annotations

import pytest

from outlast.cli.figures import Figures, duration, figures, kinds, quantile
from outlast.cli.record import Outcome, Sample

TIMEOUT = Sample(3.0, 5.0, Outcome.ERROR, "ConnectTimeout")
NO_ROUTE = Sample(3.0, 3.0, Outcome.ERROR, "ConnectError")
HUNG = Sample(8.0, 2.5, Outcome.HUNG)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([], Figures(0, 0, 0, 0, None, None, None)),
        ([Sample(0, 0.002)], Figures(1, 0, 0, 0, 0.002, 0.002, 0.002)),
        ([Sample(0, 0.1), Sample(0, 0.101)], Figures(2, 0, 0, 1, 0.1, 0.101, 0.101)),
        ([Sample(0, 0.002), TIMEOUT], Figures(2, 1, 0, 1, 0.002, 5.0, 5.0)),
        ([Sample(0, 0.002), HUNG], Figures(2, 0, 1, 1, 0.002, 0.002, 0.002)),
        ([HUNG], Figures(1, 0, 1, 1, None, None, None)),
    ],
)
def test_a_client_is_summed_up(samples: list[Sample], expected: Figures) -> None:
    assert figures(samples) == expected


@pytest.mark.parametrize(
    ("count", "part", "expected"),
    [(100, 0.99, 99), (101, 0.99, 100), (100, 0.50, 50), (1, 0.99, 1), (2, 0.50, 1), (10, 1.0, 10)],
)
def test_quantiles_are_nearest_rank(count: int, part: float, expected: float) -> None:
    assert quantile([float(value) for value in range(1, count + 1)], part) == expected


def test_no_value_has_no_quantile() -> None:
    assert quantile([], 0.5) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0.0 ms"),
        (0.00172, "1.7 ms"),
        (0.00994, "9.9 ms"),
        (0.00996, "10 ms"),
        (0.2404, "240 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (5.004, "5.0 s"),
    ],
)
def test_durations_are_readable(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_kinds_are_counted_the_most_frequent_first() -> None:
    assert kinds([NO_ROUTE, TIMEOUT, HUNG, TIMEOUT]) == "2 ConnectTimeout, 1 ConnectError"
    assert kinds([Sample(0, 9.0), HUNG]) == ""
