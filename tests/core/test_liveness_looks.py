"""When a watched connection is looked at, and what stands on its socket meanwhile."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from outlast.core.liveness import CLOSED, Awaits, Liveness, Sample, Watch, first_look
from outlast.core.tolerance import Tolerance
from tests.core.peer import LIMIT, SLOW, UNACKED, Peer, looks, on_time, waiting, watch_of

ALIVE, QUIET, SUSPECT, DEAD = Liveness
NOTHING, RESPONSE, ROOM = Awaits


def looked_at(sample: Sample | None) -> Watch:
    """A watch after its first look, taken on time."""
    watch = watch_of()
    on_time(watch, sample, watch.next_look)
    return watch


# --- when to look -----------------------------------------------------------------------------


def due(watch: Watch, sample: Sample, count: int) -> list[float]:
    """When the first looks come, each taken on time and finding the same but older."""
    found = []
    for _ in range(count):
        now = watch.next_look
        found.append(round(now, 6))
        on_time(watch, replace(sample, heard=sample.heard + now, received=math.inf), now)
    return found


@pytest.mark.parametrize(
    ("rtt", "first"), [(0.0, 0.1), (0.025, 0.1), (0.1, 0.4), (0.3, 1.2), (1.0, 2.0)]
)
def test_the_first_look_comes_after_four_round_trips(rtt: float, first: float) -> None:
    watch = Watch(100.0, rtt=rtt)
    watch.expect(RESPONSE, 100.0)
    assert watch.next_look == pytest.approx(100.0 + first)
    assert watch.next_look == first_look(100.0, rtt, Tolerance())


def test_the_looks_at_a_request_that_is_not_acknowledged() -> None:
    assert due(watch_of(), UNACKED, 6) == [0.1, 0.3, 0.7, 1.2, 1.7, 2.2]


def test_the_looks_at_a_slow_peer_are_one_in_two_seconds() -> None:
    peer = Peer()
    watch = waiting(peer)
    assert len(looks(watch, peer, 60.0)) <= 32
    assert watch.hurried


def test_the_looks_at_a_connection_that_is_merely_held() -> None:
    peer = Peer()
    watch = Watch(0.0)
    assert set(looks(watch, peer, 60.0)) == {ALIVE}
    watch = Watch(peer.now)
    assert len(looks(watch, peer, 60.0)) == 30


def test_a_held_connection_whose_probes_go_unanswered_is_looked_at_every_second() -> None:
    watch = Watch(0.0)
    on_time(watch, replace(SLOW, probes=1, heard=5.0), 5.0)
    assert watch.next_look == 6.0
    on_time(watch, replace(SLOW, probes=1, window=0, heard=5.0), 6.0)
    assert watch.next_look == 8.0


def test_where_the_platform_tells_nothing_there_are_no_looks() -> None:
    watch = looked_at(None)
    assert watch.next_look == math.inf
    assert (watch.user_timeout, watch.hurried) == (LIMIT, False)
    assert looked_at(replace(SLOW, state=CLOSED)).next_look == math.inf


def test_a_closed_window_is_looked_at_every_two_seconds() -> None:
    assert due(watch_of(), replace(UNACKED, window=0), 4) == [0.1, 2.1, 4.1, 6.1]
    assert due(watch_of(ROOM), replace(SLOW, window=0), 3) == [0.25, 2.25, 4.25]


# --- keepalive --------------------------------------------------------------------------------


def test_keepalive_is_hurried_after_a_second_without_a_packet_and_restored_after() -> None:
    watch = watch_of()
    seen = [watch.hurried]
    for now, heard in ((1.0, 0.999), (1.15, 1.0), (2.0, 0.1)):
        on_time(watch, replace(SLOW, heard=heard), now)
        seen.append(watch.hurried)
    for awaits in (RESPONSE, NOTHING):
        watch.expect(awaits, 3.0)
        seen.append(watch.hurried)
    assert seen == [False, False, True, True, True, False]


@pytest.mark.parametrize(
    ("awaits", "keepalive", "sample"),
    [
        (RESPONSE, False, SLOW),  # the caller's own
        (NOTHING, True, SLOW),
        (ROOM, True, SLOW),
        (RESPONSE, True, UNACKED),  # suspended anyway
    ],
)
def test_keepalive_is_left_alone(awaits: Awaits, keepalive: bool, sample: Sample) -> None:
    watch = watch_of(awaits, keepalive=keepalive)
    on_time(watch, replace(sample, heard=5.0), 2.0)
    assert not watch.hurried
    assert watch.next_look <= 4.0


def test_keepalive_that_turns_out_to_be_somebody_elses_is_left_alone() -> None:
    watch = watch_of()
    on_time(watch, replace(SLOW, heard=5.0), 5.0)
    assert watch.hurried
    watch.leave_keepalive()
    on_time(watch, replace(SLOW, heard=7.0), 7.0)
    assert [watch.hurried, watch.next_look] == [False, 9.0]


@pytest.mark.parametrize("died", [0.05, 0.5, 1.02, 1.5, 10.3])
def test_an_acknowledged_request_on_a_dead_peer_is_suspect_soon(died: float) -> None:
    peer = Peer()
    watch = waiting(peer)
    looks(watch, peer, died)
    peer.alive = False
    while on_time(watch, peer.sample(), peer.now) is not SUSPECT:
        peer.hurry(watch.hurried)
        peer.advance(watch.next_look - peer.now)
        assert peer.now - died < 4.0
    assert peer.now - died > 1.9
    while watch.verdict is not DEAD:
        peer.advance(watch.next_look - peer.now)
        on_time(watch, peer.sample(), peer.now)
        assert peer.now - died < LIMIT + 1.0


# --- user timeout -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "probes", "heard", "holds"),
    [
        (64_000, 0, 0.1, True),
        (64_000, 0, 60.0, True),
        (1, 0, 60.0, True),
        (0, 0, 0.1, False),
        (0, 1, 13.0, False),  # the next probe is due only after 26 s
        (0, 2, 60.0, False),
        (0, 3, 10.9, False),
        (0, 3, 11.0, True),
    ],
)
def test_the_user_timeout_is_lifted_behind_a_closed_window_unless_probes_go_unanswered(
    window: int, probes: int, heard: float, holds: bool
) -> None:
    watch = looked_at(replace(SLOW, window=window, probes=probes, heard=heard))
    assert watch.user_timeout == (LIMIT if holds else 0.0)
    on_time(watch, replace(SLOW, heard=0.0), 3.0)
    assert watch.user_timeout == LIMIT
