"""Two thousand random incidents, each held to the invariants; every eighth on every backend.

The seeds are always the same, so that a change that breaks something is found by whoever makes it.
`make fuzz` tries new ones. A few more are drawn by hypothesis, which looks for the extremes.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fire.incident import draw, drawn
from tests.fire.report import account, breaches, differences

INCIDENTS = 2000
TOGETHER = 50  # in one test
EVERYWHERE = 8  # one in so many is played by threads, on asyncio and on trio

# httpx itself leaves generators behind where an answer is not read to its end; trio tells of it.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected")


@pytest.mark.timeout(300)  # a second or two; the machine may be busy, and a failure is made small
@pytest.mark.parametrize("first", range(0, INCIDENTS, TOGETHER))
def test_incidents(first: int) -> None:
    for seed in range(first, first + TOGETHER):
        incident = draw(seed)
        found = breaches(incident)[0] if seed % EVERYWHERE else differences(incident)
        if found:
            pytest.fail(account(incident, found), pytrace=False)


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(rng=st.randoms(use_true_random=False), seed=st.integers(0, 1 << 20))
def test_incidents_that_hypothesis_draws(rng: Random, seed: int) -> None:
    incident = drawn(rng, seed)
    found, _ = breaches(incident)
    assert not found, account(incident, found)
