"""Who gets how much, in a simulated service: requests that take time, and fail, seeds 1 to 20.

A discrete-event run of an open system: requests come by chance (Poisson), each is served by the
endpoint that was picked, for as long as the endpoint takes, and fails as often as it fails. The
health of the endpoints is told, as in life.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from random import Random

import pytest

from outlast.core.balance import P2C, Balance, LeastRequest, RoundRobin
from outlast.core.endpoint import Endpoint, Pick
from outlast.core.health import Fault
from tests.core.crowd import names, roster_of

SEEDS = range(1, 21)
# What becomes of a request to endpoint `at` at `now`: seconds, and whether it fails.
Serves = Callable[[int, float, Random], tuple[float, bool]]


def steady(_at: int, _now: float, _rng: Random) -> tuple[float, bool]:
    return 0.01, False


def jittery(_at: int, _now: float, rng: Random) -> tuple[float, bool]:
    return 0.01 * rng.lognormvariate(0.0, 0.5), False


def by_chance(_at: int, _now: float, rng: Random) -> tuple[float, bool]:
    return rng.expovariate(100.0), False


def one_slow(at: int, _now: float, rng: Random) -> tuple[float, bool]:
    return (0.2 if at == 0 else 0.01) * rng.uniform(0.8, 1.2), False


def one_frozen(at: int, _now: float, rng: Random) -> tuple[float, bool]:
    return 1e6 if at == 0 else 0.01 * rng.uniform(0.8, 1.2), False


def one_failing_fast(at: int, _now: float, rng: Random) -> tuple[float, bool]:
    return (0.001, True) if at == 0 else (0.01 * rng.uniform(0.8, 1.2), False)


def seldom_failing(_at: int, _now: float, rng: Random) -> tuple[float, bool]:
    return 0.01, rng.random() < 0.01


def ill_for_ten_seconds(at: int, now: float, rng: Random) -> tuple[float, bool]:
    return 0.01 * rng.uniform(0.8, 1.2), at == 0 and 10.0 <= now < 20.0


def ill_for_ten_minutes(at: int, now: float, rng: Random) -> tuple[float, bool]:
    return 0.01 * rng.uniform(0.8, 1.2), at == 0 and 10.0 <= now < 610.0


def served(
    serves: Serves,
    seed: int,
    *,
    balance: Balance | None = None,
    endpoints: int = 4,
    rate: float = 200.0,
    requests: int = 4000,
    healed: bool = False,
) -> list[tuple[float, str]]:
    """When each request came, and who served it. `healed`: health hears of what happens."""
    rng = Random(seed)
    roster = roster_of(endpoints, balance, seed=seed)
    under_way: list[tuple[float, int, float, bool, Pick[str]]] = []
    ordinals = count()
    log: list[tuple[float, str]] = []
    now = 0.0
    for _ in range(requests):
        now += rng.expovariate(rate)
        while under_way and under_way[0][0] <= now:
            ended, _, took, failed, pick = heapq.heappop(under_way)
            endpoint = pick.endpoint
            endpoint.load.end(ended, took, failed=failed)
            if healed:
                told(endpoint, failed, ended, rng)
                roster.changed(endpoint)
        picked = roster.pick(now, rng)
        assert picked is not None
        picked.endpoint.load.begin(now)
        took, failed = serves(picked.endpoint.position, now, rng)
        heapq.heappush(under_way, (now + took, next(ordinals), took, failed, picked))
        log.append((now, picked.endpoint.key))
    return log


def told(endpoint: Endpoint[str], failed: bool, now: float, rng: Random) -> None:
    if failed:
        endpoint.health.failed(Fault.GATEWAY, now, rng)
    else:
        endpoint.health.succeeded(now)


def parts(log: Sequence[tuple[float, str]], endpoints: int = 4) -> list[float]:
    counts = Counter(key for _, key in log)
    return [counts[name] / max(1, len(log)) for name in names(endpoints)]


@pytest.mark.parametrize("balance", [P2C(), LeastRequest(), RoundRobin()], ids=repr)
@pytest.mark.parametrize("serves", [steady, jittery, by_chance])
def test_four_equals_get_a_quarter_each(balance: Balance, serves: Serves) -> None:
    """Within 15 % of a quarter of 4,000 requests, for each seed."""
    for seed in SEEDS if isinstance(balance, P2C) else SEEDS[:5]:
        for part in parts(served(serves, seed, balance=balance)):
            assert part == pytest.approx(0.25, rel=0.15), f"seed {seed}"


@pytest.mark.parametrize("rate", [20.0, 2000.0])
def test_four_equals_are_equal_at_any_rate(rate: float) -> None:
    for seed in SEEDS[:5]:
        for part in parts(served(jittery, seed, rate=rate)):
            assert part == pytest.approx(0.25, rel=0.15), f"seed {seed}"


def test_failures_now_and_then_do_not_tip_the_balance() -> None:
    for seed in SEEDS[:5]:
        for part in parts(served(seldom_failing, seed)):
            assert part == pytest.approx(0.25, rel=0.15), f"seed {seed}"


@pytest.mark.parametrize(("endpoints", "most"), [(2, 0.06), (4, 0.04), (10, 0.04)])
def test_one_that_is_twenty_times_slower_gets_little(endpoints: int, most: float) -> None:
    """The promise is 8 %; the others share the rest."""
    for seed in SEEDS:
        log = served(one_slow, seed, endpoints=endpoints)
        slow, *others = parts(log, endpoints)
        assert 0.0 < slow < most, f"seed {seed}"
        for part in others:
            assert part == pytest.approx((1 - slow) / len(others), rel=0.25), f"seed {seed}"


def test_by_requests_in_flight_alone_the_slow_one_gets_less_too() -> None:
    for seed in SEEDS[:5]:
        assert parts(served(one_slow, seed, balance=LeastRequest()))[0] < 0.08, f"seed {seed}"


@pytest.mark.parametrize("rate", [20.0, 200.0, 2000.0])
@pytest.mark.parametrize("balance", [P2C(), LeastRequest()], ids=repr)
def test_failing_fast_attracts_nobody(balance: Balance, rate: float) -> None:
    """Not even where health says nothing: ten times as fast, and always an error."""
    for seed in SEEDS[:5]:
        part = parts(served(one_failing_fast, seed, balance=balance, rate=rate))[0]
        assert part < 0.025, f"seed {seed}"


def test_one_that_froze_gets_nothing_more() -> None:
    """It has never answered and never failed: silence is enough."""
    for seed in SEEDS[:5]:
        log = served(one_frozen, seed)
        assert parts(log)[0] < 0.01, f"seed {seed}"
        late = [entry for entry in log if entry[0] > 5.0]
        assert parts(late)[0] < 0.002, f"seed {seed}"


def test_after_an_illness_of_ten_seconds_it_comes_back_to_its_share_without_a_rush() -> None:
    for seed in SEEDS[:5]:
        log = served(ill_for_ten_seconds, seed, requests=12_000, healed=True)
        before = [entry for entry in log if entry[0] < 10.0]
        ill = [entry for entry in log if 13.0 <= entry[0] < 20.0]
        after = [entry for entry in log if 40.0 <= entry[0] < 60.0]
        assert parts(before)[0] == pytest.approx(0.25, rel=0.25), f"seed {seed}"
        assert parts(ill)[0] < 0.03, f"seed {seed}"
        assert parts(after)[0] == pytest.approx(0.25, rel=0.2), f"seed {seed}"
        for second in range(20, 60):
            within = [entry for entry in log if second <= entry[0] < second + 1]
            assert parts(within)[0] < 0.42, f"seed {seed}, second {second}"


def test_after_ten_minutes_a_trial_within_one_and_its_share_ten_seconds_later() -> None:
    for seed in SEEDS[:3]:
        log = served(ill_for_ten_minutes, seed, rate=40.0, requests=29_000, healed=True)
        ill = [entry for entry in log if 13.0 <= entry[0] < 610.0]
        assert parts(ill)[0] < 0.005, f"seed {seed}"
        trial = next(at for at, key in log if key == "e0" and at > 610.0)
        assert trial < 610.0 + 60.0 * 1.2, f"seed {seed}"
        after = [entry for entry in log if trial + 10.5 <= entry[0] < trial + 40.0]
        assert parts(after)[0] == pytest.approx(0.25, rel=0.25), f"seed {seed}"
