"""The pool under threads: nobody is left in line, no place is lost."""

from __future__ import annotations

import threading

from outlast.http.connection import Connection
from outlast.http.pool import Pool
from outlast.http.tickets import PLACE, Grant, Ticket, Want
from outlast.net.kernel import kernel
from outlast.net.seam import WAKE, Wait
from tests.http.pool_parts import (
    BILLS,
    ORDERS,
    A,
    connection,
    make_pool,
    want,
)


class Crowd:
    """Threads that take, use for a moment, and give back; some give up early, or are impatient."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.network = kernel()
        self.lock = threading.Lock()
        self.inside = 0
        self.most = 0
        self.failures: list[BaseException] = []

    def work(self, first: int) -> None:
        try:
            for number in range(first, first + 300):
                self.call(number)
        except BaseException as error:
            self.failures.append(error)
            raise

    def call(self, number: int) -> None:
        route = (ORDERS, BILLS)[number % 2]
        asked = want(A, route=route)
        grant, _ = self.pool.take(asked, self.network.now())
        if grant is None:
            grant = self.wait(asked, number)
        if grant is None:
            return
        used = grant if isinstance(grant, Connection) else connection(A, route)
        if grant is PLACE:
            self.pool.adopt(used, self.network.now())
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        with self.lock:
            self.inside -= 1
        self.pool.release(used, reusable=number % 3 > 0, now=self.network.now())

    def wait(self, asked: Want, number: int) -> Connection | Grant | None:
        impatient, unsteady = number % 7 == 0, number % 5 == 0
        standing = Ticket(asked.route, frozenset(), self.network.waiter())
        self.pool.queue(standing, asked, self.network.now())
        until = self.network.now() + (0.0 if impatient else 20.0)
        while standing.grant is None and self.network.now() < until:
            self.network.wait(Wait(((standing.waiter, WAKE),), until))
        if unsteady:
            self.pool.leave(standing, self.network.now())
            return None
        grant = self.pool.collect(standing, self.network.now())
        assert grant is not None or impatient, "left in line"
        return grant


def test_threads_that_take_and_give_back() -> None:
    """Nobody is left in line, no place is lost; at no time are there more than allowed."""
    pool = make_pool(connections=3, keepalive=2)
    crowd = Crowd(pool)
    threads = [threading.Thread(target=crowd.work, args=(n * 31,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
        assert not thread.is_alive()
    assert crowd.failures == []
    assert crowd.most <= 3
    counts = pool.counts()
    assert (counts["busy"], counts["waiting"]) == (0, 0)
    assert counts["places"] == counts["idle"] <= 2
    idle_now, _ = pool.drain()
    assert len(idle_now) == counts["idle"]
    assert pool.counts()["places"] == 0
