"""Connections at exact instants of virtual time: user timeouts and ages."""

from __future__ import annotations

import httpx
import pytest

from outlast import Policy
from outlast.net.options import Keepalive
from tests.http.fake_network import FakeNetwork, FakeStream, Line, answer, answers
from tests.http.virtual_calls import URL, client

GOOD = Line(answers(0.01))
BUSY = answer(b"busy", 503)


def hang_up(after: float) -> Line:
    def script(stream: FakeStream) -> None:
        if stream.request() is not None:
            stream.ends(after)

    return Line(script)


def drip(every: float, count: int) -> Line:
    """A body of `count` bytes, one at a time."""

    def script(stream: FakeStream) -> None:
        if stream.request() is not None:
            stream.says(every, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % count)
            for number in range(count):
                stream.says(every * (number + 2), b"x")

    return Line(script)


# -- user timeouts -------------------------------------------------------------------------


def test_a_user_timeout_does_not_kill_a_peer_that_merely_does_not_read() -> None:
    """Lifted at the first look that finds the window closed, put back when it has opened."""

    def script(stream: FakeStream) -> None:
        if stream.room == 0:
            stream.opens(30.0)
        if stream.request() is not None:
            stream.says(60.0, answer())

    network = FakeNetwork(a=Line(script, room=1000))
    with client(network) as calls:
        calls.put(URL, content=b"x" * 5000)
        assert network.streams[0].user_timeouts[1:] == [
            (0.001, 11.0),
            (0.101, 0.0),
            (30.101, 11.0),
        ]


def test_a_user_timeout_does_not_stand_while_the_callers_code_runs() -> None:
    """Nobody watches the socket while an upload's own code takes its time."""
    seen = []
    network = FakeNetwork(a=GOOD)

    def body() -> object:
        for chunk in (b"one", b"two"):
            network.time += 100.0
            seen.append(network.streams[0].user_timeouts[-1][1])
            yield chunk

    with client(network) as calls:
        calls.post(URL, content=body())  # type: ignore[arg-type]  # a generator
    assert seen == [0.0, 0.0]
    assert network.streams[0].user_timeouts[-1][1] == 11.0


@pytest.mark.parametrize(
    ("connect", "at_first"), [(5.0, 11.0), (11.0, 12.0), (60.0, 61.0), (None, 0.0)]
)
def test_a_user_timeout_is_longer_than_the_connect_may_take(
    connect: float | None, at_first: float
) -> None:
    network = FakeNetwork(a=GOOD)
    with client(network, timeout=httpx.Timeout(5.0, connect=connect)) as calls:
        calls.get(URL)
    (_, first), *later = network.streams[0].user_timeouts
    assert first == at_first
    assert [each for _, each in later] == ([] if at_first == 11.0 else [11.0])


def test_no_user_timeout_where_nothing_tells_of_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS: nobody could see a reader that merely pauses."""
    monkeypatch.setattr(FakeNetwork, "tells", False)
    network = FakeNetwork(a=Line(answers(50.0)))
    with client(network, timeout=60.0) as calls:
        calls.get(URL)
    assert {seconds for _, seconds in network.streams[0].user_timeouts} == {0.0}


def test_no_user_timeout_is_none_at_all() -> None:
    network = FakeNetwork(a=Line(answers(50.0)))
    with client(network, policy=Policy(user_timeout=0.0), timeout=60.0) as calls:
        calls.get(URL)
    assert {each for _, each in network.streams[0].user_timeouts} == {0.0}


def test_a_user_timeout_leaves_keepalive_its_time() -> None:
    """It replaces the count of probes: 11 s would kill an idle connection for one lost probe."""
    network = FakeNetwork(a=GOOD)
    with client(network, policy=Policy(keepalive=Keepalive(60, 10, 6))) as calls:
        calls.get(URL)
    assert network.streams[0].user_timeouts[-1][1] == 120.0


# -- ages ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("wait", "dials"), [(59.9, 1), (60.0, 2)])
def test_an_idle_connection_is_dropped_at_60_seconds(wait: float, dials: int) -> None:
    network = FakeNetwork(a=GOOD)
    with client(network) as calls:
        calls.get(URL)
        network.time += wait
        calls.get(URL)
    assert len(network.said("dial")) == dials


def test_a_connection_retires_between_240_and_360_seconds() -> None:
    ages = []
    for _ in range(5):
        network = FakeNetwork(a=GOOD)
        with client(network) as calls:
            while len(network.streams) < 6:
                calls.get(URL)
                network.time += 1.0
        ends = [each.end for each in network.streams[:5]]
        starts = [each.stands_at for each in network.streams]
        ages += [end[1] - start for end, start in zip(ends, starts, strict=False) if end]
    assert all(240 <= age <= 362 for age in ages)
    assert max(ages) - min(ages) > 20


def test_the_idle_expiry_of_limits_holds_if_it_is_shorter() -> None:
    for limits, policy, wait, dials in [
        (httpx.Limits(keepalive_expiry=5.0), Policy(), 5.0, 2),
        (httpx.Limits(keepalive_expiry=5.0), Policy(), 4.9, 1),
        (httpx.Limits(keepalive_expiry=None), Policy(), 59.0, 1),
        (httpx.Limits(keepalive_expiry=None), Policy(idle_expiry=200.0), 199.0, 1),
        (httpx.Limits(keepalive_expiry=90.0), Policy(idle_expiry=3.0), 3.0, 2),
    ]:
        network = FakeNetwork(a=GOOD)
        with client(network, limits=limits, policy=policy) as calls:
            calls.get(URL)
            network.time += wait
            calls.get(URL)
        assert len(network.said("dial")) == dials
