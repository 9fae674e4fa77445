"""What a policy says of its repeats, at exact instants of virtual time: tenacity's strategies, the
budget, a router's own repeats and its cookie, dry runs."""

from __future__ import annotations

import gzip
import itertools

import httpx
import pytest
import tenacity

import outlast
from outlast import Policy
from outlast.core.call import Repeat
from tests.http.callers import words
from tests.http.fake_network import FakeNetwork, FakeStream, Line, answer, answers
from tests.http.virtual_calls import AT_ONCE, URL, client

BUSY = answer(b"busy", 503)
GOOD = Line(answers(0.01))


def instants(network: FakeNetwork) -> list[float]:
    """When requests arrived."""
    return [at for at, what in network.log if " has " in what]


def refuses(*headers: bytes, status: int = 503) -> Line:
    return Line(answers(0.01, answer(b"busy", status, *headers)))


def hang_up(stream: FakeStream) -> None:
    if stream.request() is not None:
        stream.ends(0.4)


# -- tenacity ------------------------------------------------------------------------------


def test_a_wait_of_tenacity_spaces_the_repeats() -> None:
    network = FakeNetwork(a=refuses())
    policy = Policy(attempts=4, backoff=tenacity.wait_incrementing(start=1, increment=1))
    with client(network, policy=policy) as calls:
        assert calls.get(URL).status_code == 503
    gaps = [later - earlier for earlier, later in itertools.pairwise(instants(network))]
    assert gaps == pytest.approx([1.011, 2.011, 3.011])


def test_a_jittered_wait_lies_between_its_bounds() -> None:
    network = FakeNetwork(a=refuses())
    wait = tenacity.wait_exponential_jitter(initial=1, max=60, jitter=0.5)
    with client(network, policy=Policy(attempts=4, backoff=wait)) as calls:
        calls.get(URL)
    gaps = [later - earlier for earlier, later in itertools.pairwise(instants(network))]
    assert len(gaps) == 3
    for gap, least in zip(gaps, [1.0, 2.0, 4.0], strict=True):
        assert least <= gap <= least + 0.5 + 0.012


def test_a_stop_of_tenacity_reads_the_network_s_clock() -> None:
    network = FakeNetwork(a=refuses())
    policy = Policy(attempts=100, backoff=tenacity.wait_fixed(1), stop=tenacity.stop_after_delay(3))
    with client(network, policy=policy) as calls:
        response = calls.get(URL)
    assert response.status_code == 503
    assert len(network.requests) == 4  # at 0, 1, 2 and 3 s
    assert "the policy's own stop has come" in words(response)[-1]


def test_a_condition_on_results_chooses_the_answers() -> None:
    """404 is repeated because it says so, 503 is not any more; the body has not been read."""
    seen: list[httpx.Response] = []

    def missing(response: httpx.Response) -> bool:
        seen.append(response)
        return response.status_code == 404

    policy = Policy(backoff=AT_ONCE, retry_if=tenacity.retry_if_result(missing))
    squeezed = answer(gzip.compress(b"no"), 404, b"Content-Encoding: gzip")
    network = FakeNetwork(a=[Line(answers(0.01, squeezed)), GOOD])
    with client(network, policy=policy) as calls:
        assert calls.get(URL).content == b"ok"
    assert [each.status_code for each in seen] == [404, 200]
    assert seen[0].headers["content-encoding"] == "gzip"
    assert seen[0].content == b""
    assert seen[0].request.url == URL
    network = FakeNetwork(a=refuses())
    with client(network, policy=policy) as calls:
        assert calls.get(URL).status_code == 503
    assert len(network.requests) == 1


def test_a_condition_makes_nothing_safe() -> None:
    network = FakeNetwork(a=refuses())
    with client(network, policy=Policy(retry_if=tenacity.retry_always)) as calls:
        assert calls.post(URL).status_code == 503
    assert len(network.requests) == 1


@pytest.mark.parametrize(
    ("kind", "requests"), [(httpx.RemoteProtocolError, 3), (httpx.ReadError, 1)]
)
def test_a_condition_on_exceptions(kind: type[Exception], requests: int) -> None:
    network = FakeNetwork(a=Line(hang_up))
    policy = Policy(backoff=AT_ONCE, retry_if=tenacity.retry_if_exception_type(kind))
    with client(network, policy=policy) as calls:
        with pytest.raises(httpx.RemoteProtocolError) as caught:
            calls.get(URL)
    assert len(network.requests) == requests
    if requests == 1:
        assert "own condition does not repeat it" in words(caught.value)[-1]


def test_a_condition_is_not_asked_where_nothing_was_sent() -> None:
    """The same exception as the caller's; and no repeat in the server's eyes is forbidden."""
    asked: list[object] = []

    def once_then_broken(stream: FakeStream) -> None:
        if stream.request() is not None:
            stream.says(0.01, answer(b"first"))
            stream.broken = BrokenPipeError(32, "Broken pipe")

    network = FakeNetwork(a=[Line(once_then_broken), GOOD])

    def never(state: tenacity.RetryCallState) -> bool:
        asked.append(state.outcome)
        return False

    with client(network, policy=Policy(retry_if=never)) as calls:
        calls.get(URL)
        response = calls.get(URL)
        assert response.content == b"ok"
        assert "repeated (nothing was sent)" in " ".join(words(response))
    assert len(asked) == 2  # of the answers


def test_a_stop_sees_the_exception_that_the_caller_would_get() -> None:
    seen: list[BaseException | None] = []

    def stop(state: tenacity.RetryCallState) -> bool:
        assert state.outcome is not None
        seen.append(state.outcome.exception())
        return state.attempt_number >= 2

    network = FakeNetwork(a=Line(hang_up))
    with client(network, policy=Policy(backoff=AT_ONCE, stop=stop)) as calls:
        with pytest.raises(httpx.RemoteProtocolError):
            calls.get(URL)
    assert len(network.requests) == 2
    assert [type(each) for each in seen] == [httpx.RemoteProtocolError] * 2
    assert all(outlast.report_of(each) for each in seen)  # not None, nor empty
    assert isinstance(seen[0], httpx.RequestError)
    assert seen[0].request.url == URL


def test_what_a_strategy_raises_reaches_the_caller() -> None:
    def broken(state: object) -> bool:
        raise ZeroDivisionError

    network = FakeNetwork(a=refuses())
    with client(network, policy=Policy(stop=broken)) as calls, pytest.raises(ZeroDivisionError):
        calls.get(URL)


# -- the budget ----------------------------------------------------------------------------


def test_a_call_s_own_budget() -> None:
    network = FakeNetwork(a=refuses())
    with client(network, policy=Policy(backoff=AT_ONCE, retry_budget=(0, 0))) as calls:
        response = calls.get(URL)
        assert "the retry budget is spent" in words(response)[-1]
        assert len(network.requests) == 1
        more = {"outlast": {"retry_budget": (0, 0.1)}}  # one in ten seconds
        calls.get(URL, extensions=more)
        assert len(network.requests) == 3
        calls.get(URL, extensions=more)
        assert len(network.requests) == 4


# -- routers and meshes --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "requests", "why"),
    [
        (b"X-Envoy-Attempt-Count: 1", 3, "all 3 attempts are used"),
        (b"X-Envoy-Attempt-Count: 2", 2, "all 3 attempts are used, 2 of them by a router"),
        (b"X-Envoy-Attempt-Count: 3", 1, "all 3 attempts are used, 2 of them by a router"),
        (b"X-Envoy-Overloaded: true", 1, "x-envoy-overloaded forbids it"),
        (b"X-Envoy-RateLimited: true", 1, "x-envoy-ratelimited forbids it"),
    ],
)
def test_a_mesh_s_repeats_are_not_multiplied(header: bytes, requests: int, why: str) -> None:
    network = FakeNetwork(a=refuses(header))
    with client(network, policy=Policy(backoff=AT_ONCE)) as calls:
        response = calls.get(URL)
    assert len(network.requests) == requests
    assert why in words(response)[-1]


# -- sticky cookies ------------------------------------------------------------------------

ROUTE = "d41d8cd98f00b204e9800998ecf8427e=0cc175b9c0f1b6a831c399e269772661"


@pytest.mark.parametrize(
    ("given", "first", "later"),
    [
        (f"a=1; {ROUTE}; b=2", f"a=1; {ROUTE}; b=2", "a=1; b=2"),
        (ROUTE, ROUTE, None),
        ("a=1", "a=1", "a=1"),
    ],
)
def test_a_router_s_cookie_is_left_out_of_repeats(
    given: str, first: str, later: str | None
) -> None:
    network = FakeNetwork(a=[refuses(), GOOD])
    policy = Policy(backoff=AT_ONCE, sticky_cookies="openshift")
    with client(network, policy=policy) as calls:
        assert calls.get(URL, headers={"Cookie": given}).content == b"ok"
    sent = [cookie_of(request) for request in network.requests]
    assert sent == [first, later]


def cookie_of(request: bytes) -> str | None:
    for line in request.decode().split("\r\n"):
        name, _, value = line.partition(": ")
        if name.lower() == "cookie":
            return value
    return None


# -- dry run -------------------------------------------------------------------------------


def test_a_dry_run_of_repeats_only_counts() -> None:
    network = FakeNetwork(a=refuses())
    transport = outlast.Transport(
        network=network, targets={URL: "static://10.0.0.1:80"}, policy=Policy(dry_run="repeats")
    )
    with httpx.Client(transport=transport) as calls:
        response = calls.get(URL)
        assert response.status_code == 503
        assert "a dry run only counts it (retry_status)" in words(response)[-1]
        assert len(network.requests) == 1
        (service,) = transport._engine._services.values()
        assert service.held_back == {Repeat.STATUS: 1}
        (shot,) = outlast.snapshot(network)
        assert shot.held_back == 1
        assert "1 repeats held back" in str(outlast.snapshot(network))
        assert service.repeats_left(network.time) > 30.0  # nothing was drawn


def test_a_dry_run_of_other_rules_changes_nothing() -> None:
    network = FakeNetwork(a=refuses())
    policy = Policy(backoff=AT_ONCE, dry_run={"hedge", "retry_unanswered"})
    with client(network, policy=policy) as calls:
        calls.get(URL)
    assert len(network.requests) == 3
