"""Two thousand random incidents that hypothesis draws, each held to the invariants; and some that
are played on every backend.

The seeds are always the same, so that a change that breaks something is found by whoever makes it.
`make fuzz` tries new ones. `OUTLAST_FULL=1` plays three times as many on every backend.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from tests.fire.incident import draw, drawn
from tests.fire.report import account, breaches, differences

INCIDENTS = 2000
TOGETHER = 50  # in one test
FULL = bool(os.environ.get("OUTLAST_FULL"))
EVERYWHERE = 8 if FULL else 24  # of so many seeds one is played by threads, on asyncio and on trio

# httpx itself leaves generators behind where an answer is not read to its end; trio tells of it.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected")


@pytest.mark.timeout(300)  # a second or two; the machine may be busy, and a failure is made small
@pytest.mark.parametrize("first", range(0, INCIDENTS, TOGETHER))
def test_incidents(first: int) -> None:
    played = 0

    @seeded(first)
    @settings(
        max_examples=TOGETHER,
        database=None,
        phases=[Phase.generate],  # it is made small by `account`, which knows what an incident is
        suppress_health_check=list(HealthCheck),
    )
    @given(rng=st.randoms(use_true_random=False), number=st.integers(0, 1 << 20))
    def each(rng: Random, number: int) -> None:
        nonlocal played
        played += 1
        incident = drawn(rng, number)
        found, _ = breaches(incident)
        if found:
            pytest.fail(account(incident, found), pytrace=False)

    each()
    assert played >= TOGETHER


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(0, INCIDENTS, 4 * TOGETHER))
def test_incidents_on_every_backend(first: int) -> None:
    for seed in range(first, first + 4 * TOGETHER, EVERYWHERE):
        incident = draw(seed)
        found = differences(incident)
        if found:
            pytest.fail(account(incident, found), pytrace=False)
