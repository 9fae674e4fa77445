"""The lists that endpoints stand in: fair by weight, whoever comes and goes."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from outlast.core.cells import Ranks, Urn, by_rank, draw
from outlast.core.endpoint import Cell, Endpoint, Member
from outlast.core.health import HealthPlan
from tests.core.crowd import PLAN
from tests.examples import examples

WEIGHTS = [0.001, 0.3, 0.5, 0.7, 1.0, 1.0, 3.0, 4.0, 5.0, 1000.0]


def endpoints(*weights: float) -> list[Endpoint[str]]:
    return [Endpoint(Member(f"e{at}", each), PLAN, at) for at, each in enumerate(weights)]


def urn_of(*weights: float, seed: int = 1) -> Urn[str]:
    urn: Urn[str] = Urn()
    rng = Random(seed)
    for endpoint in endpoints(*weights):
        urn.add(endpoint, rng)
    return urn


def drawn(urns: list[Urn[str]], times: int) -> Counter[float]:
    rng = Random(5)
    return Counter(draw(urns, rng).member.weight for _ in range(times))


@pytest.mark.parametrize(
    "weights",
    [(1.0,), (0.7, 0.7), (1.0, 3.0), (60.0, 20.0, 10.0), (1.0, 2.0, 4.0, 8.0), (0.1, 1.0, 10.0)],
)
def test_draws_are_in_proportion_to_weight(weights: tuple[float, ...]) -> None:
    counts = drawn([urn_of(*weights)], 20_000)
    for weight in set(weights):
        expected = 20_000 * weight * weights.count(weight) / sum(weights)
        assert counts[weight] == pytest.approx(expected, rel=0.05, abs=60)


def test_draws_out_of_several_lists_are_too() -> None:
    counts = drawn([urn_of(1.0, 5.0), urn_of(3.0), Urn()], 18_000)
    assert counts[1.0] == pytest.approx(2000, rel=0.08)
    assert counts[3.0] == pytest.approx(6000, rel=0.08)
    assert counts[5.0] == pytest.approx(10_000, rel=0.08)


def test_a_point_that_rounding_puts_beyond_the_last_class_is_drawn_again() -> None:
    class Edge(Random):
        points = iter([1.0, 0.0])

        def random(self) -> float:
            return next(self.points)

    assert draw([urn_of(1.0, 4.0)], Edge(1)).key in {"e0", "e1"}


def test_equal_weights_take_exact_turns() -> None:
    urn = urn_of(*[1.0] * 5)
    turns = [urn.turn((), 0.0) for _ in range(15)]
    assert None not in turns
    assert turns[:5] == turns[5:10] == turns[10:]
    assert len({id(endpoint) for endpoint in turns}) == 5


def test_clients_do_not_all_begin_with_the_same() -> None:
    firsts = set()
    for seed in range(20):
        endpoint = urn_of(*[1.0] * 5, seed=seed).turn((), 0.0)
        assert endpoint is not None
        firsts.add(endpoint.key)
    assert len(firsts) > 2


@pytest.mark.parametrize(
    "weights", [(1.0, 3.0), (60.0, 20.0, 20.0), (1.0, 10.0, 100.0), (0.7, 0.9)]
)
def test_turns_are_in_proportion_to_weight_at_any_time(weights: tuple[float, ...]) -> None:
    """Not by chance: after any number of turns nobody is more than two beside its part."""
    urn = urn_of(*weights)
    counts: Counter[float] = Counter()
    ordered = sorted(set(weights))
    for turn in range(1, 2000):
        endpoint = urn.turn((), 0.0)
        assert endpoint is not None
        counts[endpoint.member.weight] += 1
        for weight in ordered:
            part = weight * weights.count(weight) / sum(weights)
            assert abs(counts[weight] - turn * part) < 2.5


def test_those_to_be_avoided_are_passed_over() -> None:
    urn = urn_of(1.0, 1.0, 4.0)
    for _ in range(50):
        endpoint = urn.turn({"e0", "e2"}, 0.0)
        assert endpoint is not None
        assert endpoint.key == "e1"
    assert urn.turn({"e0", "e1", "e2"}, 0.0) is None
    assert Urn[str]().turn((), 0.0) is None


def test_ten_thousand_that_take_a_tenth_of_their_turns_cost_a_few_looks() -> None:
    """All have just come back: each look has a chance of one in twenty, not of none."""
    urn = urn_of(*[0.6] * 10_000)
    for endpoint in urn:
        endpoint.health.full_at = 10.0
        endpoint.warming = True
    urn.warming = 10_000
    looks = 0
    for _ in range(100):
        before = _cursor(urn)
        assert urn.turn((), 0.0) is not None
        looks += (_cursor(urn) - before) % 10_000
    assert looks < 100 * 40


def test_nobody_waits_for_one_that_saves_up_its_turn() -> None:
    """The only one there serves, however little it takes yet."""
    urn = urn_of(1.0)
    (endpoint,) = urn
    endpoint.health.plan = HealthPlan(least_weight=0.001)
    endpoint.health.full_at = 10.0
    endpoint.warming, urn.warming = True, 1
    assert urn.turn((), 0.0) is endpoint


def _cursor(urn: Urn[str]) -> int:
    (same,) = urn._classes.values()
    return same.at


# --- heaps ------------------------------------------------------------------------------------


def test_the_heaviest_then_as_named() -> None:
    ranks: Ranks[str] = Ranks()
    some = endpoints(1.0, 3.0, 3.0, 2.0)
    for endpoint in reversed(some):
        ranks.add(endpoint, Random(1))
    order = []
    avoid: set[str] = set()
    while entry := ranks.best(avoid):
        order.append(entry[3].key)
        avoid.add(entry[3].key)
    assert order == ["e1", "e2", "e3", "e0"]
    assert ranks.best(()) is not None


def test_who_answered_last_comes_first() -> None:
    ranks: Ranks[str] = Ranks(by_success=True)
    some = endpoints(1.0, 1.0, 1.0)
    some[1].health.last_success = 5.0
    for endpoint in some:
        ranks.add(endpoint, Random(1))
    best = ranks.best(())
    assert best is not None
    assert best[3] is some[1]
    next_best = ranks.best({"e1"})
    assert next_best is not None
    assert next_best[3] is some[0]
    assert by_rank(best) < by_rank(next_best)


def test_coming_and_going_leaves_nothing_behind() -> None:
    """One far behind the best goes in and out: its old entries never get to the top."""
    ranks: Ranks[str] = Ranks()
    first, second = endpoints(2.0, 1.0)
    ranks.add(first, Random(1))
    for _ in range(1000):
        ranks.add(second, Random(1))
        ranks.remove(second)
    assert len(ranks._entries) < 40
    ranks.remove(first)
    ranks.add(second, Random(1))
    best = ranks.best(())
    assert best is not None
    assert best[3] is second


def test_a_cell_is_a_list() -> None:
    cell: Cell[str] = Cell()
    some = endpoints(1.0, 2.0, 3.0)
    for endpoint in some:
        cell.add(endpoint, Random(1))
    cell.remove(some[0])
    assert len(cell) == 2
    assert set(cell) == {some[1], some[2]}
    assert cell.total == 5.0


# --- any history ------------------------------------------------------------------------------


class UrnMachine(RuleBasedStateMachine):
    """Endpoints go in and out; whatever is asked of the urn is right for those that are in."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = Random(11)
        self.urn: Urn[str] = Urn()
        self.inside: list[Endpoint[str]] = []
        self.made = 0

    @rule(weight=st.sampled_from(WEIGHTS))
    def one_comes(self, weight: float) -> None:
        endpoint = Endpoint(Member(f"e{self.made}", weight), PLAN, self.made)
        self.made += 1
        self.urn.add(endpoint, self.rng)
        self.inside.append(endpoint)

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def one_goes(self, data: st.DataObject) -> None:
        endpoint = self.inside.pop(data.draw(st.integers(0, len(self.inside) - 1)))
        self.urn.remove(endpoint)
        assert endpoint.cell is None

    @precondition(lambda self: self.inside)
    @rule()
    def one_is_drawn(self) -> None:
        assert draw([self.urn], self.rng) in self.inside
        assert self.urn.turn((), 0.0) in self.inside

    @invariant()
    def all_are_where_they_believe_to_be(self) -> None:
        assert len(self.urn) == len(self.inside)
        for endpoint in self.inside:
            assert endpoint.cell is self.urn
            assert self.urn.items[endpoint.item_at] is endpoint
        placed = [endpoint for _, items, _ in self.urn.table for endpoint in items]
        assert len(placed) == len(self.inside)
        for bound, items, size in self.urn.table:
            assert size == bound * len(items) > 0
            for at, endpoint in enumerate(items):
                assert endpoint.class_at == at
                assert bound / 2 < endpoint.member.weight <= bound
        weights = {endpoint.member.weight for endpoint in self.inside}
        assert self.urn.even == (len(weights) < 2)
        assert self.urn.total == pytest.approx(sum(e.member.weight for e in self.inside), abs=1e-9)


TestUrnMachine = UrnMachine.TestCase
TestUrnMachine.settings = settings(max_examples=examples(80), stateful_step_count=30, deadline=None)
