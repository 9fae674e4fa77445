"""Local ports that lead nowhere: the dialler learns them from silence, and does not wait on them.

On the scripted network the n-th dial comes from port 40000 + n.
"""

from __future__ import annotations

from typing import Any

import pytest

from outlast.net.dial import DialMemory
from outlast.net.options import SocketPlan
from tests.net.racing import Outcome, near, play
from tests.net.scripted import MUTE, SILENT, Path, Scripted, at, shake

VIP = "10.96.0.2"
LIVE = Path(0.001)
WORLDS = ["sync", "asyncio", "trio"]


def knowing(*numbers: int) -> DialMemory:
    """That dials from these ports were silent at 0 s, and another was answered at 1 s."""
    memory = DialMemory(0.0)
    for number in numbers:
        memory.silent(at(VIP), 40_000 + number, 0.0)
    memory.answered(at(VIP), 1.0)
    return memory


def ask(*paths: Path, memory: DialMemory, **more: Any) -> tuple[Scripted, Outcome]:
    """One race for the VIP, at 2 s."""
    net = Scripted({VIP: list(paths)}, time=2.0)
    return net, play(net, [VIP], memory=memory, delay=0.02, **more)


@pytest.mark.parametrize("world", WORLDS)
def test_a_port_that_leads_nowhere_is_left_at_once(world: str) -> None:
    net, outcome = ask(SILENT, SILENT, LIVE, memory=knowing(1, 2), world=world)
    assert outcome.took == near(0.001)
    assert [moment for moment, _ in net.dials] == [2.0, 2.0, 2.0]
    assert [stream.end for stream in net.streams[:2]] == [("aborted", 2.0)] * 2
    told = [(event.local_port, event.what) for event in outcome.report.of_phase("connect")]
    assert told == [
        (40_001, "passed over: this local port led nowhere before"),
        (40_002, "passed over: this local port led nowhere before"),
        (40_003, "connected in 1.0 ms"),
    ]


def test_a_fresh_port_is_waited_for() -> None:
    _, outcome = ask(SILENT, LIVE, memory=knowing(7))
    assert outcome.took == near(0.021)


def test_a_port_of_the_callers_own_is_waited_for() -> None:
    plan = SocketPlan(source=("", 40_001))
    _, outcome = ask(SILENT, LIVE, memory=knowing(1), plan=plan)
    assert outcome.took == near(0.021)
    _, outcome = ask(SILENT, LIVE, memory=knowing(1), plan=SocketPlan(source=("10.0.0.1", 0)))
    assert outcome.took == near(0.001)


def test_its_two_minutes_begin_anew_with_the_dial() -> None:
    memory = knowing(1)
    ask(SILENT, LIVE, memory=memory)
    assert memory.leads_nowhere(at(VIP), 40_001, 121.9)
    assert not memory.leads_nowhere(at(VIP), 40_001, 122.0)


def test_silent_losers_are_remembered() -> None:
    """Those that gave way and those that lost, if they had the time of an answer."""
    memory = DialMemory(0.0)
    net, outcome = ask(*[SILENT] * 6, LIVE, memory=memory)
    assert outcome.took == near(0.121)
    memory.answered(at(VIP), 3.0)
    known = [n for n in range(1, 8) if memory.leads_nowhere(at(VIP), 40_000 + n, 3.5)]
    assert known == [1, 2, 3, 4, 5, 6]
    assert len(net.dials) == 7


def test_a_loser_of_a_moment_ago_tells_nothing() -> None:
    memory = DialMemory(0.0)
    _, outcome = ask(Path(0.025), SILENT, memory=memory)
    assert outcome.took == near(0.025)
    memory.answered(at(VIP), 3.0)
    assert not memory.leads_nowhere(at(VIP), 40_002, 3.5)


def test_a_loser_that_had_connected_is_not_silent() -> None:
    memory = DialMemory(0.0)
    _, outcome = ask(MUTE, Path(0.6), memory=memory, finish=shake, timeout=5.0)
    assert outcome.won is not None
    memory.answered(at(VIP), 9.0)
    assert not memory.leads_nowhere(at(VIP), 40_001, 9.5)


def test_a_race_that_is_lost_teaches_nothing_by_itself() -> None:
    """All of it was silent: no port is better than another until one is answered."""
    memory = DialMemory(0.0)
    net, outcome = ask(SILENT, memory=memory, timeout=0.1)
    assert outcome.lost.timed_out
    again, _ = ask(SILENT, memory=memory, timeout=0.1)
    assert [moment for moment, _ in again.dials] == [moment for moment, _ in net.dials]
    memory.answered(at(VIP), 3.0)
    assert memory.leads_nowhere(at(VIP), 40_001, 3.5)
