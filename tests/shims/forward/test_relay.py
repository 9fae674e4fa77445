"""The relay's decisions, as tables: no socket, no clock."""

from __future__ import annotations

import math

import pytest

from outlast.shims.forward.relay import (
    BULK,
    CLIENT,
    LAST_WORDS,
    READ,
    UPSTREAM,
    WRITE,
    Do,
    End,
    Relay,
)

SIDES = [CLIENT, UPSTREAM]


def ended(relay: Relay, side: int) -> None:
    """The end of a flow is read."""
    relay.readable(side)
    assert relay.next(side) is Do.COPY
    relay.copied(side, 0, full=False, now=0.0)


def end_of(relay: Relay) -> End | None:
    """As it is now: it may change by what is called next."""
    return relay.end


def stuck(relay: Relay, side: int, count: int | None = 5) -> None:
    """The reader of a flow takes no more."""
    relay.readable(side)
    relay.copied(side, count, full=True, now=0.0)


def test_a_new_relay_waits_for_both_and_for_ever() -> None:
    relay = Relay(7.0)
    assert [relay.wants(side) for side in SIDES] == [READ, READ]
    assert [relay.next(side) for side in SIDES] == [Do.REST, Do.REST]
    assert (relay.due, relay.end, relay.failed) == (math.inf, None, None)
    assert not relay.late(1e9)


@pytest.mark.parametrize("side", SIDES)
def test_what_has_arrived_is_copied_once_and_waited_for_again(side: int) -> None:
    relay = Relay(0.0)
    relay.readable(side)
    assert relay.next(side) is Do.COPY
    assert relay.next(1 - side) is Do.REST
    relay.copied(side, 10, full=False, now=1.0)
    assert relay.next(side) is Do.REST
    assert relay.wants(side) == READ
    assert (relay.total(side), relay.total(1 - side)) == (10, 0)


@pytest.mark.parametrize("side", SIDES)
def test_a_reader_that_is_slow_stops_the_reading_of_its_source_alone(side: int) -> None:
    relay = Relay(0.0)
    stuck(relay, side)
    assert relay.wants(side) == 0
    assert relay.wants(1 - side) == READ | WRITE
    relay.readable(side)  # told all the same
    assert relay.next(side) is Do.REST
    relay.writable(1 - side)
    assert relay.next(side) is Do.COPY
    relay.copied(side, None, full=False, now=0.0)
    assert [relay.wants(each) for each in SIDES] == [READ, READ]


def test_a_source_that_is_not_read_is_not_taken_for_ended() -> None:
    relay = Relay(0.0)
    stuck(relay, CLIENT, None)
    relay.writable(UPSTREAM)
    assert relay.next(CLIENT) is Do.REST
    assert relay.wants(CLIENT) == READ


# -- pipes ---------------------------------------------------------------------------------


def test_bulk_is_spliced_and_what_is_small_is_copied_again() -> None:
    relay = Relay(0.0)
    relay.readable(CLIENT)
    relay.copied(CLIENT, BULK, full=False, now=0.0)
    relay.readable(CLIENT)
    assert relay.next(CLIENT) is Do.SPLICE
    relay.filled(CLIENT, 2 * BULK)
    assert relay.next(CLIENT) is Do.POUR
    assert relay.total(CLIENT) == BULK
    relay.poured(CLIENT, 2 * BULK, 0.0)
    assert relay.total(CLIENT) == 3 * BULK
    relay.readable(CLIENT)
    assert relay.next(CLIENT) is Do.SPLICE
    relay.filled(CLIENT, 10)
    relay.poured(CLIENT, 10, 0.0)
    relay.readable(CLIENT)
    assert relay.next(CLIENT) is Do.COPY


@pytest.mark.parametrize(("count", "then"), [(None, Do.REST), (0, Do.SHUT)])
def test_a_pipe_that_finds_nothing(count: int | None, then: Do) -> None:
    relay = Relay(0.0)
    relay.readable(CLIENT)
    relay.copied(CLIENT, BULK, full=False, now=0.0)
    relay.readable(CLIENT)
    relay.filled(CLIENT, count)
    assert relay.next(CLIENT) is then


def filled(relay: Relay, side: int, count: int) -> None:
    """A pipe holds something."""
    relay.readable(side)
    relay.filled(side, count)


def test_what_a_pipe_holds_is_handed_over_before_anything_is_read() -> None:
    relay = Relay(0.0)
    filled(relay, CLIENT, 100)
    assert relay.wants(CLIENT) == 0
    relay.poured(CLIENT, 40, 0.0)
    assert relay.next(CLIENT) is Do.REST
    assert (relay.wants(CLIENT), relay.wants(UPSTREAM)) == (0, READ | WRITE)
    relay.writable(UPSTREAM)
    assert relay.next(CLIENT) is Do.POUR
    relay.poured(CLIENT, 60, 0.0)
    assert relay.wants(CLIENT) == READ


# -- ends ------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", SIDES)
def test_an_end_is_passed_on_and_the_other_direction_goes_on(side: int) -> None:
    relay = Relay(0.0)
    ended(relay, side)
    assert relay.wants(side) == 0
    assert relay.next(side) is Do.SHUT
    relay.passed_on(side)
    assert relay.next(side) is Do.REST
    assert end_of(relay) is None
    relay.readable(1 - side)
    assert relay.next(1 - side) is Do.COPY
    relay.copied(1 - side, 3, full=False, now=0.0)
    ended(relay, 1 - side)
    assert relay.next(1 - side) is Do.SHUT
    relay.passed_on(1 - side)
    assert relay.end is End.CLOSED
    assert [relay.next(each) for each in SIDES] == [Do.REST, Do.REST]
    assert [relay.wants(each) for each in SIDES] == [0, 0]


# -- failures --------------------------------------------------------------------------------


@pytest.mark.parametrize("side", SIDES)
def test_what_a_side_said_before_it_failed_is_handed_over(side: int) -> None:
    relay = Relay(0.0)
    relay.lost(side, 5.0)
    assert (relay.failed, relay.end, relay.due) == (side, None, 5.0 + LAST_WORDS)
    assert [relay.wants(each) for each in SIDES] == [0, 0]
    assert relay.next(1 - side) is Do.REST
    for _ in range(2):
        assert relay.next(side) is Do.COPY
        relay.copied(side, 10, full=False, now=5.0)
    relay.copied(side, None, full=False, now=5.0)
    assert relay.end is End.FAILED
    assert relay.total(side) == 20


def test_the_flow_to_a_side_that_failed_stops() -> None:
    relay = Relay(0.0)
    relay.readable(CLIENT)
    filled(relay, CLIENT, 5)
    relay.lost(UPSTREAM, 0.0)
    assert relay.next(CLIENT) is Do.REST


def test_last_words_wait_for_a_slow_reader_and_not_for_ever() -> None:
    relay = Relay(0.0)
    relay.lost(UPSTREAM, 5.0)
    relay.copied(UPSTREAM, 10, full=True, now=5.0)
    assert relay.wants(CLIENT) == WRITE
    relay.writable(CLIENT)
    relay.copied(UPSTREAM, None, full=True, now=5.0)
    assert end_of(relay) is None
    relay.writable(CLIENT)
    assert relay.next(UPSTREAM) is Do.COPY
    assert not relay.late(5.0 + LAST_WORDS - 0.01)
    assert relay.late(5.0 + LAST_WORDS)
    assert relay.end is End.FAILED
    assert relay.due == math.inf


def test_a_side_that_fails_after_its_end_ends_all_at_once() -> None:
    relay = Relay(0.0)
    ended(relay, UPSTREAM)
    relay.passed_on(UPSTREAM)
    relay.lost(UPSTREAM, 0.0)
    assert relay.end is End.FAILED


def test_a_pipe_of_a_side_that_failed_is_emptied_first() -> None:
    relay = Relay(0.0)
    filled(relay, UPSTREAM, 100)
    relay.poured(UPSTREAM, 50, 0.0)
    ended_flow = relay
    ended_flow.lost(UPSTREAM, 0.0)
    relay.writable(CLIENT)
    assert relay.next(UPSTREAM) is Do.POUR
    relay.poured(UPSTREAM, 50, 0.0)
    assert end_of(relay) is None
    assert relay.next(UPSTREAM) is Do.COPY
    relay.copied(UPSTREAM, 0, full=False, now=0.0)
    assert relay.end is End.FAILED


def test_the_end_of_a_side_that_failed_is_never_passed_on_as_orderly() -> None:
    relay = Relay(0.0)
    filled(relay, UPSTREAM, 100)
    relay.filled(UPSTREAM, 0)
    relay.poured(UPSTREAM, 50, 0.0)
    relay.lost(UPSTREAM, 0.0)
    relay.writable(CLIENT)
    relay.poured(UPSTREAM, 50, 0.0)
    assert relay.end is End.FAILED
    assert relay.next(UPSTREAM) is Do.REST


@pytest.mark.parametrize("second", SIDES)
def test_a_second_failure_ends_it(second: int) -> None:
    relay = Relay(0.0)
    relay.lost(CLIENT, 0.0)
    relay.lost(second, 0.0)
    assert relay.end is End.FAILED


def test_nothing_happens_after_the_end() -> None:
    relay = Relay(0.0)
    relay.cut()
    relay.lost(CLIENT, 0.0)
    relay.cut()
    assert (relay.end, relay.failed, relay.due) == (End.CUT, None, math.inf)
    relay.lost(UPSTREAM, 0.0)
    relay.cut()
    assert relay.end is End.CUT


# -- the idle limit ----------------------------------------------------------------------------


def test_a_byte_in_either_direction_keeps_it() -> None:
    relay = Relay(0.0, 10.0)
    assert relay.due == 10.0
    relay.copied(CLIENT, 1, full=False, now=4.0)
    assert relay.due == 14.0
    filled(relay, UPSTREAM, 9)
    relay.poured(UPSTREAM, 9, 6.0)
    assert relay.due == 16.0
    relay.poured(UPSTREAM, 0, 9.0)
    relay.copied(CLIENT, None, full=False, now=9.0)
    assert relay.due == 16.0
    assert not relay.late(15.9)
    assert relay.late(16.0)
    assert relay.end is End.IDLE
