"""Runs the rounds: clients take turns, so that what disturbs the machine disturbs all alike.

A goal is measured in pairs, the order changing with each pair; a pair of small cells is eight short
windows of each side, in turn, added up. A cell of the tables is measured
client after client, each round beginning with another one. A client that is slow in a cell is let
off after three rounds there, when its time is spent; one that fails in it is not asked again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from benchmarks.speed.crew import Crew, Found, JobFailed
from benchmarks.speed.plan import CLIENTS, CPU, OUTLAST, PLAIN, Cell, Client, Goal, Memory

FEWEST = 3  # rounds, however slow
SPENT = 25.0  # seconds for one client in one cell, after which the fewest rounds are enough
LEAST = 200  # answers that a window has, where as many are asked for at once
TURNS, TURN = 8, 0.25  # windows of a small goal's round, and their length as a share of one
WEIGHED = 3  # rounds of a weighing, which hardly differ
NAMED = {client.name: client for client in CLIENTS}

T = TypeVar("T")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How long everything takes. `seconds`: of a window; `paired`: of a window for a goal."""

    rounds: int
    seconds: float
    paired: float


@dataclass(slots=True)
class Row:
    """A client in a cell: what its rounds have found, and why there are no more."""

    client: str
    cell: Cell
    found: list[Found] = field(default_factory=list)
    error: str = ""


@dataclass(slots=True)
class Pairs:
    """A goal and its rounds: `mine` and `theirs`, in seconds or answers in a second."""

    goal: Goal
    pairs: list[tuple[float, float]] = field(default_factory=list)
    error: str = ""


@dataclass(slots=True)
class Weights:
    """Idle connections, weighed in pairs: bytes for one of outlast's and of httpx's."""

    memory: Memory
    pairs: list[tuple[float, float]] = field(default_factory=list)
    error: str = ""


def least(cell: Cell) -> int:
    """Answers that a window has at least."""
    return max(20, min(cell.at_once, LEAST))


def _pairs(
    count: int, one_round: Callable[[int], tuple[float, float]]
) -> tuple[list[tuple[float, float]], str]:
    """So many rounds, each told its number; what went wrong ends it."""
    found: list[tuple[float, float]] = []
    for number in range(count):
        try:
            pair = one_round(number)
        except JobFailed as failure:
            return found, str(failure)
        found.append(pair)
    return found, ""


def _in_turn(number: int, mine: Callable[[], T], theirs: Callable[[], T]) -> tuple[T, T]:
    """Both, one after the other; who is first changes with the number."""
    if number % 2:
        second, first = theirs(), mine()
    else:
        first, second = mine(), theirs()
    return first, second


def pursue(crew: Crew, goals: Sequence[Goal], pace: Pace, say: Say) -> list[Pairs]:
    """All goals."""
    done = []
    for goal in goals:
        say(f"{goal.what}: {goal.title}")
        done.append(Pairs(goal, *_pairs(pace.rounds, partial(_goal_round, crew, goal, pace))))
    return done


def _goal_round(crew: Crew, goal: Goal, pace: Pace, number: int) -> tuple[float, float]:
    """One pair. Where little has to be opened the two take turns within it too: a machine's speed
    may change from one second to the next, and then a ratio of two long windows tells of that."""
    small = all(cell.limit == 1 for _, cell in (goal.mine, goal.theirs))
    turns, seconds = (TURNS, pace.paired * TURN) if small else (1, pace.paired)

    def one(side: tuple[str, Cell]) -> Found:
        name, cell = side
        return crew.measure(NAMED[name], cell, seconds, least(cell))

    found = [
        _in_turn(number + turn, partial(one, goal.mine), partial(one, goal.theirs))
        for turn in range(turns)
    ]
    mine, theirs = (Found.all_of(side) for side in zip(*found, strict=True))
    return (mine.cost, theirs.cost) if goal.what == CPU else (mine.rate, theirs.rate)


def weigh(crew: Crew, memories: Sequence[Memory], pace: Pace, say: Say) -> list[Weights]:
    """All scales."""
    done = []
    for memory in memories:
        say(f"memory: {memory.words}")
        mine, theirs = (partial(crew.weigh, NAMED[name], memory) for name in (OUTLAST, PLAIN))
        rounds = partial(_in_turn, mine=mine, theirs=theirs)
        done.append(Weights(memory, *_pairs(min(pace.rounds, WEIGHED), rounds)))
    return done


def fill(
    crew: Crew, cells: Sequence[Cell], clients: Sequence[Client], pace: Pace, say: Say
) -> list[Row]:
    """All cells of the tables."""
    rows = []
    for number, cell in enumerate(cells, 1):
        able = [client for client in clients if client.does(cell)]
        say(f"{number} of {len(cells)}: {cell.words}")
        rows += _one_cell(crew, cell, able, pace)
    return rows


def _one_cell(crew: Crew, cell: Cell, clients: Sequence[Client], pace: Pace) -> list[Row]:
    rows = {client.name: Row(client.name, cell) for client in clients}
    spent = dict.fromkeys(rows, 0.0)
    for number in range(pace.rounds):
        turn = number % max(1, len(clients))
        for client in (*clients[turn:], *clients[:turn]):
            row = rows[client.name]
            slow = len(row.found) >= FEWEST and spent[client.name] > SPENT
            if row.error or slow:
                continue
            began = time.monotonic()
            try:
                row.found.append(crew.measure(client, cell, pace.seconds, least(cell)))
            except JobFailed as failure:
                row.error = str(failure)
            spent[client.name] += time.monotonic() - began
    return list(rows.values())
