"""Reports from the field, groups D, E and L: idle connections, HTTP/2, full pools."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx
import pytest

import outlast
from outlast.testing.simnet.packet import Segment
from tests.fire.h2_pod import Books, serve_h2
from tests.fire.servers import keeping, leaving
from tests.fire.worlds import NAME, URL, cluster, connecting, load, pods_of, report

H2: dict[str, Any] = {"http1": False, "http2": True}


def ask(client: httpx.Client, method: str, name: str, **more: Any) -> httpx.Response:
    return client.request(method, URL, headers={"x-request-id": name}, **more)


def port_of(source: object) -> int:
    return report(source).events[-1].local_port


# -- D: idle connections -------------------------------------------------------------------


@pytest.mark.incident("FR-33")
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("idle", [1.0, 5.0])
def test_fr33_a_request_meets_the_close_of_its_connection(idle: float, method: str) -> None:
    """Sent at the server's limit, a few milliseconds more or less, at every tenth of one, and
    packet by packet around the close itself."""
    seen: Counter[str] = Counter()
    net = cluster(1, serves=keeping(seen, idle=idle))
    gaps = [idle + number / 10_000 for number in range(-30, 31)]
    gaps += [idle - 0.0003 + number / 100_000 for number in range(40)]
    errors: list[httpx.RemoteProtocolError] = []
    with connecting(net) as client:
        for number, gap in enumerate(gaps):
            ask(client, "GET", f"before-{number}")
            net.sleep(gap)
            try:
                assert ask(client, method, f"at-{number}").text == f"at-{number}"
            except httpx.RemoteProtocolError as error:
                errors.append(error)
    assert all("not idempotent and maybe sent" in str(report(error)) for error in errors)
    assert len(errors) <= (14 if method == "POST" else 0), "those that crossed the close"
    times = Counter(seen[f"at-{number}"] for number in range(len(gaps)))
    assert times[1] == len(gaps) - len(errors)
    assert times[0] == len(errors)
    assert pods_of(net)[0].counts()["connections"] < 2 * len(gaps)


@pytest.mark.incident("FR-35")
def test_fr35_an_hour_of_polling_at_the_servers_own_limit() -> None:
    """Period, server's idle limit and client's expiry are all 5 s; and after 50 requests it closes
    a connection without a word."""
    seen: Counter[str] = Counter()
    net = cluster(1, serves=keeping(seen, idle=5.0, most=50))
    limits = httpx.Limits(keepalive_expiry=5.0)
    with connecting(net, limits=limits) as client:
        number = 0
        while net.elapsed() < 3600.0:
            assert ask(client, "GET", f"poll-{number}").status_code == 200
            number += 1
            net.sleep(5.0)
    assert set(seen.values()) == {1}
    assert number > 700


# -- E: HTTP/2 -----------------------------------------------------------------------------


@pytest.mark.incident("FR-37")
@pytest.mark.parametrize(("method", "timeout", "lost"), [("GET", 1.0, 0), ("POST", 1.0, 1)])
def test_fr37_one_flow_of_http2_is_dropped(method: str, timeout: float, lost: int) -> None:
    books = Books()
    net = cluster(2, serves=serve_h2(books, 0, 100))
    failed = 0
    with connecting(net, timeout=timeout, **H2) as client:
        port = port_of(ask(client, "GET", "first"))

        def hole(segment: Segment) -> bool:
            return segment.src[1] == port or segment.dst[1] == port

        net.client.kernel.link.away.rules.append(hole)
        net.client.kernel.link.towards.rules.append(hole)
        for number in range(20):
            begun = net.elapsed()
            try:
                answer = ask(client, method, f"then-{number}")
                assert port_of(answer) != port
            except httpx.TransportError:
                failed += 1
            assert net.elapsed() - begun <= timeout + 0.001
    assert failed <= lost
    assert max(books.applied.values()) == 1


@pytest.mark.incident("FR-37")
def test_fr37_with_a_timeout_of_a_minute_recovery_is_detection() -> None:
    books = Books()
    net = cluster(2, serves=serve_h2(books, 0, 100))
    with connecting(net, timeout=60.0, **H2) as client:
        ask(client, "GET", "first")
        for node in net.nodes.values():
            if node.kernel.connections:
                node.black_hole()
        begun = net.elapsed()
        assert ask(client, "GET", "then").status_code == 200
        assert net.elapsed() - begun < 0.5


@pytest.mark.incident("FR-38")
@pytest.mark.parametrize("fault", ["kill", "reset", "freeze", "black_hole", "power_off"])
def test_fr38_an_error_never_leads_to_the_same_connection(fault: str) -> None:
    books = Books()
    net = cluster(2, serves=serve_h2(books, 0, 100))
    ports: list[int] = []
    with connecting(net, timeout=2.0, **H2) as client:
        first = port_of(ask(client, "GET", "first"))
        node = next(each for each in net.nodes.values() if each.kernel.connections)
        strike = getattr(node.pods[0], fault, None) or getattr(node, fault)
        strike()
        for number in range(10):
            try:
                ports.append(port_of(ask(client, "GET", f"then-{number}")))
            except httpx.TransportError as error:
                ports.append(-port_of(error))
    failed = [-port for port in ports if port < 0]
    assert len(failed) == len(set(failed)), "no connection has failed twice"
    assert len(failed) <= (6 if fault == "freeze" else 0), "TCP is blind to a program that hangs"
    assert fault == "freeze" or first not in ports


@pytest.mark.incident("FR-38")
def test_fr38_an_explicit_purge() -> None:
    """From outside, while a request is in flight: it is answered, the next goes elsewhere."""
    net = cluster(1, serves=serve_h2(Books(), 0, 100))
    transport = outlast.Transport(network=net, **H2)
    with net, net.running(), httpx.Client(transport=transport) as client:
        url, headers = f"{URL}?delay=2", {"x-request-id": "slow"}
        slow = net.thread(lambda: client.get(url, headers=headers))
        net.sleep(1.0)
        assert transport.drop(f"http://{NAME}") == 1
        quick = ask(client, "GET", "quick")
        assert slow.result().status_code == quick.status_code == 200
        assert port_of(quick) != port_of(slow.result())


@pytest.mark.incident("FR-40")
@pytest.mark.parametrize("acted_on", [0, 1, 2, 3])
def test_fr40_a_server_leaves_with_streams_in_flight(acted_on: int) -> None:
    """What it has not acted on is sent again, whatever the method; what it has, only if that may
    be repeated."""
    seen: Counter[str] = Counter()
    first = lambda number: acted_on if number == 1 else None  # noqa: E731
    net = cluster(1, serves=leaving(seen, first, together=3))
    results: dict[str, Any] = {}
    with connecting(net, **H2) as client:

        def call(name: str, method: str, after: float) -> None:
            net.sleep(after)
            try:
                results[name] = ask(client, method, name, content=b"body").text
            except httpx.RemoteProtocolError as error:
                results[name] = error

        methods = {"one": "POST", "two": "PUT", "three": "POST"}
        net.gather(
            *(
                lambda name=name, method=method, after=after: call(name, method, after)
                for after, (name, method) in enumerate(methods.items())
            )
        )
    taken = list(methods)[:acted_on]
    for name, method in methods.items():
        if name in taken and method == "POST":
            assert isinstance(results[name], httpx.RemoteProtocolError)
            assert seen[name] == 1
        else:
            assert results[name] == name
            assert seen[name] == 1 + (name in taken)


@pytest.mark.incident("FR-41")
def test_fr41_a_server_that_leaves_after_so_many_requests() -> None:
    """Nobody notices, without a retry either."""
    books = Books()
    net = cluster(1, serves=serve_h2(books, 50, 100))
    with connecting(net, **H2) as client:
        extensions = {"outlast": {"attempts": 1}}
        for number in range(500):
            assert ask(client, "POST", f"{number}", extensions=extensions).status_code == 200
    assert len(books.applied) == 500
    assert set(books.applied.values()) == {1}
    assert pods_of(net)[0].counts()["connections"] in (10, 11)


@pytest.mark.incident("FR-42")
def test_fr42_a_body_that_can_be_made_but_once_and_a_server_that_leaves() -> None:
    """The error's own reason is that the server was leaving."""
    seen: Counter[str] = Counter()
    net = cluster(1, serves=leaving(seen, lambda _: 0, together=1))

    def body() -> Any:
        yield b"half"
        net.sleep(1.0)
        yield b"half"

    with connecting(net, **H2) as client:
        with pytest.raises(httpx.RemoteProtocolError, match=r"GOAWAY.*was not processed") as caught:
            ask(client, "POST", "upload", content=body())
    assert "the body was partly consumed" in str(report(caught.value))
    assert not seen


# -- L: pools ------------------------------------------------------------------------------


@pytest.mark.incident("FR-69")
def test_fr69_a_pool_lives_again_when_a_mute_server_does() -> None:
    """20 threads, 200 requests each at most, a listener that is mute for a minute."""
    net = cluster(1)
    pod = pods_of(net)[0]
    net.at(5.0, pod.freeze)
    net.at(65.0, pod.thaw)
    limits = httpx.Limits(max_connections=10, max_keepalive_connections=10, keepalive_expiry=60)
    ended: list[tuple[float, bool]] = []
    with connecting(net, timeout=httpx.Timeout(5.0), limits=limits) as client:

        def call() -> None:
            begun = net.elapsed()
            try:
                client.get(URL)
            finally:
                ended.append((begun, True))

        calls = load(net, call, until=90.0, pause=0.5, workers=20)
        assert client.get(URL).status_code == 200
    assert calls.errors
    assert all(isinstance(error, httpx.TimeoutException) for error in calls.errors)
    assert calls.slowest <= 10.001, "for a place, and for the answer"
    late = [begun for begun, _ in ended if begun > 70.0]
    assert len(late) > 20 * 2 * 20 * 0.9, "all of 20 threads twice a second"
