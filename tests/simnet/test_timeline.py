"""The timeline: order, cancelling, and that time only goes forward."""

from __future__ import annotations

from random import Random

import pytest

from outlast.testing.simnet.timeline import Timeline, Timer


def run_all(timeline: Timeline) -> None:
    while timeline.next_at() is not None:
        timeline.run_next()


def test_events_run_by_time_then_by_order_of_making() -> None:
    timeline, seen = Timeline(), list[tuple[int, str]]()
    for when, name in [(20, "c"), (10, "a"), (20, "d"), (10, "b")]:
        timeline.at(when, lambda name=name: seen.append((timeline.now, name)))  # type: ignore[misc]  # bound at once
    run_all(timeline)
    assert seen == [(10, "a"), (10, "b"), (20, "c"), (20, "d")]
    assert timeline.now == 20


def test_what_is_past_runs_now_and_after_counts_from_now() -> None:
    timeline, seen = Timeline(), list[int]()

    def first() -> None:
        timeline.at(3, lambda: seen.append(timeline.now))
        timeline.after(5, lambda: seen.append(timeline.now))

    timeline.at(10, first)
    run_all(timeline)
    assert seen == [10, 15]


def test_a_cancelled_event_does_not_run_and_is_not_next() -> None:
    timeline, seen = Timeline(), list[str]()
    first = timeline.at(1, lambda: seen.append("first"), "first")
    timeline.at(2, lambda: seen.append("second"))
    assert (first.active, len(timeline)) == (True, 2)
    first.cancel()
    first.cancel()
    assert (first.active, len(timeline), timeline.next_at()) == (False, 1, 2)
    assert "over" in repr(first)
    run_all(timeline)
    assert seen == ["second"]


def test_a_cancel_after_the_run_changes_nothing() -> None:
    timeline = Timeline()
    timer = timeline.at(1, lambda: None)
    timeline.at(2, lambda: None)
    timeline.run_next()
    timer.cancel()
    assert len(timeline) == 1


def test_an_empty_timeline_has_nothing_next() -> None:
    timeline = Timeline()
    assert timeline.next_at() is None
    with pytest.raises(IndexError, match="nothing is to come"):
        timeline.run_next()


def test_an_event_that_fails_is_over() -> None:
    timeline = Timeline()

    def fail() -> None:
        raise RuntimeError("event")

    timeline.at(7, fail)
    with pytest.raises(RuntimeError, match="event"):
        timeline.run_next()
    assert (timeline.now, timeline.next_at()) == (7, None)


def test_time_passes_also_without_events() -> None:
    timeline, seen = Timeline(), list[int]()
    timeline.at(5, lambda: timeline.after(1, lambda: seen.append(timeline.now)))
    timeline.at(50, lambda: seen.append(timeline.now))
    timeline.advance(20)
    assert (timeline.now, seen) == (20, [6])
    timeline.advance(3)
    assert timeline.now == 20


@pytest.mark.parametrize("seed", range(5))
def test_many_cancelled_entries_are_swept_and_the_order_stays(seed: int) -> None:
    rng, timeline, seen = Random(seed), Timeline(), list[tuple[int, int]]()
    timers: list[tuple[tuple[int, int], Timer]] = []
    for number in range(3000):
        key = (rng.randrange(500), number)
        timers.append((key, timeline.at(key[0], lambda key=key: seen.append(key))))  # type: ignore[misc]  # bound at once
    rng.shuffle(timers)
    for _, timer in timers[100:]:
        timer.cancel()
    assert len(timeline) == 100
    assert len(timeline._heap) < 800
    run_all(timeline)
    assert seen == sorted(key for key, _ in timers[:100])
