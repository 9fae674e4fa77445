"""The pool: who gets which connection, and what it costs however many there are."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from outlast.http.connection import Connection
from outlast.http.pool import Pool
from outlast.http.tickets import PLACE, Ticket
from outlast.net.address import Address
from tests.http.pool_parts import (
    BILLS,
    ENDLESS,
    A,
    B,
    Bell,
    C,
    busy,
    connection,
    idle,
    make_pool,
    ticket,
    want,
)

# -- taking --------------------------------------------------------------------------------


def test_the_warmest_is_used_first() -> None:
    pool = make_pool()
    made = [connection(name=str(n)) for n in range(3)]
    for each in made:
        busy(pool, each)
    for moment, each in enumerate(made):
        assert pool.release(each, reusable=True, now=moment)
    assert [pool.take(want(A), 3.0)[0] for _ in range(4)] == [*reversed(made), PLACE]


def test_the_first_endpoint_counts_while_there_is_room() -> None:
    pool = make_pool(connections=2)
    other = idle(pool, connection(B))
    assert pool.take(want(A, B), 0.0) == (PLACE, [])
    assert pool.take(want(A, B), 0.0) == (other, [])  # all places are taken


def test_another_route_gives_way() -> None:
    pool = make_pool(connections=2)
    coldest = idle(pool, connection(A, BILLS), now=1.0)
    warmer = idle(pool, connection(B, BILLS), now=2.0)
    assert pool.take(want(A), 3.0) == (PLACE, [coldest])
    assert pool.take(want(A), 3.0) == (PLACE, [warmer])
    assert pool.take(want(A), 3.0) == (None, [])
    assert pool.counts() == {"places": 2, "idle": 0, "busy": 0, "waiting": 0}


def test_an_empty_order_takes_no_connection() -> None:
    pool = make_pool()
    idle(pool, connection())
    assert pool.take(want(), 0.0) == (PLACE, [])


def test_the_idle_expire_on_time() -> None:
    pool = make_pool(expiry=10.0)
    old, young = idle(pool, connection(), now=0.0), idle(pool, connection(), now=5.0)
    assert pool.take(want(B), 9.999) == (PLACE, [])
    assert pool.take(want(B), 10.0) == (PLACE, [old])
    assert pool.take(want(A), 14.999) == (young, [])


def test_a_call_may_refuse_the_stale() -> None:
    pool = make_pool()
    kept = idle(pool, connection(), now=0.0)
    assert pool.take(want(A, idle_expiry=5.0), 5.0) == (PLACE, [])
    assert pool.take(want(A, idle_expiry=5.0), 4.999) == (kept, [])
    assert pool.release(kept, reusable=True, now=5.0)  # the next ones need no look for the expired
    assert pool.take(want(A, idle_expiry=5.0), 10.0) == (PLACE, [])
    assert pool.take(want(A, idle_expiry=5.0), 9.999) == (kept, [])


def test_the_old_are_not_used_though_they_are_warm() -> None:
    pool = make_pool()
    young = idle(pool, connection(expires=9.0), now=1.0)
    old = idle(pool, connection(expires=5.0), now=2.0)
    assert pool.take(want(A), 5.0) == (young, [old])
    assert pool.counts() == {"places": 1, "idle": 0, "busy": 1, "waiting": 0}
    assert not pool.release(young, reusable=True, now=9.0)
    assert pool.counts()["places"] == 0


# -- waiting -------------------------------------------------------------------------------


def in_line(pool: Pool, standing: Ticket, *order: Address, now: float = 0.0) -> list[Connection]:
    asked = want(*order, route=standing.route)
    grant, dead = pool.take(asked, now)
    assert grant is None
    return [*dead, *pool.queue(standing, asked, now)]


def test_first_come_first_served() -> None:
    pool = make_pool(connections=1)
    shared = busy(pool, connection())
    line = [ticket(pool) for _ in range(5)]
    for each in line:
        in_line(pool, each, A)
    for number, each in enumerate(line):
        assert pool.release(shared, reusable=True, now=0.0)
        assert [other.grant is not None for other in line] == [number == n for n in range(5)]
        assert pool.collect(each, 0.0) is shared


def test_nobody_passes_those_in_line() -> None:
    """Not even whoever could use what those in line cannot."""
    pool = make_pool(connections=1)
    shared = busy(pool, connection(A, BILLS))
    first = ticket(pool)
    in_line(pool, first, A)
    assert pool.take(want(A, route=BILLS), 0.0) == (None, [])
    assert not pool.release(shared, reusable=True, now=0.0)  # of no use to the first in line
    assert pool.collect(first, 0.0) is PLACE


def test_an_endpoint_that_failed_is_refused() -> None:
    pool = make_pool(connections=1)
    shared = busy(pool, connection(A))
    wary = ticket(pool, refuse=frozenset({A}))
    in_line(pool, wary, B)
    assert not pool.release(shared, reusable=True, now=0.0)
    assert pool.collect(wary, 0.0) is PLACE
    pool.adopt(other := connection(B), 0.0)
    repeating = ticket(pool, refuse=None)  # wants a new connection, whatever there is
    in_line(pool, repeating)
    assert not pool.release(other, reusable=True, now=0.0)
    assert pool.collect(repeating, 0.0) is PLACE


def test_something_that_came_free_before_standing_in_line() -> None:
    """Between the look and the stand in line another thread gives back the last place."""
    pool = make_pool(connections=1)
    shared = busy(pool, connection())
    late = ticket(pool)
    assert pool.take(want(A), 0.0) == (None, [])
    assert pool.release(shared, reusable=True, now=0.0)
    assert pool.queue(late, want(A), 0.0) == []
    assert isinstance(late.waiter, Bell)
    assert late.waiter.rung == 1
    assert pool.collect(late, 0.0) is shared
    assert pool.counts()["waiting"] == 0


def test_whoever_leaves_gives_back_what_came_too_late() -> None:
    pool = make_pool(connections=1)
    shared = busy(pool, connection())
    gone, next_in_line = ticket(pool), ticket(pool)
    in_line(pool, gone, A)
    in_line(pool, next_in_line, A)
    pool.release(shared, reusable=True, now=0.0)
    assert gone.grant is shared
    assert pool.leave(gone, 0.0) == []
    assert pool.leave(next_in_line, 0.0) == []
    assert pool.counts() == {"places": 1, "idle": 1, "busy": 0, "waiting": 0}


def test_whoever_leaves_gives_back_a_place() -> None:
    pool = make_pool(connections=1)
    shared = busy(pool, connection())
    gone, next_in_line = ticket(pool), ticket(pool)
    in_line(pool, gone, A)
    in_line(pool, next_in_line, A)
    assert not pool.release(shared, reusable=False, now=0.0)
    assert gone.grant is PLACE
    assert pool.leave(gone, 0.0) == []
    assert next_in_line.grant is PLACE
    assert pool.leave(next_in_line, 0.0) == []
    assert pool.counts()["places"] == 0


def test_whoever_left_is_not_served() -> None:
    pool = make_pool(connections=1)
    shared = busy(pool, connection())
    line = [ticket(pool) for _ in range(3)]
    for each in line:
        in_line(pool, each, A)
    assert pool.leave(line[0], 0.0) == []
    assert pool.leave(line[1], 0.0) == []
    assert pool.counts()["waiting"] == 1
    pool.release(shared, reusable=True, now=0.0)
    assert [each.grant for each in line] == [None, None, shared]


# -- other ways out and in -----------------------------------------------------------------


def test_one_that_was_closed_while_idle_is_replaced() -> None:
    pool = make_pool(connections=2)
    first, second = idle(pool, connection()), connection()
    grant, _ = pool.take(want(B), 0.0)
    assert grant is PLACE
    pool.adopt(second, 0.0)
    pool.release(second, reusable=True, now=1.0)
    assert pool.take(want(A), 1.0) == (second, [])
    assert pool.replace(second, 1.0) == (first, [])
    assert pool.counts()["places"] == 1
    assert pool.replace(first, 1.0) == (PLACE, [])
    assert pool.counts() == {"places": 1, "idle": 0, "busy": 0, "waiting": 0}


def test_a_suspects_place_moves() -> None:
    pool = make_pool(connections=1)
    suspect = busy(pool, connection())
    assert pool.disown(suspect)
    assert not pool.disown(suspect)
    pool.adopt(second := connection(), 0.0)
    assert pool.counts() == {"places": 1, "idle": 0, "busy": 2, "waiting": 0}
    assert not pool.release(suspect, reusable=True, now=0.0)  # has no place to lie in
    assert pool.release(second, reusable=True, now=0.0)
    assert pool.counts() == {"places": 1, "idle": 1, "busy": 0, "waiting": 0}


def test_what_nobody_asked_for_is_kept_if_there_is_room() -> None:
    pool = make_pool(connections=2, keepalive=1)
    assert pool.offer(first := connection(), 0.0)
    assert not pool.offer(connection(), 0.0)  # one idle connection is enough
    assert pool.counts() == {"places": 1, "idle": 1, "busy": 0, "waiting": 0}
    assert pool.take(want(A), 0.0) == (first, [])
    assert pool.take(want(A), 0.0) == (PLACE, [])
    assert not pool.offer(connection(), 0.0)  # no place


def test_drained_connections_are_not_kept() -> None:
    pool = make_pool()
    lying, used = idle(pool, connection(B)), busy(pool, connection())
    assert pool.drain() == ([lying], [used])
    assert not pool.release(used, reusable=True, now=0.0)
    assert pool.counts() == {"places": 0, "idle": 0, "busy": 0, "waiting": 0}
    idle(pool, connection())  # and the pool may be used again
    assert pool.counts()["idle"] == 1


# -- cost ----------------------------------------------------------------------------------


def calls_of(work: Callable[[], None]) -> int:
    """How many functions, of Python and of C, are called during `work`."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.collect()
    gc.disable()  # what others have left behind may have finalizers, which would count
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def taking_and_releasing(pool: Pool) -> None:
    for moment in range(50):
        grant, dead = pool.take(want(A), float(moment))
        assert isinstance(grant, Connection)
        assert not dead
        pool.release(grant, reusable=True, now=float(moment))


def giving_way(pool: Pool) -> None:
    """All places are taken: a new one costs the coldest idle connection its own."""
    for _ in range(8):
        grant, dead = pool.take(want(C), 0.0)
        assert grant is PLACE
        assert len(dead) == 1
        pool.free_place(0.0)
        assert pool.offer(connection(B, BILLS), 0.0)


@pytest.mark.parametrize("work", [taking_and_releasing, giving_way])
@pytest.mark.parametrize("apart", [False, True], ids=["one endpoint", "an endpoint each"])
def test_the_cost_does_not_grow(work: Callable[[Pool], None], apart: bool) -> None:
    counts = []
    for size in (10, 10_000):
        pool = make_pool(connections=size + 1)
        for number in range(size):
            address = Address(2, (f"10.1.{number // 256}.{number % 256}", 80)) if apart else B
            idle(pool, connection(address, BILLS))
        idle(pool, connection(A), now=0.0)
        connection(B, BILLS)  # names of endpoints are kept, up to a number
        counts.append(calls_of(lambda pool=pool: work(pool)))  # type: ignore[misc]  # bound at once
    assert counts[0] == counts[1]


def test_the_cost_of_a_line_does_not_grow() -> None:
    counts = []
    for size in (10, 10_000):
        pool = make_pool(connections=1)
        shared = busy(pool, connection())
        line = [ticket(pool) for _ in range(size)]
        for each in line:
            in_line(pool, each, A)

        def work(pool: Pool = pool, line: list[Ticket] = line, shared: Connection = shared) -> None:
            pool.leave(line[5], 0.0)
            for each in line[:5]:
                pool.release(shared, reusable=True, now=0.0)
                assert pool.collect(each, 0.0) is shared
            late = ticket(pool)
            pool.queue(late, want(A), 0.0)
            pool.leave(late, 0.0)

        counts.append(calls_of(work))
    assert counts[0] == counts[1]


def test_nothing_is_used_under_the_lock() -> None:
    """Streams are never touched by a pool (see NoStream), waiters only without the lock."""
    pool = make_pool(connections=1, expiry=5.0)
    shared = busy(pool, connection())
    first, second = ticket(pool), ticket(pool)
    in_line(pool, first, A)
    in_line(pool, second, A)
    pool.release(shared, reusable=True, now=0.0)
    pool.leave(first, 0.0)
    pool.collect(second, 0.0)
    pool.release(shared, reusable=True, now=0.0)
    pool.take(want(A), ENDLESS)
    pool.free_place(0.0)
    bells = [each.waiter for each in (first, second)]
    assert [bell.rung for bell in bells if isinstance(bell, Bell)] == [1, 1]
