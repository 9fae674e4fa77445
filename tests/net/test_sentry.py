"""The one who watches other people's sockets: when it looks, what it costs, when it ends."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

from outlast import Liveness
from outlast.core.liveness import Sample
from outlast.net import sentry
from outlast.net.options import Keepalive
from outlast.net.seam import Wait
from outlast.net.sentry import Sentry
from tests.net.scripted import Scripted

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO and option numbers")
LIMIT = 11.0
LIVE = Sample(unacked=0, acked=100, window=64_000, rtt=0.001, backoff=0, heard=0.5)
HURRIED = Keepalive(1, 1, 6)


class Held:
    """See `net.held.Held`: a connection of which the test says how it is."""

    def __init__(self, key: int = 0) -> None:
        self.key = key
        self.address = f"10.0.0.1:{key}"
        self.gone = False
        self.sample: Sample | None = LIVE
        self.keepalive: Keepalive | None = Keepalive()
        self.looks = 0
        self.standing = 0.0
        self.trail: list[object] = []
        self.fault: Exception | None = None

    def state(self) -> Sample | None:
        self.looks += 1
        if self.fault is not None:
            raise self.fault
        return None if self.gone else self.sample

    def linked(self) -> bool:
        return True

    def set_keepalive(self, keepalive: Keepalive) -> None:
        self.trail.append(keepalive)

    def limit(self, seconds: float) -> None:
        if self.standing != seconds:
            self.standing = seconds
            self.trail.append(seconds)

    def end(self) -> None:
        self.trail.append("ended")


class Night(Scripted):
    """Virtual time. What was spawned runs while the test lets time pass, and stays where it is."""

    def __init__(self) -> None:
        super().__init__()
        self.work: Coroutine[Any, Any, None] | None = None
        self.pending: Wait | None = None
        self.spawned = 0
        self.rounds = 0
        self.refuses = False

    def spawn(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """See `Network.spawn`."""
        if self.refuses:
            raise RuntimeError("can't start new thread")
        assert self.work is None, "one job at a time"
        self.spawned += 1
        self.work = job()
        self._step(None)

    def _step(self, ready: object) -> None:
        assert self.work is not None
        self.rounds += 1
        try:
            self.pending = self.work.send(ready)
        except StopIteration:
            self.work = self.pending = None

    def pass_time(self, until: float) -> None:
        """Let time pass up to this instant."""
        while self.pending is not None:
            ready = [each for each, _ in self.pending.interests if self._ready(each, 0)]
            if not ready:
                if self.pending.until > until:
                    break
                self.time = max(self.time, self.pending.until)
            self._step(ready)
        self.time = until

    def close(self) -> None:
        """End what is under way."""
        if self.work is not None:
            self.work.close()


@pytest.fixture
def night() -> Iterator[Night]:
    made = Night()
    yield made
    made.close()


def gaps(held: Held, night: Night, until: float) -> float:
    """The longest time between two looks at `held` up to that instant."""
    longest, last, seen = 0.0, night.time, held.looks
    while night.time < until:
        night.pass_time(night.time + 0.05)
        if held.looks != seen:
            seen, last = held.looks, night.time
        longest = max(longest, night.time - last)
    return longest


# --- when it looks ----------------------------------------------------------------------------


def test_a_thousand_sockets_are_looked_at_once_in_two_seconds_and_mostly_together(
    night: Night,
) -> None:
    watching = Sentry(night)
    held = [Held(number) for number in range(1000)]
    for each in held:
        watching.take(night, each, LIMIT)
        night.pass_time(night.time + 0.005)
    for each in held:
        each.looks = 0
    start, night.rounds = night.time, 0
    night.pass_time(start + 60.0)
    assert {each.looks for each in held} <= set(range(30, 35))
    assert night.rounds < 60.0 / 2.0 * 12, "a round for many"
    assert night.spawned == 1


def test_no_socket_is_left_alone_for_longer_than_two_seconds(night: Night) -> None:
    watching = Sentry(night)
    held = [Held(number) for number in range(5)]
    for each in held:
        watching.take(night, each, LIMIT)
        night.pass_time(night.time + 0.35)
    assert gaps(held[0], night, night.time + 20.0) <= 2.1


def test_a_closed_window_lifts_the_user_timeout_within_two_seconds(night: Night) -> None:
    watching = Sentry(night)
    held = Held()
    watching.take(night, held, LIMIT)
    assert held.trail == [LIMIT]
    night.pass_time(1.0)
    held.sample = replace(LIVE, window=0)
    night.pass_time(3.0)
    assert held.trail == [LIMIT, 0.0]
    held.sample = LIVE
    night.pass_time(5.0)
    assert held.trail == [LIMIT, 0.0, LIMIT]


def test_a_dead_peer_is_suspect_and_then_dead(night: Night) -> None:
    held = Held()
    watched = Sentry(night).take(night, held, LIMIT)
    night.pass_time(3.0)
    verdicts: dict[Liveness, int] = {}
    for second in range(4, 23):
        probes = max(0, second - 3 - 4)
        held.sample = replace(LIVE, heard=second - 3.0, probes=probes)
        night.pass_time(second)
        verdicts.setdefault(watched.verdict, second)
    assert verdicts[Liveness.SUSPECT] == 10
    assert 14 <= verdicts[Liveness.DEAD] <= 15
    assert watched.why == "14 keepalive probes without an answer"
    assert "ended" not in held.trail


def test_a_dead_peers_connection_is_ended_where_that_was_asked_for(night: Night) -> None:
    held = Held()
    watched = Sentry(night).take(night, held, LIMIT)
    watched.set(abort=True)
    held.sample = replace(LIVE, heard=60.0, probes=6)
    night.pass_time(30.0)
    assert watched.verdict is Liveness.DEAD
    assert held.trail.count("ended") == 1


def test_who_awaits_an_answer_is_looked_at_sooner_and_has_keepalive_hurried(night: Night) -> None:
    held = Held()
    watched = Sentry(night).take(night, held, LIMIT)
    night.pass_time(0.5)
    watched.set(awaiting=True)
    held.looks = 0
    night.pass_time(0.65)
    assert held.looks == 1
    held.sample = replace(LIVE, heard=1.2)
    night.pass_time(1.8)
    assert held.trail == [LIMIT, HURRIED]
    watched.set()
    assert held.trail == [LIMIT, HURRIED]
    watched.set(awaiting=False)
    assert held.trail == [LIMIT, HURRIED, Keepalive()]


# --- when it ends -----------------------------------------------------------------------------


def test_the_job_ends_with_the_last_socket_and_begins_anew_with_the_next(night: Night) -> None:
    watching = Sentry(night)
    held = [Held(number) for number in range(3)]
    watched = [watching.take(night, each, LIMIT) for each in held]
    for each in held[:2]:
        each.gone = True
    night.pass_time(5.0)
    assert [each.over for each in watched] == [True, True, False]
    working = [night.work is not None]
    held[2].gone = True
    night.pass_time(8.0)
    working.append(night.work is not None)
    assert working == [True, False]
    assert night.spawned == 1
    again = Held(7)
    watching.take(night, again, LIMIT)
    night.pass_time(20.0)
    assert night.spawned == 2
    assert again.looks >= 5


def test_a_socket_that_is_watched_already_stays_as_it_is(night: Night) -> None:
    watching = Sentry(night)
    first = watching.take(night, Held(1), LIMIT)
    assert watching.take(night, Held(1), 0.0) is first
    first.stop()
    assert watching.take(night, Held(1), 0.0) is not first


def test_a_stop_puts_everything_back(night: Night) -> None:
    watching = Sentry(night)
    held = Held()
    watched = watching.take(night, held, LIMIT)
    watched.set(awaiting=True)
    held.sample = replace(LIVE, heard=1.2)
    night.pass_time(3.0)
    watched.stop()
    watched.stop()
    assert held.trail == [LIMIT, HURRIED, 0.0, Keepalive()]
    looks = held.looks
    night.pass_time(10.0)
    assert watched.check() is watched.verdict
    assert held.looks == looks
    assert night.work is None


def test_where_the_system_tells_nothing_no_user_timeout_is_left_behind(night: Night) -> None:
    held = Held()
    watched = Sentry(night).take(night, held, LIMIT)
    held.sample = None
    night.pass_time(3.0)
    assert held.trail == [LIMIT, 0.0]
    assert watched.over
    assert watched.verdict is Liveness.ALIVE
    assert night.work is None


def test_where_no_thread_begins_no_user_timeout_is_left_behind(night: Night) -> None:
    watching = Sentry(night)
    held = Held()
    night.refuses = True
    with pytest.raises(RuntimeError, match="can't start"):
        watching.take(night, held, LIMIT)
    assert held.trail == [LIMIT, 0.0]
    night.refuses = False
    watching.take(night, Held(1), LIMIT)
    assert night.spawned == 1


def test_sockets_to_one_peer_share_what_was_learnt_of_it(night: Night) -> None:
    watching = Sentry(night)
    held = [Held(number) for number in range(3)]
    for each in held[:2]:
        each.address = "10.0.0.9:80"
    tolerances = [watching.take(night, each, LIMIT)._observer.watch._tolerance for each in held]
    assert tolerances[0] is tolerances[1]
    assert tolerances[0] is not tolerances[2]


def test_a_fault_with_one_socket_leaves_the_others_watched(
    night: Night, caplog: pytest.LogCaptureFixture
) -> None:
    watching = Sentry(night)
    faulty, sound = Held(1), Held(2)
    watched = [watching.take(night, each, LIMIT) for each in (faulty, sound)]
    faulty.fault = RuntimeError("ours")
    night.pass_time(10.0)
    assert [each.over for each in watched] == [True, False]
    assert (faulty.looks, faulty.trail) == (1, [LIMIT, 0.0])
    assert sound.looks == 5
    assert "watching 10.0.0.1:1 has failed" in caplog.text


def test_a_network_that_fails_is_told_and_the_next_socket_begins_anew(night: Night) -> None:
    watching = Sentry(night)
    watching.take(night, Held(1), LIMIT)
    assert night.work is not None
    with pytest.raises(ConnectionError):
        night.work.throw(ConnectionError("the wait has failed"))
    night.work = night.pending = None
    watching.take(night, Held(2), LIMIT)
    assert night.spawned == 2


def test_a_network_that_is_gone_is_not_kept_by_what_was_watched_on_it() -> None:
    network = Night()
    held = Held()
    watched = Sentry(network).take(network, held, LIMIT)
    network.close()
    del network
    gc.collect()
    assert watched.check() is Liveness.ALIVE
    watched.set(awaiting=True, abort=True)
    watched.stop()
    assert held.trail == [LIMIT, 0.0]


def test_after_a_fork_everything_is_watched_anew(night: Night) -> None:
    watching = Sentry(night)
    held = Held()
    watched = watching.take(night, held, LIMIT)
    watched._lock.acquire()  # by a thread that the child does not have
    night.close()
    night.work = night.pending = None
    watching.renew()
    night.pass_time(6.0)
    assert held.looks >= 2
    assert night.spawned == 2
    idle = Sentry(Night())
    idle.renew()


def test_every_network_has_one_sentry() -> None:
    one, other = Night(), Night()
    assert sentry._sentry(one) is sentry._sentry(one)
    assert sentry._sentry(one) is not sentry._sentry(other)
