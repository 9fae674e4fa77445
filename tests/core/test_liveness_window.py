"""Behind a window that it has closed a peer is never suspect; whether it is dead, probes tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outlast.core.liveness import Awaits, Liveness, Watch
from tests.core.peer import SLOW, on_time

QUIET, DEAD = Liveness.QUIET, Liveness.DEAD
ROOM = Awaits.ROOM
BEHIND = "3 probes of its closed window without an answer"


@pytest.mark.parametrize(
    ("probes", "heard", "dead_after", "verdict", "why"),
    [
        (3, 11.0, 11.0, DEAD, BEHIND),
        (2, 60.0, 11.0, QUIET, ""),
        (9, 10.9, 11.0, QUIET, ""),
        (3, 60.0, 0.0, QUIET, ""),
    ],
)
def test_who_has_closed_its_window_is_dead_or_nothing(
    probes: int, heard: float, dead_after: float, verdict: Liveness, why: str
) -> None:
    """Never suspect; and only if three probes have had no answer for as long as is borne."""
    watch = Watch(0.0, acked=0, user_timeout=11.0, dead_after=dead_after)
    watch.expect(ROOM, 0.0)
    sample = replace(SLOW, window=0, probes=probes, heard=heard)
    assert on_time(watch, sample, 99.0) is verdict
    assert watch.why == why


def test_it_is_looked_at_when_its_time_is_over() -> None:
    watch = Watch(0.0, acked=0, dead_after=11.0)
    watch.expect(ROOM, 0.0)
    for heard, due in ((3.0, 2.0), (10.0, 1.0), (10.95, 0.15)):
        on_time(watch, replace(SLOW, window=0, probes=2, heard=heard), 99.0)
        assert watch.next_look == pytest.approx(99.0 + due)


def test_behind_our_own_cable_it_is_not_dead_either() -> None:
    watch = Watch(0.0, acked=0, dead_after=11.0)
    watch.expect(ROOM, 0.0)
    sample = replace(SLOW, window=0, probes=4, heard=20.0)
    assert on_time(watch, sample, 20.0) is DEAD
    watch.excuse(20.0, sample)
    assert watch.verdict is QUIET
    assert watch.look(sample, 20.05) is QUIET
    assert on_time(watch, replace(sample, probes=5, heard=32.0), 32.0) is QUIET
    assert on_time(watch, replace(sample, probes=6, heard=33.0), 33.0) is DEAD
