"""The watch, and a second attempt beside a suspect one, at exact instants of virtual time.

A dial takes 1 ms, so a request leaves at 0.001 s, and the first look is 100 ms later, at 0.101 s.
The second attempt's dial takes 1 ms more.
"""

from __future__ import annotations

import itertools
import math

import httpx
import pytest

from outlast import Policy
from outlast.net.options import Keepalive
from tests.http.callers import report_of, words
from tests.http.fake_network import FakeNetwork, FakeStream, Line, answer, answers, silent
from tests.http.virtual_calls import AT_ONCE, URL, client

NEVER = Line(silent, acked=math.inf)  # the peer's kernel never acknowledges
GOOD = Line(answers(0.01))


def test_what_was_never_acknowledged_is_asked_again_elsewhere() -> None:
    network = FakeNetwork(a=[NEVER, GOOD])
    with client(network) as calls:
        response = calls.get(URL)
    assert response.content == b"ok"
    assert network.log == [
        (0.0, "dial 10.0.0.1"),
        (0.001, "10.0.0.1 has GET"),
        (0.101, "dial 10.0.0.1"),
        (0.102, "10.0.0.1 has GET"),
        (0.112, "aborted 10.0.0.1"),
        (0.112, "closed 10.0.0.1"),
    ]
    assert network.streams[0].looks == [0.101]
    assert "suspect: not acknowledged for 0.100 s: repeated" in words(response)


@pytest.mark.parametrize(
    ("round_trip", "first_look"), [(0.001, 0.1), (0.025, 0.1), (0.026, 0.104), (0.3, 1.2)]
)
def test_the_first_look_comes_after_four_round_trips(round_trip: float, first_look: float) -> None:
    network = FakeNetwork(a=[Line(silent, connect=round_trip, acked=math.inf), GOOD])
    policy = Policy(attempt_delay=4.0)
    with client(network, policy=policy) as calls:
        calls.get(URL)
    again = round(round_trip + first_look, 6)
    assert network.streams[0].looks == [again]
    assert network.said("dial")[1] == (again, "dial 10.0.0.1")


def test_another_endpoint_comes_first() -> None:
    network = FakeNetwork(a=NEVER, b=GOOD)
    for _ in range(3):
        with client(network, "a", "b") as calls:
            assert calls.get(URL).content == b"ok"
    assert {stream.line for stream in network.streams if stream.requests} <= {NEVER, GOOD}
    for first, second in itertools.pairwise(network.streams):
        if first.line is NEVER:
            assert second.line is GOOD


def test_a_name_has_another_endpoint_too() -> None:
    """Also where the addresses come from a look-up: those that were tried are dialled last."""
    network = FakeNetwork(a=NEVER, b=GOOD)
    url = "http://headless.shop.svc/"
    for _ in range(4):
        with client(network) as calls:
            assert calls.get(url).content == b"ok"
    dead = [stream for stream in network.streams if stream.line is NEVER]
    assert len(dead) <= 2
    assert len(network.requests) == 4 + len([each for each in dead if each.requests])


# -- who wins ------------------------------------------------------------------------------


def late(after: float) -> Line:
    """Acknowledges with its answer, `after` seconds after the request."""
    return Line(answers(after, answer(b"late")), acked=after)


def test_the_suspect_may_win_after_all() -> None:
    network = FakeNetwork(a=[late(0.5), Line(answers(1.0))])
    with client(network) as calls:
        response = calls.get(URL)
        assert response.content == b"late"
        assert calls.get(URL).content == b"ok"  # its place had moved on, so it was not kept
    assert network.log[:6] == [
        (0.0, "dial 10.0.0.1"),
        (0.001, "10.0.0.1 has GET"),
        (0.101, "dial 10.0.0.1"),
        (0.102, "10.0.0.1 has GET"),
        (0.501, "aborted 10.0.0.1"),
        (0.501, "closed 10.0.0.1"),
    ]
    assert network.streams[1].end == ("aborted", 0.501)


def test_the_suspect_may_win_while_the_second_is_dialled() -> None:
    network = FakeNetwork(a=[late(0.5), Line(silent, connect=2.0)])
    with client(network) as calls:
        assert calls.get(URL).content == b"late"
    assert len(network.requests) == 1
    assert {stream.end[0] for stream in network.streams[1:] if stream.end} == {"aborted"}


def test_a_second_attempt_that_fails_leaves_the_first_alone() -> None:
    def hang_up(stream: FakeStream) -> None:
        stream.request()
        stream.ends(0.01)

    for second in (Line(hang_up), Line(silent, code=111)):
        network = FakeNetwork(a=[late(3.0), second])
        with client(network, policy=Policy(attempts=2)) as calls:
            assert calls.get(URL).content == b"late"
        assert network.streams[0].end == ("closed", 3.001)


@pytest.mark.parametrize(("fields", "requests"), [((), 3), ((b"Retry-After: 1",), 2)])
def test_after_a_busy_answer_the_suspect_is_heard(fields: tuple[bytes, ...], requests: int) -> None:
    """The company that was busy is replaced at once, or not at all where the server asks for a
    pause; then the suspect one is waited for."""
    busy = Line(answers(0.01, answer(b"busy", 503, *fields)))
    network = FakeNetwork(a=[late(3.0), busy])
    with client(network) as calls:
        response = calls.get(URL)
        assert (response.status_code, response.content) == (200, b"late")
    assert len(network.requests) == requests


def test_company_that_is_reset_gets_a_successor() -> None:
    """The suspect attempt is not waited for where another may start."""

    def hang_up(stream: FakeStream) -> None:
        stream.request()
        stream.ends(0.02)

    network = FakeNetwork(a=[NEVER, Line(hang_up), GOOD])
    with client(network) as calls:
        assert calls.get(URL).content == b"ok"
    assert network.time == pytest.approx(0.133)
    assert len(network.requests) == 3


def test_a_busy_answer_is_better_than_none() -> None:
    def hang_up(stream: FakeStream) -> None:
        stream.request()
        stream.ends(3.0)

    first = Line(hang_up, acked=math.inf)
    network = FakeNetwork(a=[first, Line(answers(0.01, answer(b"busy", 503)))])
    with client(network, policy=Policy(attempts=2)) as calls:
        response = calls.get(URL)
    assert (response.status_code, response.content) == (503, b"busy")
    assert report_of(response).events[-1].at == pytest.approx(3.001)


def test_none_is_ever_acknowledged() -> None:
    """One that is suspect does not keep the next from starting; the caller's limit ends each."""
    network = FakeNetwork(a=NEVER)
    with client(network, timeout=5.0) as calls:
        with pytest.raises(httpx.ReadTimeout, match="never acknowledged") as caught:
            calls.get(URL)
        assert network.time == pytest.approx(5.203)
    assert len(network.requests) == 3
    assert report_of(caught.value).events[-1].attempt == 2
    assert {stream.end[0] for stream in network.streams if stream.end} == {"aborted"}


# -- who is left alone ---------------------------------------------------------------------


@pytest.mark.parametrize("wait", [5.0, 500.0])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_was_acknowledged_is_never_touched(wait: float, method: str) -> None:
    network = FakeNetwork(a=Line(answers(wait)))
    with client(network) as calls:
        assert calls.request(method, URL).content == b"ok"
    assert network.said("dial") == [(0.0, "dial 10.0.0.1")]
    assert len(network.requests) == 1
    assert network.time == pytest.approx(0.001 + wait)


def test_the_looks_are_few() -> None:
    """After 100 ms, a second after the last packet, then every 2 s: a long wait costs little."""
    network = FakeNetwork(a=Line(answers(500.0)))
    with client(network) as calls:
        calls.get(URL)
    looks = network.streams[0].looks
    assert looks[:7] == [0.101, 1.002, 3.002, 5.002, 7.002, 9.002, 11.002]
    assert len(looks) == 1 + 250
    (first, hurried), (last, planned) = network.streams[0].keepalives
    assert (first, hurried) == (1.002, Keepalive(1, 1, 6))
    assert (last, planned) == (500.001, Keepalive(5, 1, 6))


def partly(stream: FakeStream) -> None:
    """The peer's kernel takes one byte, and no more before the answer."""
    if stream.request() is not None:
        stream.acknowledged = 1
        stream.says(4.0, answer())


def test_one_byte_acknowledged_and_no_more() -> None:
    """What moved gives it as much time again: the next look, 0.2 s later, finds it spent."""
    network = FakeNetwork(a=[Line(partly, acked=math.inf), GOOD])
    with client(network) as calls:
        assert calls.put(URL, content=b"x" * 1000).content == b"ok"
    assert network.said("dial") == [(0.0, "dial 10.0.0.1"), (0.301, "dial 10.0.0.1")]


def test_what_an_earlier_request_had_acknowledged_does_not_count() -> None:
    """The mark is where this request began, not where the connection did."""
    replies = iter([0.001, math.inf])

    def script(stream: FakeStream) -> None:
        stream.request()
        if next(replies) < 1:
            stream.acknowledged = stream.written
            stream.says(0.01, answer())

    network = FakeNetwork(a=[Line(script, acked=math.inf), GOOD])
    with client(network) as calls:
        calls.get(URL)
        began = network.time
        response = calls.get(URL)
    assert words(response, "pool")[0] == "reused"
    assert network.said("dial")[1][0] == pytest.approx(began + 0.1)


def test_a_closed_window_is_no_suspicion() -> None:
    """The peer answers probes: it lives, and merely does not read."""

    def deaf(stream: FakeStream) -> None:
        stream.room = 0
        stream.request()
        stream.says(3.0, answer())

    network = FakeNetwork(a=Line(deaf, acked=math.inf))
    with client(network) as calls:
        calls.get(URL)
    assert len(network.said("dial")) == 1


@pytest.mark.parametrize(
    ("method", "policy"),
    [
        ("POST", Policy()),
        ("PATCH", Policy()),
        ("GET", Policy(watch=False)),
        ("GET", Policy(attempts=1)),
        ("GET", Policy(idempotent=False)),
    ],
)
def test_a_suspect_that_may_not_be_repeated_is_waited_for(method: str, policy: Policy) -> None:
    network = FakeNetwork(a=[late(3.0), GOOD])
    with client(network, policy=policy) as calls:
        response = calls.request(method, URL)
        assert response.content == b"late"
        assert calls.request(method, URL).content == b"late"  # it is kept, and used again
    assert len(network.said("dial")) == 1


def test_a_post_by_the_callers_word_is_repeated() -> None:
    network = FakeNetwork(a=[NEVER, GOOD])
    with client(network) as calls:
        calls.post(URL, content=b"payload", extensions={"outlast": {"idempotent": True}})
    bodies = [request.partition(b"\r\n\r\n")[2] for request in network.requests]
    assert bodies == [b"payload", b"payload"]


def test_a_stream_is_not_sent_twice() -> None:
    def script(stream: FakeStream) -> None:
        if stream.request() is not None:
            stream.says(3.0, answer())

    network = FakeNetwork(a=Line(script, acked=math.inf))
    with client(network) as calls:
        calls.put(URL, content=iter([b"one", b"two"]))
    assert len(network.said("dial")) == 1


# -- places --------------------------------------------------------------------------------


def test_the_suspects_place_moves_to_the_second_attempt() -> None:
    limits = httpx.Limits(max_connections=1)
    network = FakeNetwork(a=[NEVER, GOOD])
    with client(network, limits=limits) as calls:
        for _ in range(3):
            assert calls.get(URL).content == b"ok"
    assert len(network.said("dial")) == 2
    network = FakeNetwork(a=[late(0.5), Line(answers(1.0))])
    with client(network, limits=limits) as calls:
        assert calls.get(URL).content == b"late"
        assert calls.get(URL).content == b"ok"


def test_a_budget_bounds_second_attempts() -> None:
    """30 from the reserve, and a fifth of what is asked: then suspects are waited for."""
    network = FakeNetwork(a=Line(answers(0.252), acked=math.inf))
    limits, policy = httpx.Limits(max_keepalive_connections=0), Policy(attempts=2)
    with client(network, limits=limits, policy=policy) as calls:
        found = [words(calls.get(URL)) for _ in range(60)]
    refused = [n for n, what in enumerate(found) if "retry budget is spent" in " ".join(what)]
    assert refused[0] >= 30
    assert len(network.said("dial")) == 60 + 60 - len(refused)


# -- keepalive that is hurried while a response is awaited ---------------------------------


def test_keepalive_of_a_second_is_never_touched() -> None:
    """There is nothing to hurry, and nothing to count."""
    network = FakeNetwork(a=Line(answers(30.0)))
    with client(network, policy=Policy(keepalive=Keepalive(1, 1, 6))) as calls:
        calls.get(URL)
        calls.get(URL)
    assert network.streams[0].keepalives == []


@pytest.mark.parametrize("policy", [Policy(keepalive=None), Policy()])
def test_a_quick_reply_meets_no_look(policy: Policy) -> None:
    network = FakeNetwork(a=Line(answers(0.099)))
    with client(network, policy=policy) as calls:
        for _ in range(10):
            calls.get(URL)
    assert network.streams[0].looks == []
    assert network.streams[0].keepalives == []


# -- patience with the first byte ----------------------------------------------------------


@pytest.mark.parametrize("read", [None, 5.0])
def test_a_mute_peer_is_left_after_first_byte(read: float | None) -> None:
    """Its kernel acknowledges: nothing speaks against it but the policy's own patience."""
    network = FakeNetwork(a=[Line(silent), GOOD])
    policy = Policy(first_byte=2.0, backoff=AT_ONCE)
    with client(network, policy=policy, timeout=httpx.Timeout(None, read=read)) as calls:
        response = calls.get(URL)
        assert response.content == b"ok"
    assert network.said("dial") == [(0.0, "dial 10.0.0.1"), (2.001, "dial 10.0.0.1")]
    assert "within 2 s (first_byte)" in words(response)[2]


def test_first_byte_is_over_when_a_byte_has_come() -> None:
    def slowly(stream: FakeStream) -> None:
        if stream.request() is not None:
            stream.says(1.0, answer()[:9])
            stream.says(9.0, answer()[9:])

    network = FakeNetwork(a=Line(slowly))
    with client(network, policy=Policy(first_byte=2.0)) as calls:
        assert calls.get(URL).content == b"ok"
    assert len(network.said("dial")) == 1


def test_a_shorter_read_timeout_is_still_final() -> None:
    network = FakeNetwork(a=[Line(silent), GOOD])
    with client(network, policy=Policy(first_byte=2.0), timeout=1.0) as calls:
        with pytest.raises(httpx.ReadTimeout, match="within 1 s"):
            calls.get(URL)
    assert len(network.said("dial")) == 1


def test_a_post_without_a_first_byte_is_an_error() -> None:
    network = FakeNetwork(a=[Line(silent), GOOD])
    with client(network, policy=Policy(first_byte=2.0)) as calls:
        with pytest.raises(httpx.ReadTimeout, match="acknowledged by the peer's kernel"):
            calls.post(URL)
    assert len(network.requests) == 1
