"""What an endpoint costs: response times, silence, requests in flight, failures."""

from __future__ import annotations

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.load import Load, in_flight_odds, in_flight_score, odds

SECONDS = st.floats(1e-5, 100.0)


def measured(*seconds: float, at: float = 0.0) -> Load:
    """A load with answers of so many seconds, all ended at once."""
    load = Load()
    for each in seconds:
        load.begin(at)
        load.end(at, each)
    return load


def failing(times: int, seconds: float = 0.01, now: float = 0.0) -> Load:
    load = measured(0.01, at=now)
    for _ in range(times):
        load.begin(now)
        load.end(now, seconds, failed=True)
    return load


# --- peak EWMA --------------------------------------------------------------------------------


def test_nothing_is_known_at_first() -> None:
    load = Load()
    assert load.latency(5.0) is None
    assert load.failing(5.0) == 0.0
    assert load.score(5.0) == pytest.approx(0.030)


def test_a_slow_answer_counts_at_once() -> None:
    assert measured(0.01, 0.5).latency(0.0) == pytest.approx(0.5)


def test_a_faster_answer_counts_for_as_much_as_time_has_passed() -> None:
    """Finagle: cost * w + seconds * (1 - w) with w = exp(-since / 10 s)."""
    load = measured(1.0)
    load.begin(4.0)
    load.end(4.0, 0.1)
    kept = exp(-0.4)
    assert load.latency(4.0) == pytest.approx(kept + 0.1 * (1 - kept))


def test_it_sinks_without_traffic() -> None:
    load = measured(1.0)
    assert load.latency(10.0) == pytest.approx(exp(-1.0))
    assert load.latency(50.0) == pytest.approx(exp(-5.0))


@given(st.lists(st.tuples(st.floats(0.0, 30.0), SECONDS), min_size=1, max_size=30))
def test_it_is_finagles_peak_ewma(history: list[tuple[float, float]]) -> None:
    """Against the textbook form: cost and stamp."""
    load, now, cost, stamp = Load(), 0.0, 0.0, 0.0
    for passed, seconds in history:
        now += passed
        weight = exp(-(now - stamp) / 10.0)
        sunk = cost * weight
        cost = seconds if seconds > sunk else sunk + seconds * (1 - weight)
        stamp = now
        load.begin(now)
        load.end(now, seconds)
        assert load.latency(now) == pytest.approx(cost, rel=1e-9)


def test_a_clock_read_earlier_than_the_last_one_does_no_harm() -> None:
    load = failing(3, now=5.0)
    load.begin(4.999)
    load.end(4.999, 0.005)
    assert load.latency(4.998) == pytest.approx(0.01, rel=0.01)
    assert 0.0 < load.failing(4.998) < 1.0
    assert odds(load, measured(0.01), 4.998) > 0.0


# --- the odds of two --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (measured(0.01), measured(0.01), 1.0),
        (measured(0.2), measured(0.01), 20.0),
        (measured(0.01), measured(0.2), 0.05),
        (Load(), Load(), 1.0),
        (Load(), measured(5.0), 1.0),  # who was never measured costs what the rival costs
        (measured(5.0), Load(), 1.0),
    ],
)
def test_of_two_that_are_idle_response_times_decide(a: Load, b: Load, expected: float) -> None:
    assert odds(a, b, 0.0) == pytest.approx(expected)
    assert in_flight_odds(a, b, 0.0) == 1.0


def test_the_odds_of_two_that_are_idle_stay_until_both_are_forgotten() -> None:
    slow, fast = measured(0.2), measured(0.01)
    assert odds(slow, fast, 80.0) == pytest.approx(20.0)
    assert odds(slow, fast, 110.0) == pytest.approx(0.2 * exp(-11.0) / 1e-6)
    assert odds(slow, fast, 1000.0) == 1.0
    assert odds(slow, fast, 1e9) == 1.0


def test_requests_in_flight_count_squared() -> None:
    a, b = measured(0.01), measured(0.01)
    for _ in range(2):
        a.begin(0.0)
    assert odds(a, b, 0.0) == pytest.approx(9.0)
    assert odds(b, a, 0.0) == pytest.approx(1 / 9)
    assert in_flight_odds(a, b, 0.0) == pytest.approx(9.0)
    a.quit()
    assert odds(a, b, 0.0) == pytest.approx(4.0)


def test_an_endpoint_of_more_weight_carries_more() -> None:
    a, b = measured(0.01), measured(0.01)
    for _ in range(3):
        a.begin(0.0)
    b.begin(0.0)
    assert odds(a, b, 0.0, 1.5, 0.5) == pytest.approx(1.0)
    assert in_flight_odds(a, b, 0.0, 1.5, 0.5) == pytest.approx(1.0)


def test_silence_while_something_is_in_flight_costs_as_it_lasts() -> None:
    frozen, other = measured(0.01), measured(0.01)
    frozen.begin(0.0)
    other.begin(0.0)
    assert odds(frozen, other, 0.005) == pytest.approx(1.0)
    other.end(0.995, 0.01)
    other.begin(1.0)
    assert odds(frozen, other, 1.0) == pytest.approx(1.0 / 0.01, rel=0.1)
    assert odds(other, frozen, 1.0) == pytest.approx(0.01 / 1.0, rel=0.1)
    assert frozen.score(1.0) == pytest.approx(4.0)


def test_one_never_measured_that_stays_silent_is_no_longer_taken_for_an_equal() -> None:
    new, known = Load(), measured(0.01)
    new.begin(0.0)
    assert odds(new, known, 0.0) == pytest.approx(4.0)  # its share, by what it carries
    assert odds(new, known, 0.5) == pytest.approx(4.0 * 0.5 / (0.01 * exp(-0.05)))
    assert odds(known, new, 0.0) == pytest.approx(0.25)
    assert odds(Load(), new, 0.5) == pytest.approx(0.25)


def test_a_silence_begins_anew_when_it_is_busy_again() -> None:
    load = measured(0.01)
    load.begin(100.0)
    assert load.score(100.001) < 0.01


# --- failures ---------------------------------------------------------------------------------


def test_one_failure_costs_little_and_many_much() -> None:
    well = failing(0)
    costs = [odds(failing(times), well, 0.0) for times in (1, 2, 4, 10, 40)]
    assert costs == sorted(costs)
    assert 5 < costs[0] < 20
    assert costs[3] > 1000
    assert costs[4] < 1700


@pytest.mark.parametrize("seconds", [0.0, 1e-6, 0.001, 0.01])
def test_failing_fast_never_attracts(seconds: float) -> None:
    well = measured(0.01)
    assert odds(failing(4, seconds), well, 0.0) > 100
    assert in_flight_odds(failing(4, seconds), well, 0.0) > 100
    always = Load()
    for _ in range(4):
        always.begin(0.0)
        always.end(0.0, seconds, failed=True)
    assert always.latency(0.0) is None  # how fast it fails is no response time
    assert odds(always, well, 0.0) > 100
    assert in_flight_score(always, 0.0) > 100 * in_flight_score(well, 0.0)


def test_failing_fast_takes_nothing_off_a_response_time() -> None:
    load = measured(1.0)
    for now in (4.0, 5.0):
        load.begin(now)
        load.end(now, 0.001, failed=True)
    assert load.latency(5.0) == pytest.approx(exp(-0.5))


def test_failing_slowly_costs_the_time_too() -> None:
    load = failing(1, seconds=3.0)
    assert load.latency(0.0) == pytest.approx(3.0)


def test_failures_are_forgiven_with_time_and_with_good_answers() -> None:
    load = failing(20)
    assert load.failing(0.0) > 0.99
    assert load.failing(5.0) == pytest.approx(load.failing(0.0) * exp(-1.0))
    for _ in range(8):
        load.begin(0.0)
        load.end(0.0, 0.01)
    assert 0.05 < load.failing(0.0) < 0.15
    for _ in range(40):
        load.begin(0.0)
        load.end(0.0, 0.01)
    assert load.failing(0.0) == 0.0
    assert odds(load, failing(0), 0.0) == pytest.approx(1.0)


def test_who_asks_to_be_spared_is_spared_so_long() -> None:
    load, well = measured(0.01), measured(0.01)
    load.begin(0.0)
    load.end(0.0, 0.01, failed=True, retry_after=30.0)
    assert load.failing(0.0) == load.failing(30.0) == 1.0
    assert load.failing(35.0) == pytest.approx(exp(-1.0))
    assert odds(load, well, 30.0) > 1000


def test_nobody_is_spared_for_longer_than_five_minutes() -> None:
    load = measured(0.01)
    load.begin(0.0)
    load.end(0.0, 0.01, failed=True, retry_after=1e9)
    assert load.failing(300.0) == 1.0
    assert load.failing(305.0) == pytest.approx(exp(-1.0))


def test_retry_after_of_a_good_answer_spares_nobody() -> None:
    load = failing(1)
    load.begin(0.0)
    load.end(0.0, 0.01, retry_after=30.0)
    assert load.failing(30.0) < 0.01


def test_who_comes_back_begins_anew_but_for_what_is_in_flight() -> None:
    load = failing(5, seconds=3.0)
    load.begin(0.0)
    load.forget()
    assert load.latency(0.0) is None
    assert load.failing(0.0) == 0.0
    assert load.pending == 1


# --- always -----------------------------------------------------------------------------------

HISTORY = st.lists(
    st.tuples(
        st.sampled_from(["begin", "end", "fail", "quit", "forget"]), st.floats(0.0, 50.0), SECONDS
    ),
    max_size=20,
)


def lived(history: list[tuple[str, float, float]]) -> tuple[Load, float]:
    load, now = Load(), 0.0
    for what, passed, seconds in history:
        now += passed
        if what == "begin":
            load.begin(now)
        elif what == "forget":
            load.forget()
        elif load.pending and what == "quit":
            load.quit()
        elif load.pending:
            load.end(now, seconds, failed=what == "fail")
    return load, now


@given(HISTORY, HISTORY, st.floats(0.0, 1000.0), st.floats(0.01, 50.0), st.floats(0.01, 50.0))
def test_the_odds_of_two_are_never_absurd(
    one: list[tuple[str, float, float]],
    other: list[tuple[str, float, float]],
    later: float,
    share: float,
    rivals: float,
) -> None:
    (a, t), (b, u) = lived(one), lived(other)
    now = max(t, u) + later
    for cost in (odds, in_flight_odds):
        forth, back = cost(a, b, now, share, rivals), cost(b, a, now, rivals, share)
        assert 0.0 < forth < float("inf")
        assert forth * back == pytest.approx(1.0)
        assert cost(a, a, now, share, share) == pytest.approx(1.0)
    assert a.score(now) > 0.0
    assert 0.0 <= a.failing(now) <= 1.0
