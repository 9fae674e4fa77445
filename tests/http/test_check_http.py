"""The active check by HTTP, against raw servers on loopback that answer byte by byte."""

from __future__ import annotations

import re
import ssl
import threading
from typing import Any

import pytest
import trustme

from outlast.core.health_plan import Evidence
from outlast.http.check_http import MOST_BODY, HttpCheck
from outlast.net.address import Address
from outlast.net.kernel import kernel
from outlast.net.options import LocalRefusal
from outlast.service.check_kinds import CheckWay, Outcome
from outlast.testing import Response, SimNet
from tests.http.servers import BOUND, Peer, Server, answering, hang_up, raw, serve
from tests.net.tls_pair import NAME, client_context, server_context
from tests.service.checking import Owner, address_of, probe_once

OK = b"HTTP/1.1 200 OK\r\n"


def where(server: Server) -> Address:
    return address_of(("127.0.0.1", server.port))


def check(server: Server, kind: HttpCheck, way: CheckWay | None = None) -> Outcome:
    """One check; it has to end by itself, without an error."""
    outcome = probe_once(kernel(), kind, where(server), timeout=BOUND, way=way)
    assert isinstance(outcome, Outcome), outcome
    return outcome


# --- what is asked ------------------------------------------------------------------------------


def test_the_request_is_plain_and_closes_its_connection() -> None:
    with Server(serve) as server:
        outcome = check(server, HttpCheck("/healthz?full=1"))
    assert outcome == Outcome(True, "status 200", Evidence.ANSWERS)
    (seen,) = server.requests
    assert (seen.method, seen.target, seen.body) == ("GET", "/healthz?full=1", b"")
    assert seen.headers == {
        "host": server.address,
        "user-agent": "outlast-check",
        "connection": "close",
    }


@pytest.mark.parametrize(
    ("kind", "way", "host"),
    [
        (HttpCheck(), CheckWay(host="orders.shop.svc"), "orders.shop.svc"),
        (HttpCheck(), CheckWay("orders.shop.svc", "orders.shop.svc:8080"), "orders.shop.svc:8080"),
        (HttpCheck(host="other.svc"), CheckWay("orders.shop.svc", "orders.shop.svc"), "other.svc"),
    ],
)
def test_host_is_what_users_say_or_what_the_check_says(
    kind: HttpCheck, way: CheckWay, host: str
) -> None:
    with Server(serve) as server:
        assert check(server, kind, way).ok
    assert server.requests[0].headers["host"] == host


def test_other_methods_and_fields() -> None:
    headers = {"X-Probe": " 1 ", "User-Agent": "kube-probe/1.31"}
    with Server(serve) as server:
        assert check(server, HttpCheck(method="HEAD", headers=headers)).ok
        assert check(server, HttpCheck(method="OPTIONS", headers=list(headers.items()))).ok
    head, options = server.requests
    assert (head.method, options.method) == ("HEAD", "OPTIONS")
    assert head.headers["x-probe"] == options.headers["x-probe"] == "1"
    assert head.headers["user-agent"] == "kube-probe/1.31"


def test_another_port() -> None:
    with Server(serve) as server:
        address = address_of(("127.0.0.1", 9))
        outcome = probe_once(kernel(), HttpCheck(port=server.port), address)
    assert outcome == Outcome(True, "status 200", Evidence.ANSWERS)


# --- what is well -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "wanted", "ok"),
    [
        (200, range(200, 400), True),
        (302, range(200, 400), True),
        (399, range(200, 400), True),
        (400, range(200, 400), False),
        (503, range(200, 400), False),
        (204, {204}, True),
        (200, {204}, False),
        (418, [200, 418], True),
    ],
)
def test_statuses(status: int, wanted: Any, ok: bool) -> None:
    with Server(answering(status)) as server:
        outcome = check(server, HttpCheck(status=wanted))
    assert (outcome.ok, outcome.evidence) == (ok, Evidence.ANSWERS)
    assert outcome.why.startswith(f"status {status}")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [(range(200, 400), "200 to 399"), ({204, 200}, "200, 204"), (range(200, 300, 50), "200, 250")],
)
def test_what_would_have_been_well_is_said(wanted: Any, said: str) -> None:
    with Server(answering(500)) as server:
        outcome = check(server, HttpCheck(status=wanted))
    assert outcome.why == f"status 500, and {said} would be well"


@pytest.mark.parametrize(
    ("body", "wanted", "ok"),
    [
        (b"all is ready here", b"ready", True),
        (b"all is read", b"ready", False),
        (b"", b"ready", False),
        (b"status: up", re.compile(rb"^status: (up|ready)$"), True),
        (b"status: down", re.compile(rb"^status: (up|ready)$"), False),
        (b"x" * (MOST_BODY - 5) + b"ready", b"ready", True),
        (b"x" * (MOST_BODY - 4) + b"ready", b"ready", False),
        (b"x" * MOST_BODY * 3 + b"ready", re.compile(b"ready"), False),
    ],
)
def test_bodies(body: bytes, wanted: Any, ok: bool) -> None:
    with Server(answering(200, body)) as server:
        outcome = check(server, HttpCheck(body=wanted))
    assert (outcome.ok, outcome.evidence) == (ok, Evidence.ANSWERS)
    assert ok or "is not in the first" in outcome.why


@pytest.mark.parametrize(
    ("answer", "ok"),
    [
        (OK + b"transfer-encoding: chunked\r\n\r\n2\r\nre\r\n3\r\nady\r\n0\r\n\r\n", True),
        (OK + b"\r\nit is ready", True),  # to the end of the connection
        (OK + b"content-length: 100\r\n\r\nready", True),  # found before it is cut off
        (OK + b"content-length: 100\r\n\r\nread", False),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length: 5\r\n\r\nready", True),
        (b"HTTP/1.0 200 OK\r\n\r\nready", True),
    ],
)
def test_framings(answer: bytes, ok: bool) -> None:
    with Server(raw(answer)) as server:
        assert check(server, HttpCheck(body=b"ready")).ok is ok


def test_a_body_without_end_is_looked_at_so_far() -> None:
    def endless(peer: Peer) -> None:
        peer.request()
        peer.send(OK + b"\r\n")
        while True:
            peer.send(b"x" * 10_000)

    with Server(endless) as server:
        assert check(server, HttpCheck(body=b"ready")).why == (
            f"b'ready' is not in the first {MOST_BODY} bytes of the body"
        )


def test_a_status_that_is_wrong_needs_no_body() -> None:
    with Server(raw(b"HTTP/1.1 503 No\r\ncontent-length: 100\r\n\r\n")) as server:
        assert check(server, HttpCheck(body=b"ready")).why.startswith("status 503")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "closed the connection without an answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not valid HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\n", "not valid HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000, "not valid HTTP/1.1"),
        (b"HTTP/1.1 99 Odd\r\n\r\n", "not valid HTTP/1.1"),
    ],
)
def test_what_is_no_answer_is_somebodys(answer: bytes, said: str) -> None:
    handler = raw(answer) if answer else hang_up
    with Server(handler) as server:
        outcome = check(server, HttpCheck())
    assert (outcome.ok, outcome.evidence) == (False, Evidence.ANSWERS)
    assert said in outcome.why


# --- time-outs ----------------------------------------------------------------------------------


def test_an_answer_that_does_not_come_ends_with_a_reset() -> None:
    ended: list[str] = []

    def silent(peer: Peer) -> None:
        if peer.request() is None:  # the test is over
            return
        try:
            peer.until_closed()
            ended.append("closed")
        except ConnectionResetError:
            ended.append("reset")

    with Server(silent) as server:
        kind = HttpCheck(timeout=0.5, interval=60.0, fast_interval=60.0, fall=1)
        owner = Owner(kernel(), kind, [where(server)])
        told = threading.Event()
        owner.on_told = told.set
        owner.use()
        assert told.wait(BOUND)
        owner.checks.stop()
    first = owner.told[0]
    assert (first.up, first.why) == (False, "timed out after 0.5 s, waiting for an answer")
    assert first.evidence is Evidence.DEATH
    assert ended == ["reset"]


def test_a_body_that_does_not_come_is_waited_for_where_it_matters() -> None:
    def half(peer: Peer) -> None:
        peer.request()
        peer.send(OK + b"content-length: 10\r\n\r\nhalf")
        peer.until_closed()

    with Server(half) as server:
        assert check(server, HttpCheck()).ok
        found = probe_once(kernel(), HttpCheck(body=b"ready"), where(server), timeout=0.05)
        assert found is None


def test_a_frozen_program_is_down_and_says_what_was_waited_for() -> None:
    net = SimNet()
    node = net.node("a")
    address = address_of(node.pod().endpoint)
    owner = Owner(net, HttpCheck(), [address])
    net.at(3.0, node.freeze)
    net.at(20.0, node.thaw)
    with net.running():
        while net.elapsed() < 30.0:
            owner.use()
            net.sleep(1.0)
    (_, _), (down_at, down), (up_at, up) = owner.changes(address)
    assert (down, up) == (False, True)
    assert down_at == 7.0  # the checks of 4.0, 5.0 and 6.0, each with its second
    assert 20.0 < up_at < 22.0
    why = next(each.why for each in owner.told if not each.up)
    assert why == "timed out after 1 s, waiting for an answer"


def test_nobody_listens_where_somebody_did() -> None:
    """A check that had a connection says nothing of the next, which has none."""
    net = SimNet()
    pod = net.node("a").pod(handler=lambda _: Response("no", status=503))
    address = address_of(pod.endpoint)
    owner = Owner(net, HttpCheck(fall=1), [address])
    net.at(3.0, pod.kill)
    with net.running():
        while net.elapsed() < 5.0:
            owner.use()
            net.sleep(1.0)
    met = [(each.evidence, each.at < 3.0) for each in owner.told]
    assert set(met) == {(Evidence.ANSWERS, True), (Evidence.DEATH, False)}


def test_a_check_sees_what_traffic_does_not() -> None:
    net = SimNet()
    well = [True]

    def handler(request: Any) -> Response:
        if request.path == "/healthz":
            return Response("ready" if well[0] else "draining")
        return Response("hello")

    address = address_of(net.node("a").pod(handler=handler).endpoint)
    owner = Owner(net, HttpCheck("/healthz", body=b"ready"), [address])
    net.at(5.0, well.__setitem__, 0, False)
    with net.running():
        while net.elapsed() < 9.0:
            owner.use()
            net.sleep(1.0)
    (_, up), (at, down) = owner.changes(address)
    assert (up, down) == (True, False)
    assert 7.0 < at < 7.1  # 6.0, 6.5 and 7.0
    assert owner.told[-1].why == "b'ready' is not in the first 8 bytes of the body"
    assert owner.told[-1].evidence is Evidence.ANSWERS


# --- TLS ----------------------------------------------------------------------------------------


def secure(name: str = NAME) -> CheckWay:
    context = client_context()
    return CheckWay(host=name, authority=name, trust=lambda: context)


def tls_server(*names: str) -> Server:
    return Server(serve, context=server_context(*names))


def test_over_tls_the_name_that_users_wrote_is_verified() -> None:
    with tls_server() as server:
        assert check(server, HttpCheck(), secure()).ok
        assert check(server, HttpCheck(host="other.test"), secure()).ok
    assert [seen.headers["host"] for seen in server.requests] == [NAME, "other.test"]


def test_http11_is_spoken_where_users_speak_http2() -> None:
    agreed: list[str | None] = []

    def noting(peer: Peer) -> None:
        assert isinstance(peer.sock, ssl.SSLSocket)
        agreed.append(peer.sock.selected_alpn_protocol())
        serve(peer)

    context = server_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with Server(noting, context=context) as server:
        way = secure()
        assert way.trust is not None
        way.trust().set_alpn_protocols(["h2", "http/1.1"])
        assert check(server, HttpCheck(), way).ok
    assert agreed == ["http/1.1"]


@pytest.mark.parametrize("names", [("other.test",), ("127.0.0.1",)])
def test_a_wrong_name_is_somebody_else(names: tuple[str, ...]) -> None:
    with tls_server(*names) as server:
        address = where(server)
        error = probe_once(kernel(), HttpCheck(), address, way=secure())
        assert isinstance(error, ssl.SSLCertVerificationError)


def test_without_a_name_the_address_is_verified() -> None:
    with tls_server("127.0.0.1") as server:
        assert check(server, HttpCheck(), secure("")).ok


def test_the_systems_trust_decides_where_users_speak_no_tls() -> None:
    with tls_server("127.0.0.1") as server:
        address = where(server)
        error = probe_once(kernel(), HttpCheck(tls=True), address)
        assert isinstance(error, ssl.SSLCertVerificationError)


@pytest.mark.parametrize("kind", [FileNotFoundError(2, "No such file"), ssl.SSLError(1, "bad")])
def test_a_trust_store_that_is_not_there_is_nobody_elses_fault(kind: OSError) -> None:
    def trust() -> ssl.SSLContext:
        raise kind

    with Server(serve) as server:
        error = probe_once(kernel(), HttpCheck(), where(server), way=CheckWay(NAME, trust=trust))
        assert server.connections == 0
    assert isinstance(error, LocalRefusal)
    assert str(kind.strerror) in str(error)


def test_a_check_may_do_without() -> None:
    with Server(serve) as server:
        assert check(server, HttpCheck(tls=False), secure()).ok


def test_a_certificate_that_is_wrong_is_an_answer_of_a_kind() -> None:
    with Server(serve, context=server_context(ca=trustme.CA())) as server:
        kind = HttpCheck(timeout=BOUND, interval=60.0, fall=1)
        owner = Owner(kernel(), kind, [where(server)], way=secure())
        told = threading.Event()
        owner.on_told = told.set
        owner.use()
        assert told.wait(BOUND)
        owner.checks.stop()
    assert "certificate verify failed" in owner.told[0].why
    assert (owner.told[0].up, owner.told[0].evidence) == (False, Evidence.ANSWERS)


# --- what was let through ----------------------------------------------------------------------


def test_h11_finds_nothing_wrong_with_what_was_let_through() -> None:
    """Every character that a value may have, on the wire."""
    value = "".join(chr(code) for code in (*range(0x21, 0x7F), *range(0x80, 0x100)))
    path = "/" + "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "#")
    with Server(serve) as server:
        assert check(server, HttpCheck(path, headers={"x": value})).ok
    assert server.requests[0].target == path
    assert server.requests[0].headers["x"] == value
