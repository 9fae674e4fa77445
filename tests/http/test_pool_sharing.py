"""The pool with connections that many share (HTTP/2), against a model, by random histories.

What must hold whatever happens: nobody waits beside a connection that would take one more, nobody
waits for a dial that is not under way, places add up, and no connection has more exchanges than
its peer allows.
"""

from __future__ import annotations

from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlast.http.connection import Connection
from outlast.http.message import Route
from outlast.http.tickets import PLACE, Grant, Ticket, Want
from outlast.net.address import Address
from tests.examples import examples
from tests.http.pool_parts import BILLS, ENDLESS, ORDERS, A, B, Bell, connection, make_pool

routes = st.sampled_from([ORDERS, ORDERS, BILLS])
kinds = st.sampled_from([2, 2, 3, 1, 0])  # exchanges that the peer allows; 0: it speaks HTTP/1.1


class Session:
    """As much of an HTTP/2 session as the pool looks at."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.usable = True


class SharingMachine(RuleBasedStateMachine):
    """Callers look, wait, dial, share, finish and give up."""

    @initialize(connections=st.sampled_from([1, 1, 2, 3, ENDLESS]))
    def begin(self, connections: float) -> None:
        self.most = connections
        self.pool = make_pool(connections)
        self.now = 0.0
        self.dials: list[Route] = []  # places in callers' hands
        self.leases: list[Connection] = []  # once for each exchange under way
        self.waiting: list[Ticket] = []
        self.served: list[Ticket] = []
        self.closed: set[Connection] = set()

    # -- bookkeeping -----------------------------------------------------------------------

    def rang(self, ticket: Ticket) -> None:
        self.waiting.remove(ticket)
        self.served.append(ticket)

    def take_up(self, grant: Connection | Grant, route: Route) -> None:
        if isinstance(grant, Connection):
            assert grant.route == route
            assert grant not in self.closed
            self.leases.append(grant)
        else:
            self.dials.append(route)

    def close(self, dead: list[Connection]) -> None:
        for each in dead:
            assert each not in self.closed, "closed twice"
            assert each not in self.leases, "closed while in use"
            self.closed.add(each)

    # -- what callers do -------------------------------------------------------------------

    @rule(route=routes, order=st.sampled_from([(A, B), (B, A), (A,), ()]))
    def look(self, route: Route, order: tuple[Address, ...]) -> None:
        """A first attempt, one that has an endpoint left to try, or one that has none. Only the
        orders' server may speak HTTP/2."""
        multiplexed = route is ORDERS
        refuse = frozenset({A, B}) - set(order) if order else None
        asked = Want(route, order, ENDLESS, multiplexed)
        grant, dead = self.pool.take(asked, self.now)
        self.close(dead)
        if grant is not None:
            self.take_up(grant, route)
            return
        ticket = Ticket(route, refuse, Bell(self.pool), multiplexed)
        ticket.waiter = Bell(self.pool, lambda: self.rang(ticket))
        self.waiting.append(ticket)
        self.close(self.pool.queue(ticket, asked, self.now))

    @precondition(lambda self: len(self.leases) + len(self.dials) > 2)
    @rule(route=routes)
    def look_in_a_crowd(self, route: Route) -> None:
        self.look(route, (A, B))

    @precondition(lambda self: self.served)
    @rule(data=st.data(), goes_on=st.sampled_from([True, True, False]))
    def go_on(self, data: st.DataObject, goes_on: bool) -> None:
        ticket = data.draw(st.sampled_from(self.served), label="of those served")
        self.served.remove(ticket)
        if goes_on:
            grant = self.pool.collect(ticket, self.now)
            assert grant is not None
            self.take_up(grant, ticket.route)
        else:
            self.close(self.pool.leave(ticket, self.now))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), cancelled=st.booleans())
    def give_up(self, data: st.DataObject, cancelled: bool) -> None:
        ticket = data.draw(st.sampled_from(self.waiting), label="of those who wait")
        self.waiting.remove(ticket)
        if cancelled:
            assert self.pool.leave(ticket, self.now) == []
        else:  # its time has come
            assert self.pool.collect(ticket, self.now) is None

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def hurry(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(self.waiting), label="of those who wait")
        self.close(self.pool.hurry(ticket))

    @precondition(lambda self: self.dials)
    @rule(data=st.data(), capacity=kinds, address=st.sampled_from([A, A, B]))
    def win(self, data: st.DataObject, capacity: int, address: Address) -> None:
        route = data.draw(st.sampled_from(self.dials), label="of the dials")
        self.dials.remove(route)
        made = connection(address, route, expires=self.now + 20.0)
        if capacity and route is ORDERS:
            made.session = cast(Any, Session(capacity))
        self.leases.append(made)
        self.close(self.pool.adopt(made, self.now))

    @precondition(lambda self: self.dials)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        route = data.draw(st.sampled_from(self.dials), label="of the dials")
        self.dials.remove(route)
        self.pool.free_place(self.now, route)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), reusable=st.sampled_from([True, True, True, False]))
    def finish(self, data: st.DataObject, reusable: bool) -> None:
        each = data.draw(st.sampled_from(self.leases), label="of the exchanges")
        self.leases.remove(each)
        last = each not in self.leases
        if not reusable and each.session is not None:
            each.session.usable = False  # type: ignore[misc]  # a stand-in
        if not self.pool.release(each, reusable=reusable, now=self.now) and last:
            if each not in [ticket.grant for ticket in self.served]:
                self.close([each])

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def find_closed(self, data: st.DataObject) -> None:
        """Taken while it was idle, it proves to be closed; others may share it already."""
        counted = [each for each in self.leases if each.counted]
        if not counted:
            return
        each = data.draw(st.sampled_from(counted), label="of the exchanges")
        if each.session is not None:
            each.session.usable = False  # type: ignore[misc]  # a stand-in
        self.leases.remove(each)
        shared = each.leases > 1
        grant, dead = self.pool.replace(each, self.now)
        assert (grant is None) == shared
        self.close(dead)
        if grant is not None:
            self.close([each])
            self.take_up(grant, each.route)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def suspect(self, data: st.DataObject) -> None:
        each = data.draw(st.sampled_from(self.leases), label="of the exchanges")
        if self.pool.disown(each):
            self.dials.append(each.route)

    @precondition(lambda self: any(each.session is not None for each in self.leases))
    @rule(data=st.data(), capacity=st.sampled_from([1, 2, 3, 5]))
    def allow(self, data: st.DataObject, capacity: int) -> None:
        """A server says anew how many exchanges it takes, never fewer than are under way."""
        shared = [each for each in self.leases if each.session is not None]
        each = data.draw(st.sampled_from(shared), label="of the shared connections")
        cast(Any, each.session).capacity = max(capacity, each.leases)
        self.close(self.pool.serve_line(self.now))

    @rule(seconds=st.sampled_from([0.1, 1.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    # -- what always holds -----------------------------------------------------------------

    @invariant()
    def places_add_up(self) -> None:
        counts = self.pool.counts()
        granted = [each.grant for each in self.served]
        live = {each for each in [*self.leases, *granted] if isinstance(each, Connection)}
        counted = sum(each.counted for each in live)
        dialling = len(self.dials) + granted.count(PLACE)
        assert counts["places"] == counts["idle"] + counted + dialling <= self.most
        assert counts["busy"] == len(live)
        assert counts["waiting"] == len(self.waiting)

    @invariant()
    def nobody_shares_too_much(self) -> None:
        for each in set(self.leases):
            held = sum(ticket.grant is each for ticket in self.served)
            exchanges = self.leases.count(each) + held
            assert exchanges == each.leases
            assert exchanges <= (1 if each.session is None else max(1, each.session.capacity))

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """Whoever is first in line could not be served by anything there is."""
        dialling = {*self.dials, *(each.route for each in self.served if each.grant is PLACE)}
        in_line = list(self.pool._queue)
        behind_a_dial = [each for each in self.waiting if each not in in_line]
        for ticket in behind_a_dial:
            assert ticket.route in dialling, "waits for a dial that is not under way"
        if in_line:
            assert self.pool.counts()["places"] == self.most
            assert self.pool.counts()["idle"] == 0
            for each in set(self.leases):
                assert not (in_line[0].takes(each) and each.shares(self.now)), "could share"


def test_those_behind_a_dial_wait_for_one_more_if_they_do_not_all_fit() -> None:
    """Ten callers, three exchanges to a connection: the second dial begins when the first is won,
    and the others wait for it."""
    pool = make_pool()
    asked = Want(ORDERS, (A,), ENDLESS, True)
    assert pool.take(asked, 0.0) == (PLACE, [])
    line = [Ticket(ORDERS, frozenset(), Bell(pool), True) for _ in range(9)]
    for ticket in line:
        assert pool.take(asked, 0.0) == (None, [])
        assert pool.queue(ticket, asked, 0.0) == []
    made = connection()
    made.session = cast(Any, Session(3))
    assert pool.adopt(made, 0.0) == []
    assert [ticket.grant for ticket in line] == [made, made, PLACE, *[None] * 6]
    assert pool.counts() == {"places": 2, "idle": 0, "busy": 1, "waiting": 6}
    pool.free_place(0.0, ORDERS)  # that dial fails: the next takes its place
    assert [ticket.grant for ticket in line[3:]] == [PLACE, *[None] * 5]


def test_one_at_a_time_of_those_behind_a_dial_dials_too() -> None:
    """When it has lasted for long; whichever is won first serves all."""
    pool = make_pool(connections=3)
    asked = Want(ORDERS, (A,), ENDLESS, True)
    assert pool.take(asked, 0.0)[0] is PLACE
    line = [Ticket(ORDERS, frozenset(), Bell(pool), True) for _ in range(4)]
    for ticket in line:
        pool.queue(ticket, asked, 0.0)
    for ticket in reversed(line):
        assert pool.hurry(ticket) == []
    assert [ticket.grant for ticket in line] == [PLACE, None, None, None]
    for ticket in reversed(line):
        pool.hurry(ticket)
        pool.hurry(ticket)
    assert [ticket.grant for ticket in line] == [PLACE, PLACE, None, None]
    pool.hurry(line[2])
    assert line[2].grant is None, "there is no place left"
    made = connection()
    made.session = cast(Any, Session(9))
    pool.adopt(made, 3.0)
    assert [ticket.grant for ticket in line[2:]] == [made, made]


def test_the_end_of_one_exchange_makes_room_for_another() -> None:
    pool = make_pool(connections=1)
    asked = Want(ORDERS, (A,), ENDLESS, True)
    assert pool.take(asked, 0.0)[0] is PLACE
    made = connection()
    made.session = cast(Any, Session(2))
    pool.adopt(made, 0.0)
    assert pool.take(asked, 0.0)[0] is made
    ticket = Ticket(ORDERS, frozenset(), Bell(pool), True)
    assert pool.take(asked, 0.0)[0] is None
    pool.queue(ticket, asked, 0.0)
    assert pool.release(made, reusable=True, now=0.0)
    assert ticket.grant is made


def test_a_closed_one_that_others_share_already_is_theirs() -> None:
    """Two callers took it while it was idle; the first finds it closed, the second is using it."""
    pool = make_pool()
    asked = Want(ORDERS, (A,), ENDLESS, True)
    assert pool.take(asked, 0.0)[0] is PLACE
    made = connection()
    made.session = cast(Any, Session(3))
    pool.adopt(made, 0.0)
    assert pool.release(made, reusable=True, now=0.0)
    assert pool.take(asked, 0.0) == (made, [])
    assert pool.take(asked, 0.0) == (made, [])
    assert pool.replace(made, 0.0) == (None, [])
    assert pool.counts() == {"places": 1, "idle": 0, "busy": 1, "waiting": 0}
    assert pool.replace(made, 0.0) == (PLACE, [])  # the second has found out too


def test_a_server_that_takes_more_makes_room() -> None:
    pool = make_pool(connections=1)
    asked = Want(ORDERS, (A,), ENDLESS, True)
    assert pool.take(asked, 0.0)[0] is PLACE
    made, session = connection(), Session(1)
    made.session = cast(Any, session)
    pool.adopt(made, 0.0)
    line = [Ticket(ORDERS, frozenset(), Bell(pool), True) for _ in range(3)]
    for ticket in line:
        assert pool.take(asked, 0.0)[0] is None
        pool.queue(ticket, asked, 0.0)
    session.capacity = 3
    assert pool.serve_line(0.0) == []
    assert [ticket.grant for ticket in line] == [made, made, None]


def test_the_next_in_line_shares_when_the_first_has_got_its_place() -> None:
    """It stood behind somebody whom the shared connection could not serve."""
    pool = make_pool(connections=2)
    orders, bills = Want(ORDERS, (A,), ENDLESS, True), Want(BILLS, (A,))
    assert pool.take(orders, 0.0)[0] is PLACE
    made = connection()
    made.session = cast(Any, Session(3))
    pool.adopt(made, 0.0)
    assert pool.take(bills, 0.0)[0] is PLACE
    first = Ticket(BILLS, frozenset(), Bell(pool))
    second, wary = (
        Ticket(ORDERS, each, Bell(pool), True) for each in (frozenset(), frozenset({A}))
    )
    for ticket, asked in ((first, bills), (second, orders), (wary, orders)):
        assert pool.take(asked, 0.0)[0] is None
        pool.queue(ticket, asked, 0.0)
        assert ticket.grant is None
    pool.free_place(0.0, BILLS)
    assert (first.grant, second.grant, wary.grant) == (PLACE, made, None)


SharingMachine.TestCase.settings = settings(max_examples=examples(250), stateful_step_count=80)
TestSharingMachine = SharingMachine.TestCase
