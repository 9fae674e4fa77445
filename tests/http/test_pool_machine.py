"""The pool against a model, by random histories.

The model keeps what the pool promises: every connection is in exactly one state (idle, granted to
somebody in line, in use, closed), places add up, the line is served in order. A look at the pool
and the stand in line are two steps, so that whatever may happen between them does.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlast.http.connection import Connection
from outlast.http.tickets import PLACE, Grant, Ticket, Want
from outlast.net.address import Address
from tests.examples import examples
from tests.http.pool_parts import BILLS, ENDLESS, ORDERS, A, B, Bell, connection, make_pool

EXPIRY = 10.0
# Few of everything, and one of each often, so that things meet.
ADDRESSES = [A, A, A, B]
wants = st.builds(
    Want,
    st.sampled_from([ORDERS, ORDERS, ORDERS, BILLS]),
    st.sampled_from([(A,), (A,), (A, B), (B, A), ()]),
    st.sampled_from([ENDLESS, ENDLESS, EXPIRY, 1.0]),
)
wary = st.sampled_from([frozenset(), frozenset(), None, frozenset({A})])
lives = st.sampled_from([3.0, 12.0, 40.0, 40.0])


class PoolMachine(RuleBasedStateMachine):
    """Callers take, wait, give back, give up; time passes."""

    @initialize(
        connections=st.sampled_from([3, 2, 1, ENDLESS]),
        keepalive=st.sampled_from([ENDLESS, 2, 1, 0]),
    )
    def begin(self, connections: float, keepalive: float) -> None:
        self.most, self.most_idle = connections, keepalive
        self.pool = make_pool(connections, keepalive, EXPIRY)
        self.now = 0.0
        self.idle: list[Connection] = []  # the coldest first
        self.busy: set[Connection] = set()
        self.closed: set[Connection] = set()
        self.loose = 0  # places in callers' hands
        self.held: list[Connection | Grant] = []  # in callers' hands
        self.looked: list[Want] = []  # found nothing, and will stand in line
        self.line: list[Ticket] = []
        self.served: list[Ticket] = []  # granted, not collected yet

    # -- bookkeeping -----------------------------------------------------------------------

    def new(self, address: Address, want: Want, life: float) -> Connection:
        return connection(address, want.route, expires=self.now + life)

    def close(self, dead: list[Connection]) -> None:
        for each in dead:
            assert each not in self.closed, "closed twice"
            self.closed.add(each)
            if each in self.idle:
                self.idle.remove(each)
            self.busy.discard(each)

    def rang(self, ticket: Ticket) -> None:
        """A caller in line has been served: it was the first, and what it got is right."""
        assert ticket is self.line.pop(0), "out of turn"
        self.served.append(ticket)
        assert ticket.grant is not None

    def expected(self, want: Want) -> Connection | None:
        """The idle connection that `want` should be given."""
        full = self.taken() >= self.most
        for address in want.order if full else want.order[:1]:
            fit = [
                each
                for each in self.idle
                if (each.route, each.address) == (want.route, address)
                and each.idle_since > self.now - min(want.idle_expiry, EXPIRY)
                and each.expires > self.now
            ]
            if fit:
                return fit[-1]
        return None

    def taken(self) -> int:
        """Places that are gone, as the model counts them."""
        lying = [each for each in self.idle if each.idle_since > self.now - EXPIRY]
        counted = [each for each in self.busy if each.counted]
        granted = [each for each in self.served if each.grant is PLACE]
        return self.loose + len(lying) + len(counted) + len(granted)

    def hand(self, grant: Connection | Grant) -> None:
        """A caller has got something: a connection that is in use now, or a place."""
        if isinstance(grant, Connection):
            if grant in self.idle:
                self.idle.remove(grant)
            assert grant not in self.closed
            self.busy.add(grant)
        else:
            self.loose += 1
        self.held.append(grant)

    def pick(self, data: st.DataObject) -> Connection:
        """One of the connections that callers hold, and it is theirs no more."""
        chosen = data.draw(st.sampled_from(self.connections()), label="of those in use")
        self.held.remove(chosen)
        return chosen

    def connections(self) -> list[Connection]:
        return [each for each in self.held if isinstance(each, Connection)]

    def settled(self, each: Connection, *, kept: bool) -> None:
        """A connection was given back: it lies idle, or somebody in line has it, or it is gone."""
        if not kept:
            self.close([each])
        elif not any(ticket.grant is each for ticket in self.served):
            self.busy.discard(each)
            self.idle.append(each)

    # -- what callers do -------------------------------------------------------------------

    @rule(want=wants, patient=st.booleans(), wary=wary)
    def look(self, want: Want, patient: bool, wary: frozenset[Address] | None) -> None:
        """Found nothing: the caller stands in line, now or later. Else it uses what it got."""
        best = self.expected(want)
        grant, dead = self.pool.take(want, self.now)
        self.close(dead)
        fit = [d for d in dead if d.idle_since > self.now - EXPIRY and d.expires > self.now]
        if self.line:
            assert grant is None
        elif best is not None:
            assert grant is best
        elif grant is None:
            assert self.taken() == self.most
            assert not self.idle
        else:
            assert grant is PLACE
            assert self.taken() < self.most
            assert len(fit) <= 1  # gave way, though it was as good as any
            assert all(fit[0].idle_since <= each.idle_since for each in self.idle if fit)
        if grant is not None:
            self.hand(grant)
        elif patient:
            self.stand_in_line(want, wary)
        else:
            self.looked.append(want)

    @precondition(lambda self: self.looked)
    @rule(wary=wary)
    def stand_late(self, wary: frozenset[Address] | None) -> None:
        self.stand_in_line(self.looked.pop(0), wary)

    def stand_in_line(self, want: Want, wary: frozenset[Address] | None) -> None:
        ticket = Ticket(want.route, wary, Bell(self.pool))
        ticket.waiter = Bell(self.pool, lambda: self.rang(ticket))
        self.line.append(ticket)
        best = self.expected(want)
        ahead = len(self.line) > 1
        dead = self.pool.queue(ticket, want, self.now)
        if not ahead and best is not None:
            assert ticket.grant is best
            self.idle.remove(best)
            self.busy.add(best)
        self.close(dead)

    @precondition(lambda self: self.served or self.line)
    @rule(data=st.data(), stays=st.booleans())
    def end_of_wait(self, data: st.DataObject, stays: bool) -> None:
        """Whoever stands in line goes on with what it got, or gives up, served or not."""
        ticket = data.draw(st.sampled_from([*self.served, *self.line]), label="of those in line")
        grant = ticket.grant
        if ticket in self.served:
            self.served.remove(ticket)
        else:
            self.line.remove(ticket)
        if stays:
            assert self.pool.collect(ticket, self.now) is grant
            if grant is not None:
                self.hand(grant)
            return
        dead = self.pool.leave(ticket, self.now)
        assert ticket.grant is None
        if isinstance(grant, Connection):
            assert grant in self.busy
            assert dead in ([], [grant])
            self.settled(grant, kept=not dead)
        else:
            assert dead == []

    @precondition(lambda self: PLACE in self.held)
    @rule(address=st.sampled_from(ADDRESSES), want=wants, life=lives, then=st.booleans())
    def adopt(self, address: Address, want: Want, life: float, then: bool) -> None:
        """A dial has won; maybe its request is already over."""
        self.held.remove(PLACE)
        self.loose -= 1
        made = self.new(address, want, life)
        self.pool.adopt(made, self.now)
        self.busy.add(made)
        if then:
            self.settled(made, kept=self.pool.release(made, reusable=True, now=self.now))
        else:
            self.held.append(made)

    @precondition(lambda self: PLACE in self.held)
    @rule(seldom=st.integers(0, 3))
    def free_place(self, seldom: int) -> None:
        if seldom:
            return
        self.held.remove(PLACE)
        self.loose -= 1
        self.pool.free_place(self.now)

    @precondition(lambda self: self.connections())
    @rule(data=st.data(), reusable=st.sampled_from([True, True, False]))
    def release(self, data: st.DataObject, reusable: bool) -> None:
        each = self.pick(data)
        kept = self.pool.release(each, reusable=reusable, now=self.now)
        assert not kept or (reusable and each.counted and self.now < each.expires)
        self.settled(each, kept=kept)

    @precondition(lambda self: any(each.counted for each in self.connections()))
    @rule(data=st.data())
    def find_closed(self, data: st.DataObject) -> None:
        each = self.pick(data)
        if not each.counted:
            self.held.append(each)
            return
        grant, dead = self.pool.replace(each, self.now)
        self.close([each, *dead])
        assert grant is not None, "nobody shares these"
        if isinstance(grant, Connection):
            assert (grant.route, grant.address) == (each.route, each.address)
            assert self.now < grant.expires
        self.hand(grant)

    @precondition(lambda self: self.connections())
    @rule(data=st.data(), seldom=st.integers(0, 2))
    def suspect(self, data: st.DataObject, seldom: int) -> None:
        if seldom:
            return
        each = self.pick(data)
        counted = each.counted
        assert self.pool.disown(each) is counted
        self.held.append(each)
        if counted:
            self.hand(PLACE)

    @precondition(lambda self: self.connections())
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        """A suspect whose place is for those in line, if there are any."""
        each = self.pick(data)
        counted, waiting = each.counted, len(self.line)
        self.pool.evict(each)
        self.held.append(each)
        assert each.counted is (counted and not waiting)
        assert len(self.line) == waiting - (counted and waiting > 0)

    @rule(address=st.sampled_from(ADDRESSES), want=wants, life=lives, seldom=st.integers(0, 2))
    def offer(self, address: Address, want: Want, life: float, seldom: int) -> None:
        if seldom:
            return
        made = self.new(address, want, life)
        room = self.taken() < self.most and len(self.idle) < self.most_idle
        kept = self.pool.offer(made, self.now)
        assert not kept or room
        if kept:
            self.idle.append(made)
        else:
            self.closed.add(made)

    @precondition(lambda self: self.idle and self.busy)
    @rule(seldom=st.integers(0, 4))
    def drain(self, seldom: int) -> None:
        if seldom:
            return
        idle, busy = self.pool.drain()
        assert idle == self.idle
        assert set(busy) == self.busy
        self.close(idle)

    @rule(seconds=st.sampled_from([0.1, 0.1, 0.5, 1.0, 4.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    # -- what always holds -----------------------------------------------------------------

    @invariant()
    def books_agree(self) -> None:
        counts = self.pool.counts()
        counted = sum(each.counted for each in self.busy)
        granted = sum(each.grant is PLACE for each in self.served)
        assert counts["idle"] == len(self.idle) <= self.most_idle
        assert counts["busy"] == len(self.busy)
        assert counts["waiting"] == len(self.line)
        assert counts["places"] == self.loose + len(self.idle) + counted + granted
        assert 0 <= counts["places"] <= self.most

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        if self.line:
            assert self.pool.counts()["places"] == self.most
            assert not self.idle

    @invariant()
    def endpoints_hold_what_is_in_use(self) -> None:
        holding = Counter(each.address for each in self.busy if each.counted)
        assert {each: self.pool.in_use.held(each) for each in ADDRESSES} == {
            each: holding[each] for each in ADDRESSES
        }
        assert all(self.pool.in_use._held.values())

    @invariant()
    def states_do_not_overlap(self) -> None:
        pool = self.pool
        books, latest = pool._idle, pool._idle._latest  # to go through them would file it
        assert [*books._by_age, *([latest] if latest else [])] == self.idle
        assert books.count == len(self.idle)
        assert set(pool.in_use.busy) == self.busy
        assert not self.busy & set(self.idle)
        assert not self.closed & (self.busy | set(self.idle))
        stacked = [each for stack in books._stacks.values() for each in stack]
        filed = [each for each in self.idle if each is not latest]
        assert sorted(map(id, stacked)) == sorted(map(id, filed))
        assert all(books._stacks.values())
        assert [each.idle_since for each in self.idle] == sorted(c.idle_since for c in self.idle)


PoolMachine.TestCase.settings = settings(max_examples=examples(200), stateful_step_count=80)
TestPoolMachine = PoolMachine.TestCase
