"""Reports from the field that a race must answer, named by their ids."""

from __future__ import annotations

import math
from random import Random

import pytest

from outlast.core.backoff import Backoff
from outlast.core.budget import RetryBudget
from outlast.core.call import Call, CallPlan, Failure, GiveUp, Try
from outlast.core.classify import ConnectFault, Progress
from outlast.core.deadline import Deadline
from tests.core.world import ANSWERS, SILENT, Path, Scenario, plan, race

TEN = {f"10.0.0.{host}": SILENT for host in range(1, 11)}


@pytest.mark.incident("FR-02")
def test_fr02_one_of_three_backends_is_silent() -> None:
    """Any run of draws up to the fourth: one delay per draw that fell into the hole."""
    for holes in range(4):
        met = race({"v": [SILENT] * holes + [ANSWERS]})
        assert met.ended_at == pytest.approx(0.25 * holes + 0.001)


@pytest.mark.incident("FR-03")
def test_fr03_the_first_five_tuple_is_a_hole_for_ever() -> None:
    met = Scenario({"v": [SILENT, ANSWERS]}, plan(delay=0.02)).run()
    assert (met.ended, met.ended_at) == ("won v#1", 0.021)


@pytest.mark.incident("FR-04")
def test_fr04_silent_then_live() -> None:
    met = Scenario({"silent": SILENT, "live": ANSWERS}, plan(deadline=3.0)).run()
    assert (met.ended, met.ended_at) == ("won live#0", 0.251)


@pytest.mark.incident("FR-05")
def test_fr05_ten_silent_addresses_are_all_tried_and_end_at_one_deadline() -> None:
    met = race(TEN)
    assert (met.ended, met.ended_at) == ("lost, timed out", 5.0)
    firsts = [(moment, text) for moment, text in met.only("dial") if text.endswith("#0")]
    assert firsts == [(0.25 * nth, f"dial {address}#0") for nth, address in enumerate(TEN)]
    dropped = [text for moment, text in met.only("drop") if moment == 5.0]
    assert {f"drop {address}#0" for address in TEN} <= set(dropped)
    assert met.most_open == 11


@pytest.mark.incident("FR-06")
def test_fr06_retries_on_top_obey_the_same_deadline() -> None:
    deadline = Deadline.after(5.0, 0.0)
    figures = CallPlan(4, deadline, frozenset(), True, True, Backoff().delay, 10.0)
    call = Call(figures, RetryBudget(), Random(6))
    met = Scenario(TEN, plan(deadline=deadline.at)).run()
    assert met.ended_at == 5.0
    step = call.failed(0, Failure(Progress.NOT_SENT), met.ended_at)
    assert step == GiveUp(0, "the deadline has come")


@pytest.mark.incident("FR-06")
def test_fr06_a_race_that_is_lost_early_leaves_its_time_to_the_next() -> None:
    """A refused race, then a silent one: still one deadline, not one for each."""
    figures = CallPlan(4, Deadline(5.0), frozenset(), True, True, Backoff().delay, 10.0)
    call = Call(figures, RetryBudget(), Random(6))
    refused = Scenario({"a": Path(1.0, ConnectFault.LOCAL)}, plan(delay=9.0)).run()
    assert (refused.ended, refused.ended_at) == ("lost", 1.0)
    again = call.failed(0, Failure(Progress.NOT_SENT), refused.ended_at)
    assert again == Try(1, 1.0, "nothing was sent")
    silent = Scenario(TEN, plan()).run()
    assert isinstance(call.failed(1, Failure(Progress.NOT_SENT), silent.ended_at), GiveUp)
    assert silent.ended_at == 5.0


@pytest.mark.incident("FR-07")
def test_fr07_refusal_and_silence_are_told_apart_within_one_bound() -> None:
    refused = race({"a": Path(0.001, ConnectFault.REFUSED)})
    silent = race({"a": SILENT})
    assert (refused.ended, silent.ended) == ("lost", "lost, timed out")
    assert refused.ended_at == pytest.approx(0.008)
    assert silent.ended_at == 5.0


@pytest.mark.incident("FR-09")
def test_fr09_host_unreachable_is_dialled_past_at_once() -> None:
    met = race({"rebooting": Path(0.0, ConnectFault.UNREACHABLE), "b": ANSWERS})
    assert met.ended_at == 0.001


@pytest.mark.incident("FR-10")
@pytest.mark.parametrize("ports", range(8))
def test_fr10_a_range_of_source_ports_is_unreachable(ports: int) -> None:
    met = race({"v": [Path(0.0, ConnectFault.UNREACHABLE)] * ports + [ANSWERS]})
    assert (met.ended, met.ended_at) == (f"won v#{ports}", 0.001)


@pytest.mark.incident("FR-61")
def test_fr61_a_race_really_starts() -> None:
    assert Scenario({"a": SILENT, "b": SILENT}, plan(deadline=1.0)).run().dials == 4


@pytest.mark.incident("FR-62")
def test_fr62_three_addresses_of_one_family_the_first_two_silent() -> None:
    met = race({"10.0.0.1": SILENT, "10.0.0.2": SILENT, "10.0.0.3": ANSWERS})
    assert met.trail == [
        (0.0, "dial 10.0.0.1#0"),
        (0.25, "dial 10.0.0.2#0"),
        (0.5, "dial 10.0.0.3#0"),
        (0.501, "won 10.0.0.3#0"),
    ]


@pytest.mark.incident("FR-66")
def test_fr66_a_handshake_that_stops_ends_at_the_connect_deadline() -> None:
    met = race({"a": Path(0.001, handshake=math.inf)})
    assert (met.ended, met.ended_at) == ("lost, timed out", 5.0)


@pytest.mark.incident("FR-74")
def test_fr74_a_node_that_lost_its_last_pod_drops_or_refuses() -> None:
    for gone in (SILENT, Path(0.0, ConnectFault.REFUSED)):
        met = Scenario({"node1": gone, "node2": ANSWERS}, plan(deadline=2.0)).run()
        assert met.ended == "won node2#0"
        assert met.ended_at <= 0.251
