"""Faults happen at their time, failures of the script are told, and the control plane lags."""

from __future__ import annotations

import threading

import pytest

from outlast.testing import KernelLab
from tests.lab.wire import ask, outcome

LIMIT = 10.0


def wait_for(event: threading.Event) -> None:
    assert event.wait(LIMIT), "the schedule did not get there"


def test_actions_happen_in_order_at_their_time(lab: KernelLab) -> None:
    done = threading.Event()
    times: list[tuple[str, float]] = []
    a = lab.node("a")
    pod = a.pod()
    lab.at(0.2, done.set)
    lab.at(0.1, lambda: times.append(("second", lab.elapsed())))
    lab.at(0.05, lambda: times.append(("first", lab.elapsed())))
    lab.at(0.1, a.power_off)
    assert lab.elapsed() == 0.0
    with lab.running():
        assert outcome(pod.address) == "connected"
        wait_for(done)
        assert not a.on
        again = threading.Event()
        lab.at(0, again.set)  # past: at once
        wait_for(again)
    assert [name for name, _ in times] == ["first", "second"]
    assert times[0][1] >= 0.05
    assert times[1][1] >= 0.1
    (moment,) = [moment for moment, what in lab.log if what == "a: power off"]
    assert 0.1 <= moment < lab.elapsed()
    length = lab.elapsed()
    assert lab.elapsed() == length


def test_a_failure_in_the_schedule_is_raised_at_the_end(lab: KernelLab) -> None:
    done = threading.Event()
    orders = lab.service("orders.shop.svc:8080")
    lab.at(0, orders.remove, lab.node("a"))
    lab.at(0.01, done.set)
    with pytest.raises(ValueError, match="never was in"), lab.running():
        wait_for(done)
    with lab.running():  # the next run starts clean
        pass


def test_a_failure_of_the_block_comes_first(lab: KernelLab) -> None:
    done = threading.Event()
    lab.at(0, lab.node, "")
    lab.at(0, done.set)
    with pytest.raises(KeyError, match="mine"), lab.running():  # noqa: PT012  the block counts
        wait_for(done)
        raise KeyError("mine")


def test_what_is_not_due_by_the_end_is_dropped(lab: KernelLab) -> None:
    a = lab.node("a")
    lab.at(3600.0, a.power_off)
    with lab.running():
        with pytest.raises(RuntimeError, match="already"):
            with lab.running():
                pass
    assert a.on


def test_the_control_plane_lags(lab: KernelLab) -> None:
    a, b = lab.node("a"), lab.node("b")
    orders = lab.service("orders.shop.svc:8080", pods=[a.pod(), b.pod()])
    lab.control_plane(lag=0.3, recovery=0.1)
    noticed, recovered = threading.Event(), threading.Event()
    with lab.running():
        a.power_off()
        assert orders.pods == (*a.pods, *b.pods)
        lab.at(lab.elapsed() + 0.3, noticed.set)
        wait_for(noticed)
        assert orders.pods == b.pods
        assert {ask(orders.address)["pod"] for _ in range(8)} == {"b-1"}
        a.power_on()
        lab.at(lab.elapsed() + 0.1, recovered.set)
        wait_for(recovered)
        assert set(orders.pods) == {*a.pods, *b.pods}


def test_a_short_outage_escapes_the_control_plane(lab: KernelLab) -> None:
    a = lab.node("a")
    orders = lab.service("orders.shop.svc:8080", pods=[a.pod()])
    lab.control_plane(lag=0.5, recovery=0.0)
    passed = threading.Event()
    with lab.running():
        a.power_off()
        a.power_on()
        lab.at(lab.elapsed() + 0.5, passed.set)
        wait_for(passed)
    assert orders.pods == a.pods
    assert not [what for _, what in lab.log if "remove" in what]


def test_without_a_control_plane_nobody_acts(lab: KernelLab) -> None:
    a = lab.node("a")
    orders = lab.service("orders.shop.svc:8080", pods=[a.pod()])
    passed = threading.Event()
    lab.at(0.1, passed.set)
    with lab.running():
        a.power_off()
        wait_for(passed)
    assert orders.pods == a.pods


@pytest.mark.parametrize("lags", [{"lag": -1.0}, {"recovery": -1.0}])
def test_bad_lags_are_refused(lab: KernelLab, lags: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"right: lag=40\.0"):
        lab.control_plane(**lags)


def test_a_time_before_the_start_is_refused(lab: KernelLab) -> None:
    for t in (-1.0, float("nan")):
        with pytest.raises(ValueError, match=r"right: net\.at"):
            lab.at(t, lab.close)
