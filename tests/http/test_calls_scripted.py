"""Calls at exact instants of virtual time: limits, waits between attempts, fail-over."""

from __future__ import annotations

import itertools
import math
from email.utils import formatdate
from typing import Any

import httpx
import pytest

import outlast
from outlast import Backoff, Policy, Progress
from tests.http.callers import report_of, words
from tests.http.fake_network import FakeNetwork, FakeStream, Line, answer, answers, silent, target
from tests.http.virtual_calls import AT_ONCE, URL, client

TINY = 1e-6  # seconds, of rounding
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


# -- limits --------------------------------------------------------------------------------


def test_a_read_timeout_is_exact() -> None:
    network = FakeNetwork(a=Line(silent))
    with client(network, timeout=3.0) as calls:
        with pytest.raises(httpx.ReadTimeout, match="acknowledged by the peer's kernel"):
            calls.get(URL)
        assert network.time == pytest.approx(3.001)
    assert len(network.requests) == 1


def test_a_read_timeout_begins_again_with_every_byte() -> None:
    network = FakeNetwork(a=drip(2.0, 10))
    with client(network, timeout=3.0) as calls:
        assert calls.get(URL).content == b"x" * 10
    assert network.time == pytest.approx(22.001)


def test_a_read_timeout_begins_again_within_the_head() -> None:
    def script(stream: FakeStream) -> None:
        if stream.request() is not None:
            for number, piece in enumerate([b"HTTP/1.1 ", b"200 OK\r\n", b"A: b\r\n\r\n"]):
                stream.says(2.0 * (number + 1), piece)
            stream.ends(8.0)

    network = FakeNetwork(a=Line(script))
    with client(network, timeout=3.0) as calls:
        assert calls.get(URL).headers["a"] == "b"
    assert network.time == pytest.approx(8.001)


def test_a_big_head_is_read_to_its_end() -> None:
    """More than one read may be had at once, and nothing tells of the second."""
    filler = b"X-Filler: " + b"x" * 90_000
    network = FakeNetwork(a=Line(answers(0.01, answer(b"ok", 200, filler))))
    with client(network, timeout=3.0) as calls:
        assert len(calls.get(URL).headers["x-filler"]) == 90_000
    assert network.time == pytest.approx(0.011)


def test_a_connect_timeout_bounds_all_dials_together() -> None:
    network = FakeNetwork(a=Line(silent, connect=math.inf), b=Line(silent, connect=math.inf))
    with client(network, "a", "b", timeout=2.0) as calls:
        with pytest.raises(httpx.ConnectTimeout) as caught:
            calls.post(URL)
        assert network.time == pytest.approx(2.0)
    assert {what for _, what in network.said("dial")} == {"dial 10.0.0.1", "dial 10.0.0.2"}
    assert report_of(caught.value).progress is Progress.NOT_SENT


def test_connect_time_is_spent_once_per_call() -> None:
    """Two connects of one call share its connect timeout."""
    slow = Line(answers(0.0, BUSY), connect=0.8)
    network = FakeNetwork(a=[slow, Line(silent, connect=0.8)])
    with client(network, policy=Policy(backoff=AT_ONCE, open_attempts=1), timeout=1.0) as calls:
        assert calls.get(URL).status_code == 503
        assert network.time == pytest.approx(1.0)


def test_pool_time_is_spent_once_per_call() -> None:
    network = FakeNetwork(a=GOOD)
    with client(network, limits=httpx.Limits(max_connections=1)) as calls:
        with calls.stream("GET", URL) as response:
            began = network.time
            with pytest.raises(httpx.PoolTimeout):
                calls.get(URL, timeout=httpx.Timeout(9.0, pool=1.5))
            assert network.time == pytest.approx(began + 1.5)
            response.read()


def test_a_deadline_bounds_a_slow_drip() -> None:
    """Each byte comes in time, the whole does not."""
    network = FakeNetwork(a=drip(0.4, 100))
    with client(network, policy=Policy(deadline=3.0), timeout=1.0) as calls:
        with pytest.raises(httpx.ReadTimeout, match=r"deadline of 3 s.*never repeated"):
            calls.get(URL)
        assert network.time == pytest.approx(3.0)
    assert network.streams[0].end == ("aborted", 3.0)


def test_a_deadline_bounds_all_attempts_together() -> None:
    network = FakeNetwork(a=hang_up(0.4))
    policy = Policy(deadline=1.0, attempts=100, backoff=AT_ONCE)
    with client(network, policy=policy, timeout=30.0) as calls:
        with pytest.raises(httpx.ReadTimeout, match="deadline of 1 s"):
            calls.get(URL)
        assert network.time == pytest.approx(1.0)
    assert len(network.requests) == 3


def test_a_deadline_holds_while_waiting_to_try_again() -> None:
    """No sleep that the deadline would end: the failure comes at once."""
    network = FakeNetwork(a=hang_up(0.4))
    policy = Policy(deadline=1.0, backoff=Backoff(60.0, 60.0))
    with client(network, policy=policy) as calls:
        with pytest.raises(httpx.RemoteProtocolError) as caught:
            calls.get(URL)
        assert network.time == pytest.approx(0.401)
    assert "the deadline comes first" in words(caught.value)[-1]


def test_a_write_timeout_is_exact() -> None:
    network = FakeNetwork(a=Line(silent, room=1000))
    with client(network, timeout=3.0) as calls:
        with pytest.raises(httpx.WriteTimeout):
            calls.put(URL, content=b"x" * 10_000)
        assert network.time == pytest.approx(3.001)
    assert len(network.said("dial")) == 1


# -- between attempts ----------------------------------------------------------------------


def busy_then_good(*headers: bytes) -> Line:
    def script(stream: FakeStream) -> None:
        if stream.request() is not None:
            first = len(stream.network.requests) == 1
            stream.says(0.01, answer(b"busy", 503, *headers) if first else answer())

    return Line(script)


def test_retry_after_is_waited_for() -> None:
    network = FakeNetwork(a=busy_then_good(b"Retry-After: 7"))
    with client(network) as calls:
        assert calls.get(URL).content == b"ok"
    waited = network.said("10.0.0.1 has")[1][0] - (0.001 + 0.01 + 0.001)
    assert 7.0 <= waited + TINY <= 7.7 + 2 * TINY


def test_retry_after_may_be_a_date() -> None:
    network = FakeNetwork(a=busy_then_good())
    moment = formatdate(network.wall + 5.0, usegmt=True).encode()
    network = FakeNetwork(a=busy_then_good(b"Retry-After: " + moment))
    with client(network) as calls:
        assert calls.get(URL).content == b"ok"
    assert 5.0 <= network.said("10.0.0.1 has")[1][0] - 0.001 + TINY <= 5.5 + 2 * TINY


def test_a_back_off_is_jittered_below_its_ceiling() -> None:
    network = FakeNetwork(a=Line(answers(0.0, BUSY)))
    policy = Policy(attempts=6)
    with client(network, policy=policy) as calls:
        assert calls.get(URL).status_code == 503
    moments = [moment for moment, _ in network.said("10.0.0.1 has")]
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    for gap, ceiling in zip(gaps, [0.025, 0.05, 0.1, 0.2, 0.25], strict=True):
        assert 0 < gap <= ceiling + 0.002
    assert len(set(gaps)) == 5


# -- nothing was sent ----------------------------------------------------------------------


def once_then_broken(stream: FakeStream) -> None:
    """Serves one request; the next write fails, though nothing was to be seen before."""
    if stream.request() is not None:
        stream.says(0.01, answer(b"first"))
        stream.broken = BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_write_that_never_left_is_repeated(method: str) -> None:
    network = FakeNetwork(a=[Line(once_then_broken), GOOD])
    with client(network, policy=Policy(attempts=1)) as calls:
        calls.get(URL)
        response = calls.request(method, URL, content=b"payload")
        assert response.content == b"ok"
    assert [request.split()[0].decode() for request in network.requests] == ["GET", method]
    assert "repeated (nothing was sent)" in " ".join(words(response))


def test_a_stream_that_was_not_taken_is_sent_on_a_new_connection() -> None:
    """The head never left, so nobody asked for the body yet: it can still be sent, once."""
    taken = []

    def body() -> object:
        taken.append(1)
        yield b"payload"

    network = FakeNetwork(a=[Line(once_then_broken), GOOD])
    with client(network) as calls:
        calls.get(URL)
        assert calls.post(URL, content=body()).content == b"ok"  # type: ignore[arg-type]  # a generator
    assert len(taken) == 1
    assert b"payload" in network.requests[1]


# -- answers while writing -----------------------------------------------------------------


def test_interim_answers_do_not_end_an_upload() -> None:
    """102 comes while nothing more can be written; the request goes on when the window opens."""

    def script(stream: FakeStream) -> None:
        if stream.room == 0:
            stream.says(0.1, b"HTTP/1.1 102 Processing\r\n\r\n")
            stream.says(0.2, b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
            stream.opens(0.5)
        if stream.request() is not None:
            stream.says(0.1, answer())

    network = FakeNetwork(a=Line(script, room=1000))
    with client(network, timeout=5.0) as calls:
        assert calls.post(URL, content=b"x" * 5000).content == b"ok"
        assert network.time == pytest.approx(0.001 + 0.5 + 0.1)
    assert network.requests[0].endswith(b"x" * 5000)
    assert len(network.streams) == 1


def test_a_final_answer_ends_an_upload() -> None:
    def script(stream: FakeStream) -> None:
        if stream.room == 0:
            stream.says(0.1, b"HTTP/1.1 102 Processing\r\n\r\n")
            stream.says(0.2, answer(b"too big", 413))

    network = FakeNetwork(a=Line(script, room=1000))
    with client(network, timeout=5.0) as calls:
        response = calls.post(URL, content=b"x" * 5000)
        assert (response.status_code, response.content) == (413, b"too big")
        assert network.time == pytest.approx(0.201)
    assert network.streams[0].end == ("closed", 0.201)
    assert network.streams[0].user_timeouts[-1][1] == 0.0  # what is left unsent may stay so


def test_an_answer_may_come_before_the_write_fails() -> None:
    """A server that refuses an upload, and resets what it did not read: its word counts."""

    def script(stream: FakeStream) -> None:
        stream.says(0.1, answer(b"too big", 413))
        stream.breaks(0.1)

    network = FakeNetwork(a=Line(script, room=1000))
    with client(network, timeout=5.0) as calls:
        response = calls.post(URL, content=iter([b"x" * 500, b"x" * 5000]))
        assert (response.status_code, response.content) == (413, b"too big")

    def later(stream: FakeStream) -> None:
        """The write fails first, then the answer comes in."""
        stream.broken = BrokenPipeError(32, "Broken pipe")
        stream.says(0.1, answer(b"too big", 413))

    network = FakeNetwork(a=Line(later))
    with client(network, timeout=5.0) as calls:
        response = calls.post(URL, content=iter([b"x" * 500, b"x" * 5000]))
        assert (response.status_code, response.content) == (413, b"too big")


def test_a_write_that_failed_without_an_answer_is_a_disconnect() -> None:
    """As with httpx, which reads on after a failed write; the text tells of the write."""

    def script(stream: FakeStream) -> None:
        stream.broken = BrokenPipeError(32, "Broken pipe")
        stream.ends(0.1)

    network = FakeNetwork(a=Line(script))
    with client(network) as calls:
        told = "Server disconnected .*Broken pipe; sent, no response"
        with pytest.raises(httpx.RemoteProtocolError, match=told) as caught:
            calls.post(URL, content=iter([b"x", b"y"]))
    assert report_of(caught.value).progress is Progress.SENT


def test_a_head_that_is_reset_is_never_repeated() -> None:
    def script(stream: FakeStream) -> None:
        if stream.request() is not None:
            stream.says(0.1, b"HTTP/1.1 20")
            stream.breaks(0.2)

    network = FakeNetwork(a=Line(script))
    with client(network) as calls:
        with pytest.raises(httpx.ReadError, match="response begun") as caught:
            calls.get(URL)
    assert len(network.requests) == 1
    assert "not repeated (the response had begun)" in words(caught.value)[-1]


def test_an_end_without_an_answer_while_writing_is_no_answer() -> None:
    def script(stream: FakeStream) -> None:
        stream.ends(0.1)

    network = FakeNetwork(a=[Line(script, room=1000), GOOD])
    with client(network, policy=Policy(backoff=AT_ONCE)) as calls:
        assert calls.put(URL, content=b"x" * 5000).content == b"ok"
    network = FakeNetwork(a=Line(script, room=1000))
    with client(network) as calls:
        with pytest.raises(httpx.RemoteProtocolError, match="without sending a response") as caught:
            calls.post(URL, content=b"x" * 5000)
    assert report_of(caught.value).progress is Progress.SENT


# -- fail-over -----------------------------------------------------------------------------


def test_an_endpoint_that_failed_is_dialled_last_for_a_while() -> None:
    network = FakeNetwork(a=Line(silent, code=111), b=GOOD)
    limits = httpx.Limits(max_keepalive_connections=0)
    with client(network, "a", "b", limits=limits) as calls:
        for _ in range(10):
            calls.post(URL)
    assert len([1 for _, what in network.said("dial") if what == "dial 10.0.0.1"]) == 1


@pytest.mark.parametrize("url", [URL, "http://headless.shop.svc/"])
def test_a_repeat_goes_to_another_endpoint(url: str) -> None:
    """Whether the endpoints are listed or looked up, and nothing but this call's failure is
    held against the one that hung up."""
    for _ in range(4):
        network = FakeNetwork(a=hang_up(0.01), b=GOOD)
        with client(network, "a", "b", policy=Policy(attempts=2, backoff=AT_ONCE)) as calls:
            for _ in range(4):
                assert calls.get(url).content == b"ok"


@pytest.mark.parametrize("bad", [answers(0.01, answer(b"busy", 503)), hang_up(0.01).script])
def test_a_repeat_goes_to_another_endpoint_than_the_preferred_one(bad: Any) -> None:
    network = FakeNetwork(a=Line(bad), b=GOOD)
    aim = outlast.Target(target("a", "b"), balance=outlast.PickFirst())
    policy = Policy(attempts=2, backoff=AT_ONCE)
    transport = outlast.Transport(network=network, targets={URL: aim}, policy=policy)
    with httpx.Client(transport=transport) as calls:
        assert calls.get(URL).content == b"ok"
    assert [each.address.host for each in network.streams] == ["10.0.0.1", "10.0.0.2"]


def test_all_endpoints_dead_is_told_with_every_dial() -> None:
    network = FakeNetwork(a=Line(silent, code=111), b=Line(silent, code=113))
    with client(network, "a", "b") as calls:
        with pytest.raises(httpx.ConnectError, match="nothing was sent") as caught:
            calls.get(URL)
    told = report_of(caught.value).of_phase("connect")
    assert {(event.address, event.errno) for event in told} == {
        ("10.0.0.1:80", 111),
        ("10.0.0.2:80", 113),
    }
