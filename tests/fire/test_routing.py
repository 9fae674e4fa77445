"""The router's job, in figures, in virtual time: balance, ejection and return, storms, updates.

Seed 1 in brief here; `OUTLAST_FULL=1` (make routing) plays seeds 1 to 20 at full length. Where a
brief play is too short for a figure of the full one, its bound is reckoned from the same rule.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import httpx
import pytest

import outlast
from tests.fire.routing import Called, Scene, crowd, steady

FULL = bool(os.environ.get("OUTLAST_FULL"))
SEEDS = range(1, 21 if FULL else 2)
OUTAGE = (5.0, 65.0) if FULL else (5.0, 20.0)
RATE = 200 if FULL else 35  # calls a second
FEW = RATE if FULL else 15  # calls a second where the question is only whether any fails
CALLS = 4000 if FULL else 1000  # of a crowd
AWAY = 600.0 if FULL else 140.0  # seconds of a long fault; ejections last 60 s after 75
BUCKET = 50 + int(OUTAGE[1] - OUTAGE[0]) * 10  # extra dials: what it holds, and what runs in
seeds = pytest.mark.parametrize("seed", SEEDS)
Measured = Callable[[str, float], None]


def run(scene: Scene, client: httpx.AsyncClient, *, rate: float, until: float) -> Called:
    async def main() -> Called:
        async with client:
            return await steady(scene, client, rate=rate, until=until)

    return scene.net.run(main)


@seeds
def test_equal_endpoints_share_equally(seed: int, measured: Measured) -> None:
    scene = Scene(seed, 4)

    async def main() -> None:
        async with scene.client() as client:
            await crowd(scene, client, workers=16, calls=CALLS)

    scene.net.run(main)
    shares = scene.asked.shares()
    for number in range(4):
        measured("four equals: of a quarter", shares[number] / (CALLS / 4))
    assert all(0.85 <= shares[number] / (CALLS / 4) <= 1.15 for number in range(4)), shares


@seeds
def test_a_slow_endpoint_is_given_little(seed: int, measured: Measured) -> None:
    scene = Scene(seed, 4)
    scene.takes[0] = 0.1  # 20 times as long

    async def main() -> None:
        async with scene.client() as client:
            await crowd(scene, client, workers=16, calls=CALLS)

    scene.net.run(main)
    measured("one 20 times as slow: its share", scene.asked.share(0))
    assert scene.asked.share(0) < 0.08, scene.asked.shares()


@seeds
def test_an_endpoint_that_answers_503_is_left_alone(seed: int, measured: Measured) -> None:
    scene = Scene(seed, 4)
    scene.net.at(5.0, scene.faults.__setitem__, 0, (503, 0.0))
    called = run(scene, scene.client(), rate=RATE, until=35.0)
    assert not called.errors()
    measured("one answers 503: its share after 3 s", scene.asked.share(0, since=8.0))
    assert scene.asked.share(0, since=8.0) < 0.03, scene.asked.shares(8.0)


@seeds
def test_after_ten_seconds_of_fault_it_is_back_without_a_spike(
    seed: int, measured: Measured
) -> None:
    scene = Scene(seed, 4)
    scene.net.at(5.0, scene.faults.__setitem__, 0, (503, 0.0))
    scene.net.at(15.0, scene.faults.pop, 0)
    called = run(scene, scene.client(), rate=RATE, until=50.0)
    assert not called.errors()
    peak = scene.asked.peak(0, 15.0, 50.0)
    measured("ill for 10 s: of its share 20 s later", 4 * scene.asked.share(0, since=35.0))
    measured("ill for 10 s: busiest second, of its share", 4 * peak / RATE)
    assert scene.asked.share(0, since=35.0) >= 0.8 / 4, scene.asked.shares(35.0)
    assert peak <= 1.5 * RATE / 4 + 5


def long_away(seed: int, target: object = None) -> tuple[Scene, Called]:
    scene = Scene(seed, 4)
    scene.net.at(5.0, scene.faults.__setitem__, 0, (503, 0.0))
    scene.net.at(5.0 + AWAY, scene.faults.pop, 0)
    wanted = target(scene.text) if callable(target) else None
    rate = 20 if FULL else 5
    return scene, run(scene, scene.client(target=wanted), rate=rate, until=5.0 + AWAY + 95.0)


@seeds
def test_after_a_long_fault_a_trial_comes_within_a_minute(seed: int, measured: Measured) -> None:
    scene, called = long_away(seed)
    assert not called.errors()
    healed = 5.0 + AWAY
    back = min(at for at, pod in scene.asked.at if pod == 0 and at >= healed)
    measured("away for 10 minutes: seconds to its trial", back - healed)
    measured("away for 10 minutes: of its share then", 4 * scene.asked.share(0, since=back + 10.0))
    assert back <= healed + 72.0
    assert scene.asked.share(0, since=back + 10.0) >= 0.8 / 4


@seeds
def test_an_active_check_brings_it_back_at_once(seed: int, measured: Measured) -> None:
    check = outlast.HttpCheck("/", interval=2.0)
    scene, called = long_away(seed, lambda text: outlast.Target(text, check=check))
    assert not called.errors()
    share = scene.asked.share(0, since=25.0 + AWAY)
    measured("away, and checked: of its share 20 s later", 4 * share)
    assert share >= 0.8 / 4


# -- total outage --------------------------------------------------------------------------


def outage(seed: int, kind: str) -> tuple[Scene, Called, int]:
    """All endpoints out, one of them back in the end; and how many calls began meanwhile."""
    scene = Scene(seed, 4)
    begin, end = OUTAGE
    for number, pod in enumerate(scene.pods):
        if kind == "503":
            scene.net.at(begin, scene.faults.__setitem__, number, (503, 0.0))
        elif kind == "refused":
            scene.net.at(begin, pod.kill)
        else:
            scene.net.at(begin, pod.node.power_off)
    back = {
        "503": lambda: scene.faults.pop(0),
        "refused": scene.pods[0].start,
        "silent": scene.pods[0].node.power_on,
    }[kind]
    scene.net.at(end, back)
    called = run(scene, scene.client(), rate=RATE, until=end + 10.0)
    during = sum(begin <= at < end for at, _, _ in called.calls)
    return scene, called, during


def wave(times: list[float], name: str, measured: Measured) -> float:
    """The busiest second of an outage, the first left out, by the mean of them."""
    begin, end = map(int, OUTAGE)
    seconds = Counter(int(at) for at in times if begin + 1 <= at < end)
    busiest = max(seconds.values()) * (end - begin - 1) / seconds.total()
    measured(name, busiest)
    return busiest


@seeds
def test_when_all_answer_503_requests_are_not_multiplied(seed: int, measured: Measured) -> None:
    scene, called, during = outage(seed, "503")
    begin, end = OUTAGE
    written = scene.asked.shares(begin, end).total()
    granted = 0.2 * during + 3 * (end - begin)  # what a retry budget grants (DESIGN section 6)
    before = 10 * (0.2 * RATE + 3)  # and what it holds when the outage begins
    measured("all answer 503: requests per call", written / during)
    measured("all answer 503: first success, s after one is back", called.first_success(end) - end)
    assert written <= (1.25 * during if FULL else during + granted + before)
    assert called.first_success(end) <= end + 1.0
    asked = [at for at, _ in scene.asked.at]
    assert wave(asked, "all answer 503: busiest second by the mean", measured) <= 2


@seeds
def test_when_all_refuse_dials_are_not_multiplied(seed: int, measured: Measured) -> None:
    scene, called, during = outage(seed, "refused")
    dials = scene.dials_between(*OUTAGE)
    measured("all refuse: dials per call", dials / during)
    measured(
        "all refuse: first success, s after one is back",
        called.first_success(OUTAGE[1]) - OUTAGE[1],
    )
    assert dials <= 1.25 * during + BUCKET
    assert wave(scene.dials, "all refuse: busiest second of dials by the mean", measured) <= 2
    assert any("3 more had just refused other calls" in str(error) for error in called.errors())
    assert called.first_success(OUTAGE[1]) <= OUTAGE[1] + 1.0


@seeds
def test_when_all_are_silent_dials_are_bounded_by_time(seed: int, measured: Measured) -> None:
    """Each call may have one dial open for each second of its connect timeout."""
    scene, called, during = outage(seed, "silent")
    dials = scene.dials_between(*OUTAGE)
    measured("all silent: dials per call", dials / during)
    measured(
        "all silent: first success, s after one is back",
        called.first_success(OUTAGE[1]) - OUTAGE[1],
    )
    assert dials <= during * 5.0 / 1.0 + BUCKET
    assert wave(scene.dials, "all silent: busiest second of dials by the mean", measured) <= 2
    assert called.first_success(OUTAGE[1]) <= OUTAGE[1] + 1.0


# -- endpoints that come and go ------------------------------------------------------------


@pytest.mark.parametrize("ending", ["stop", "kill", "reset"])
@seeds
def test_a_rolling_update_of_ten(seed: int, ending: str, measured: Measured) -> None:
    scene = Scene(seed, 10)
    for number, pod in enumerate(scene.pods):
        scene.net.at(3.0 + 4.0 * number, getattr(pod, ending))
        scene.net.at(5.0 + 4.0 * number, pod.start)
    called = run(scene, scene.client(), rate=FEW, until=50.0)
    measured(f"rolling update ({ending}): errors", len(called.errors()))
    assert not called.errors(), called.errors()[:3]
    assert all(scene.asked.share(number, since=45.0) > 0 for number in range(10))


@pytest.mark.parametrize("fault", ["power_off", "kill"])
@seeds
def test_three_of_four_dead(seed: int, fault: str, measured: Measured) -> None:
    scene = Scene(seed, 4)
    for pod in scene.pods[1:]:
        scene.net.at(3.0, pod.node.power_off if fault == "power_off" else pod.kill)
    called = run(scene, scene.client(), rate=FEW, until=30.0)
    measured(f"three of four dead ({fault}): errors", len(called.errors()))
    assert not called.errors(), called.errors()[:3]


@seeds
def test_all_but_one_of_five_hundred_dead(seed: int, measured: Measured) -> None:
    """Learning costs dials, which the bucket bounds; then there are no errors."""
    scene = Scene(seed, 500, per_node=4)
    alive = seed * 37 % 500
    for number, pod in enumerate(scene.pods):
        if number != alive:
            scene.net.at(3.0, pod.kill)
    called = run(scene, scene.client(), rate=50 if FULL else 25, until=60.0 if FULL else 25.0)
    failed = [at for at, _, what in called.calls if what != 200]
    measured("499 of 500 dead: the last error, s after", max(failed, default=3.0) - 3.0)
    measured("499 of 500 dead: errors of all calls, %", 100 * len(failed) / len(called.calls))
    assert not called.errors(since=30.0 if FULL else 15.0), called.errors()[:3]


# -- hedging -------------------------------------------------------------------------------


@seeds
def test_hedging_at_p95(seed: int, measured: Measured) -> None:
    """Every tenth reply of one endpoint takes a second."""

    def played(policy: outlast.Policy) -> tuple[float, int]:
        scene = Scene(seed, 4)
        scene.slow_tenth(0, 1.0)
        target = outlast.Target(scene.text, balance=outlast.RoundRobin())  # P2C would avoid it
        client = scene.client(target=target, policy=policy)
        called = run(scene, client, rate=100 if FULL else 50, until=60.0 if FULL else 20.0)
        assert not called.errors()
        times = sorted(took for at, took, _ in called.calls if at >= 10.0)
        return times[int(len(times) * 0.99)], len(scene.asked.at)

    without, before = played(outlast.Policy())
    hedged, after = played(outlast.Policy(hedge="p95"))
    measured("hedging: p99 without, s", without)
    measured("hedging: p99 with it, s", hedged)
    measured("hedging: requests more, %", 100 * (after / before - 1))
    assert without >= 5 * hedged, (without, hedged)
    assert after <= 1.05 * before
