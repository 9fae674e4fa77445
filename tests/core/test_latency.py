"""What recent connects took, and the figures of the next race."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.latency import (
    REFRESH,
    SIZE,
    Latency,
    attempt_delay,
    handshake_patience,
    later_delay,
)


def of(*samples: float) -> Latency:
    latency = Latency()
    for sample in samples:
        latency.add(sample)
    return latency


def test_nothing_is_known_without_samples() -> None:
    assert Latency().p95() is None
    assert attempt_delay(Latency()) == 0.25
    assert handshake_patience(Latency()) == 0.5


@pytest.mark.parametrize(
    ("connects", "delay"),
    [(0.0001, 0.02), (0.006, 0.02), (0.01, 0.03), (0.05, 0.15), (0.09, 0.25), (4.0, 0.25)],
)
def test_the_attempt_delay_is_three_times_p95_within_its_bounds(
    connects: float, delay: float
) -> None:
    assert attempt_delay(of(connects)) == pytest.approx(delay)


@pytest.mark.parametrize(("handshakes", "patience"), [(0.01, 0.5), (0.2, 0.6), (3.0, 9.0)])
def test_patience_is_three_times_p95_and_at_least_half_a_second(
    handshakes: float, patience: float
) -> None:
    assert handshake_patience(of(handshakes)) == pytest.approx(patience)


@pytest.mark.parametrize(("delay", "later"), [(0.25, 0.125), (0.02, 0.01), (0.012, 0.01)])
def test_the_later_delay_is_half_but_as_long_as_the_rfc_asks(delay: float, later: float) -> None:
    assert later_delay(delay) == later


@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=SIZE))
def test_at_least_95_of_100_samples_are_no_longer_than_p95(samples: list[float]) -> None:
    """And p95 is the smallest sample of which that is true (nearest rank)."""
    p95 = of(*samples).p95()
    assert p95 is not None
    assert sum(sample <= p95 for sample in samples) >= 0.95 * len(samples)
    assert sum(sample < p95 for sample in samples) < 0.95 * len(samples)


def test_one_outlier_in_twenty_does_not_count() -> None:
    assert of(*[0.001] * 19, 9.0).p95() == 0.001
    assert of(*[0.001] * 18, 9.0).p95() == 9.0


def test_a_first_sample_counts_at_once_and_so_do_the_next() -> None:
    latency = Latency()
    for sample in range(1, REFRESH):
        latency.add(float(sample))
        assert latency.p95() == float(math.ceil(0.95 * sample))


def test_p95_is_at_most_fifteen_samples_old() -> None:
    latency = of(*[0.001] * SIZE)
    assert latency.p95() == 0.001
    for _ in range(REFRESH - 1):
        latency.add(1.0)
        assert latency.p95() == 0.001
    latency.add(1.0)
    assert latency.p95() == 1.0


def test_old_samples_are_forgotten() -> None:
    latency = of(*[9.0] * SIZE)
    for _ in range(SIZE):
        latency.add(0.001)
    assert latency.p95() == 0.001
    assert attempt_delay(latency) == 0.02


def test_the_oldest_sample_goes_first() -> None:
    latency = of(*[9.0] * 7, *[0.001] * (SIZE - 7))
    assert latency.p95() == 9.0
    for _ in range(REFRESH):
        latency.add(0.001)
    assert latency.p95() == 0.001


@given(
    st.lists(st.floats(0.0, 10.0), min_size=1, max_size=60),
    st.sampled_from([0.01, 0.5, 0.9, 0.95, 0.99, 0.999]),
    st.sampled_from([0, 1]),
)
def test_a_quantile_is_the_nearest_rank(samples: list[float], fraction: float, spare: int) -> None:
    """Of the samples, and of spare ones that are longer than all."""
    found = of(*samples).quantile(fraction, spare=spare)
    assert found is not None
    wanted = fraction * (len(samples) + spare)
    reached = sum(sample <= found for sample in samples)
    assert reached >= wanted - 1e-9 or found == max(samples)
    assert sum(sample < found for sample in samples) < wanted


def test_quantiles_of_different_fractions_are_told_apart() -> None:
    latency = of(*map(float, range(1, 21)))
    assert latency.quantile(0.5) == 10.0
    assert latency.quantile(0.5, spare=1) == 11.0
    assert latency.quantile(0.95) == 19.0
    assert latency.quantile(0.95, spare=1) == 20.0
    assert latency.quantile(0.5) == 10.0


def test_a_ring_is_as_long_as_it_is_asked_to_be() -> None:
    latency = Latency(4)
    for sample in range(10):
        latency.add(float(sample))
    assert len(latency) == 4
    assert Latency(4).quantile(0.5) is None
    for _ in range(REFRESH):
        latency.add(7.0)
    assert latency.quantile(0.01) == 7.0
