"""One look: a sample, a verdict, the question for our own link, and what is set on the socket."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outlast.core.liveness import CLOSED, Awaits, Liveness, Sample, Watch
from outlast.net.observe import Observer
from outlast.net.options import Keepalive

ALIVE, QUIET, SUSPECT, DEAD = Liveness
PLANNED = Keepalive(5, 1, 6)
HURRIED = Keepalive(1, 1, 6)
SLOW = Sample(unacked=0, acked=100, window=64_000, rtt=0.001, backoff=0, heard=0.2)
SILENT = replace(SLOW, heard=3.1, probes=3)


class Connection:
    """See `Observed`; writes down what is asked and set."""

    def __init__(self, keepalive: Keepalive | None = PLANNED) -> None:
        self.sample: Sample | None = SLOW
        self.link = True
        self.keepalive = keepalive
        self.trail: list[object] = []

    def state(self) -> Sample | None:
        return self.sample

    def linked(self) -> bool:
        self.trail.append("link?")
        return self.link

    def set_keepalive(self, keepalive: Keepalive) -> None:
        self.trail.append(keepalive)

    def limit(self, seconds: float) -> None:
        if seconds != 11.0:
            self.trail.append(seconds)


def observer(connection: Connection) -> Observer:
    watch = Watch(0.0, acked=0, user_timeout=11.0, dead_after=11.0, keepalive=True)
    watch.sent(0.0)
    watch.expect(Awaits.RESPONSE, 0.0)
    return Observer(connection, watch, connection.limit)


def look(made: Observer, sample: Sample | None, now: float) -> Liveness:
    """A look that comes on time."""
    connection = made._observed
    assert isinstance(connection, Connection)
    connection.sample = sample
    made.watch.next_look = now
    return made.look(now)


def test_a_quick_reply_costs_one_sample() -> None:
    connection = Connection()
    assert look(observer(connection), SLOW, 0.1) is ALIVE
    assert connection.trail == []


def test_a_dead_peer_is_suspect_if_our_own_link_is_up() -> None:
    connection = Connection()
    assert look(observer(connection), SILENT, 3.2) is SUSPECT
    assert connection.trail == ["link?", HURRIED]


def test_behind_a_pulled_cable_nobody_is_suspect_nor_dead() -> None:
    connection = Connection()
    connection.link = False
    made = observer(connection)
    for now in range(4, 40):
        verdict = look(made, replace(SILENT, heard=float(now), probes=now - 1), now)
        assert verdict is QUIET, now
    assert connection.trail.count("link?") == 18, "asked again with every second probe"
    connection.link = True
    assert look(made, replace(SILENT, heard=41.0, probes=41), 41.0) is QUIET, "up since when?"
    assert look(made, replace(SILENT, heard=42.0, probes=42), 42.0) is QUIET
    assert look(made, replace(SILENT, heard=43.0, probes=43), 43.0) is SUSPECT
    assert look(made, replace(SILENT, heard=54.0, probes=54), 54.0) is DEAD


def test_what_was_sent_again_just_before_the_link_came_back_tells_nothing() -> None:
    """The kernel repeats every two seconds by then: the next repeat is the first that counts."""
    connection = Connection()
    connection.link = False
    made = observer(connection)
    lost = replace(SLOW, unacked=1, heard=4.0, backoff=4, sent=1.9)
    assert look(made, lost, 4.0) is QUIET
    connection.link = True
    again = replace(lost, backoff=5, sent=0.4)
    for now in (4.5, 5.0, 5.5):
        connection.sample = again
        made.watch.next_look = now
        assert made.look(now, alternative=True) is QUIET, now
    assert look(made, replace(again, backoff=6, sent=0.1), 6.5) is SUSPECT


def test_a_connection_that_has_ended_is_dead_whatever_our_link_says() -> None:
    connection = Connection()
    connection.link = False
    assert look(observer(connection), replace(SLOW, state=CLOSED), 0.1) is DEAD
    assert connection.trail == []


@pytest.mark.parametrize("end", ["end", "expect"])
def test_keepalive_is_hurried_once_and_put_back_once(end: str) -> None:
    connection = Connection()
    made = observer(connection)
    for now in (1.2, 3.2, 5.2):
        look(made, replace(SLOW, heard=1.0), now)
    assert connection.trail == [HURRIED]
    if end == "end":
        made.end(6.0)
        made.end(7.0)
    else:
        made.expect(Awaits.RESPONSE, 6.0)
        made.expect(Awaits.ROOM, 6.0)
    assert connection.trail == [HURRIED, PLANNED]


def test_keepalive_of_the_callers_own_is_left_alone() -> None:
    connection = Connection(keepalive=None)
    made = observer(connection)
    for now in (1.2, 9.2):
        look(made, replace(SLOW, heard=now), now)
        assert made.watch.next_look >= now + 1.0, "no probes come that were worth a look"
    made.end(10.0)
    assert connection.trail == []


def test_the_user_timeout_is_lifted_behind_a_closed_window() -> None:
    connection = Connection()
    made = observer(connection)
    look(made, replace(SLOW, window=0), 1.0)
    look(made, SLOW, 2.0)
    assert connection.trail == [0.0]


def test_where_nothing_is_told_nothing_is_done() -> None:
    connection = Connection()
    assert look(observer(connection), None, 1.0) is ALIVE
    assert connection.trail == []
