"""Two thousand random incidents, each held to the invariants; every eighth on every backend.

The seeds are always the same, so that a change that breaks something is found by whoever makes it.
`make fuzz` tries new ones.
"""

from __future__ import annotations

import pytest

from tests.fire.incident import draw
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
