"""The roster through any history, with what must always hold."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlast.core.balance import (
    P2C,
    Balance,
    ConsistentHash,
    LeastRequest,
    PickFirst,
    RoundRobin,
)
from outlast.core.endpoint import Endpoint, Member, Pick, Why
from outlast.core.health import Evidence, Fault, HealthPlan, Standing
from outlast.core.priority import Count, spread
from outlast.core.roster import Roster
from tests.examples import examples

KEYS = st.sampled_from([f"e{at}" for at in range(7)])
MEMBERS = st.lists(
    st.builds(
        Member,
        key=KEYS,
        weight=st.sampled_from([0.01, 0.7, 1.0, 1.0, 1.0, 3.0, 100.0]),
        priority=st.sampled_from([0, 0, 0, 1, 5]),
        zone=st.sampled_from(["", "a", "b"]),
    ),
    max_size=8,
)
BALANCES: st.SearchStrategy[Balance] = st.sampled_from(
    [
        P2C(),
        LeastRequest(),
        RoundRobin(),
        PickFirst(),
        ConsistentHash(header="x-user"),
    ]
)
STEPS = st.sampled_from([0.0, 0.01, 0.5, 1.0, 5.0, 6.0, 20.0, 75.0])


class RosterMachine(RuleBasedStateMachine):
    """Endpoints come, go, fail, recover and are picked."""

    @initialize(
        balance=BALANCES,
        members=MEMBERS,
        zone=st.sampled_from(["", "a"]),
        panic=st.sampled_from([0.0, 0.5, 0.5, 1.0]),
        seed=st.integers(0, 1000),
    )
    def begin(
        self,
        balance: Balance,
        members: list[Member[str]],
        zone: str,
        panic: float,
        seed: int,
    ) -> None:
        self.now = 100.0
        self.rng = Random(seed)
        self.zone, self.panic, self.balance = zone, panic, balance
        self.roster: Roster[str] = Roster(
            balance, HealthPlan(), Random(seed), zone=zone, panic=panic
        )
        self.members: dict[str, Member[str]] = {}
        self.picks: list[Pick[str]] = []
        self.resolve(members)

    @rule(members=MEMBERS)
    def resolve(self, members: list[Member[str]]) -> None:
        before = {endpoint.key: endpoint for endpoint in self.roster}
        fresh = {member.key: member for member in reversed(members)}
        joined, left = self.roster.resolved(members, self.now)
        assert set(joined) == fresh.keys() - before.keys()
        assert set(left) == before.keys() - fresh.keys()
        self.members = fresh
        for endpoint in self.roster:
            assert endpoint.member == fresh[endpoint.key]
            assert before.get(endpoint.key, endpoint) is endpoint
        assert [endpoint.position for endpoint in self.roster] == list(range(len(fresh)))

    @rule(seconds=STEPS)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    def tell(self, key: str, said: Callable[[Endpoint[str]], object]) -> None:
        endpoint = self.roster.get(key)
        assert (endpoint is None) == (key not in self.members)
        if endpoint is not None:
            said(endpoint)
            self.roster.changed(endpoint)

    @rule(key=KEYS, fault=st.sampled_from(Fault), times=st.integers(1, 6))
    def one_fails(self, key: str, fault: Fault, times: int) -> None:
        for _ in range(times):
            self.tell(key, lambda endpoint: endpoint.health.failed(fault, self.now, self.rng))

    @rule(key=KEYS, times=st.integers(1, 3))
    def one_answers(self, key: str, times: int) -> None:
        for _ in range(times):
            self.tell(key, lambda endpoint: endpoint.health.succeeded(self.now))

    @rule(key=KEYS)
    def one_connects(self, key: str) -> None:
        self.tell(key, lambda endpoint: endpoint.health.connected(self.now))

    @rule(key=KEYS, up=st.booleans())
    def one_is_checked(self, key: str, up: bool) -> None:
        self.tell(key, lambda endpoint: endpoint.health.checked(up, self.now, self.rng))

    @rule(
        avoid=st.lists(KEYS, max_size=7),
        hashed=st.one_of(st.none(), st.binary(max_size=4)),
    )
    def somebody_is_picked(self, avoid: list[str], hashed: bytes | None) -> None:
        was = {each.key: (each.health.standing, each.health.due(self.now)) for each in self.roster}
        worth = {each.key: each.health.evidence for each in self.roster}
        pick = self.roster.pick(self.now, self.rng, avoid=avoid, hashed=hashed)
        assert (pick is None) == (not self.members)
        if pick is None:
            return
        key = pick.endpoint.key
        assert self.roster.get(key) is pick.endpoint
        standing, due = was[key]
        self.check_why(pick, standing, worth[key])
        assert (key in avoid) == (pick.why is Why.NO_OTHER)
        if pick.trial:
            assert due, "a trial that was not due"
            assert pick.endpoint.health.standing is Standing.TRIAL
        elif standing is not Standing.IN and worth[key] is Evidence.DEATH:
            # The dead are for the last resort.
            assert not any(each.health.standing is Standing.IN for each in self.roster)
            assert not any(
                each.health.evidence is Evidence.ANSWERS
                for each in self.roster
                if each.health.standing is not Standing.IN
            )
        pick.endpoint.load.begin(self.now)
        self.picks.append(pick)

    def check_why(self, pick: Pick[str], standing: Standing, evidence: Evidence | None) -> None:
        if pick.why in (Why.BALANCE, Why.SPILL_OVER):
            assert standing is Standing.IN
        elif pick.why is Why.PANIC:
            assert standing is not Standing.IN
            assert evidence is Evidence.ANSWERS
            assert self.panic > 0.0
        elif pick.why is not Why.NO_OTHER:
            assert standing is not Standing.IN
        assert pick.trial or pick.why is not Why.TRIAL

    @precondition(lambda self: self.picks)
    @rule(
        data=st.data(),
        ending=st.sampled_from(["good", "bad", "dead", "cancelled"]),
    )
    def a_request_ends(self, data: st.DataObject, ending: str) -> None:
        pick = self.picks.pop(data.draw(st.integers(0, len(self.picks) - 1)))
        endpoint = pick.endpoint
        if ending == "cancelled":
            endpoint.load.quit()
            if pick.trial:
                endpoint.health.untried(self.now)
        elif ending == "good":
            endpoint.load.end(self.now, 0.01)
            endpoint.health.succeeded(self.now)
        else:
            endpoint.load.end(self.now, 0.01, failed=True, retry_after=3.0)
            fault = Fault.GATEWAY if ending == "bad" else Fault.CONNECT
            endpoint.health.failed(fault, self.now, self.rng)
        self.roster.changed(endpoint)

    @rule(first=KEYS, most=st.integers(1, 9))
    def a_dial_asks_for_an_order(self, first: str, most: int) -> None:
        order = self.roster.order(self.now, self.rng, first, most=most)
        everybody = {first, *self.members}
        assert order[0] == first
        assert len(order) == len(set(order)) == min(most, len(everybody))
        assert set(order) <= everybody
        dead = [self.is_dead(key) for key in order[1:]]
        assert dead == sorted(dead), "one of the dead before one of the living"
        assert [key for key in order[1:] if self.is_dead(key)] == self.round(first, most)[
            : sum(dead)
        ]

    def round(self, first: str, most: int) -> list[str]:
        """The dead by who answered last, from the one after `first` on if it is one of them."""
        dead = [endpoint for endpoint in self.roster if self.is_dead(endpoint.key)]
        dead.sort(key=lambda endpoint: (-endpoint.health.last_success, endpoint.position))
        keys = [endpoint.key for endpoint in dead[:most]]
        at = keys.index(first) if first in keys else 0
        return [key for key in keys[at:] + keys[:at] if key != first]

    def is_dead(self, key: str) -> bool:
        endpoint = self.roster.get(key)
        assert endpoint is not None
        cell = endpoint.cell
        assert cell is not None
        health = endpoint.health
        out = health.standing is not Standing.IN and health.evidence is Evidence.DEATH
        return out and not cell.ripe

    @invariant()
    def everybody_stands_in_one_place(self) -> None:
        if not hasattr(self, "roster"):
            return
        assert len(self.roster) == len(self.members)
        for endpoint in self.roster:
            cell = endpoint.cell
            assert cell is not None
            assert cell.items[endpoint.item_at] is endpoint
            fits = endpoint.health.standing is Standing.IN
            assert not (fits and cell.ripe)
        cells = {id(endpoint.cell): endpoint.cell for endpoint in self.roster}
        assert sum(len(cell) for cell in cells.values() if cell) == len(self.members)
        for cell in cells.values():
            assert cell is not None
            assert cell.warming == sum(endpoint.warming for endpoint in cell)
            total = sum(endpoint.member.weight for endpoint in cell)
            assert abs(cell.total - total) < 1e-6

    @invariant()
    def nobody_who_is_due_is_forgotten(self) -> None:
        if not hasattr(self, "roster"):
            return
        for endpoint in self.roster:
            if endpoint.health.due(self.now):
                cell = endpoint.cell
                assert cell is not None
                assert cell.ripe or any(
                    whose is endpoint and at <= self.now for at, _, whose in self.roster._due
                )

    @invariant()
    def panic_is_as_the_table_says(self) -> None:
        if not hasattr(self, "roster"):
            return
        counts = []
        for priority in sorted({member.priority for member in self.members.values()}):
            level = [each for each in self.roster if each.member.priority == priority]
            fit = sum(each.health.standing is Standing.IN for each in level)
            counts.append(Count(len(level), fit, 0))
        shares = spread(counts, self.panic) if counts else []
        assert self.roster.panic == any(share.panic for share in shares)


TestRosterMachine = RosterMachine.TestCase
TestRosterMachine.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
