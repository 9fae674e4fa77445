"""`retries`: which connects are tried again, and when; in virtual time."""

from __future__ import annotations

import errno
import itertools
import math

import httpx
import pytest

from outlast import Policy
from outlast.core.race import MAX_REFUSALS
from tests.http.callers import words
from tests.http.fake_network import CONNECT, FakeNetwork, Line, answers
from tests.http.virtual_calls import URL, client

GOOD = Line(answers())
REFUSED = Line(answers(), code=errno.ECONNREFUSED)
UNHEARD = Line(answers(), connect=math.inf)
RACE = MAX_REFUSALS * CONNECT  # seconds until a race against a closed port is over


def starts(network: FakeNetwork) -> list[float]:
    """When the races began: the first dial, and every one after a whole race of refusals."""
    return [at for at, _ in network.said("dial")][::MAX_REFUSALS]


def test_without_retries_one_race_decides() -> None:
    network = FakeNetwork(a=[*[REFUSED] * MAX_REFUSALS, GOOD])
    with client(network) as http, pytest.raises(httpx.ConnectError, match="refused"):
        http.post(URL)
    assert len(network.streams) == MAX_REFUSALS


def test_a_refused_connect_is_tried_again_at_once() -> None:
    network = FakeNetwork(a=[*[REFUSED] * MAX_REFUSALS, GOOD])
    with client(network, retries=1) as http:
        response = http.post(URL)
    assert response.status_code == 200
    assert starts(network) == [0.0, pytest.approx(RACE)]
    assert "tried again in 0 s (retries)" in words(response)


def test_the_pauses_are_httpxs() -> None:
    """0, 0.5, 1 and 2 s, from the end of one connect to the start of the next."""
    network = FakeNetwork(a=REFUSED)
    with client(network, retries=4) as http, pytest.raises(httpx.ConnectError) as caught:
        http.get(URL)
    told = [line for line in words(caught.value) if "retries" in line]
    assert told == [f"tried again in {pause} s (retries)" for pause in ("0", "0.5", "1", "2")]
    began = starts(network)
    pauses = [later - before - RACE for before, later in itertools.pairwise(began)]
    assert pauses == [pytest.approx(pause, abs=1e-6) for pause in (0, 0.5, 1, 2)]


def test_pauses_are_no_connect_time() -> None:
    """A short connect timeout does not take away what was asked for."""
    network = FakeNetwork(a=[*[REFUSED] * (MAX_REFUSALS * 3), GOOD])
    limits = httpx.Timeout(None, connect=0.1)
    with client(network, retries=3, timeout=limits) as http:
        assert http.get(URL).status_code == 200
    assert network.time > 1.5


def test_connect_time_is_one_budget_for_all_of_them() -> None:
    slow = Line(answers(), connect=0.03, code=errno.ECONNREFUSED)
    network = FakeNetwork(a=slow)
    limits = httpx.Timeout(None, connect=0.3)
    with client(network, retries=9, timeout=limits) as http:
        with pytest.raises(httpx.ConnectTimeout):
            http.get(URL)
    assert network.time == pytest.approx(0.3, abs=1e-3)


def test_a_connect_that_timed_out_is_not_tried_again() -> None:
    """It has been dialled again and again in its time; the caller's limit is the caller's limit."""
    network = FakeNetwork(a=UNHEARD)
    limits = httpx.Timeout(None, connect=0.6)
    with client(network, retries=3, timeout=limits) as http:
        with pytest.raises(httpx.ConnectTimeout):
            http.get(URL)
    assert network.time == pytest.approx(0.6, abs=1e-3)
    assert len(network.streams) > 1


def test_the_deadline_bounds_the_pauses() -> None:
    """A pause that would end behind it is not begun."""
    network = FakeNetwork(a=REFUSED)
    with client(network, retries=9, policy=Policy(deadline=1.0)) as http:
        with pytest.raises(httpx.ConnectError, match="refused"):
            http.get(URL)
    assert 0.5 < network.time < 0.6
