"""Reports from the field, group C: the connection is up, the other end is gone, nobody says so.

Time to the verdict, state by state: tests/http/test_liveness_simnet.py, and on the kernel.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

import outlast
from outlast.testing import Request, Response, SimNet
from outlast.testing.simnet.packet import FIN
from tests.fire.worlds import NAME, URL, cluster, connecting, load, pods_of, report, serving

IDLE, INTERVAL, COUNT = 5.0, 1.0, 6  # of keepalive (DESIGN section 6)
KEPT_ALIVE = IDLE + INTERVAL * COUNT  # seconds until it ends a silent connection
USER_TIMEOUT = 11.0  # of unacknowledged data
SLACK = 1.0


def port_of(source: object) -> int:
    """The local port that the last attempt went from."""
    return report(source).events[-1].local_port


def handed_out(net: SimNet, **more: Any) -> Any:
    """A socket of the dialler's."""
    host, _, port = NAME.partition(":")
    return outlast.create_connection((host, int(port)), network=net, **more)


# -- requests ------------------------------------------------------------------------------


@pytest.mark.incident("FR-15")
def test_fr15_after_a_timeout_the_next_request_takes_another_connection() -> None:
    """Its kernel acknowledges, so only the caller's own timeout tells."""
    net = cluster(2)
    with connecting(net) as client:
        serving(net, client).freeze()
        with pytest.raises(httpx.ReadTimeout) as caught:
            client.get(URL)
        for pod in pods_of(net):
            if pod.frozen:
                pod.thaw()
        answer = client.get(URL)
    assert answer.status_code == 200
    assert port_of(answer) not in (0, port_of(caught.value))


@pytest.mark.incident("FR-15")
def test_fr15_where_its_kernel_is_gone_no_timeout_is_needed() -> None:
    net = cluster(2)
    with connecting(net) as client:
        before = port_of(client.get(URL))
        serving(net, client).black_hole()
        begun = net.elapsed()
        answer = client.get(URL)
        assert net.elapsed() - begun < 0.5
    assert port_of(answer) not in (0, before)


@pytest.mark.incident("FR-24")
def test_fr24_a_subscriber_hears_no_heartbeat_of_a_stopped_process() -> None:
    """Its kernel goes on acknowledging: the read timeout is the watchdog."""

    async def beats(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await anyio.sleep(5.0)
            await send({"type": "http.response.body", "body": b"beat\n", "more_body": True})

    net = cluster(1, serves=beats)
    net.at(22.0, net.nodes["a"].freeze)
    heard: list[float] = []
    with connecting(net) as client:
        with client.stream("GET", URL, timeout=15.0) as response:
            with pytest.raises(httpx.ReadTimeout, match="body under way: never repeated"):
                heard.extend(net.elapsed() for _ in response.iter_raw())
        assert net.elapsed() == pytest.approx(heard[-1] + 15.0)
    assert len(heard) == 4


@pytest.mark.incident("FR-25")
@pytest.mark.parametrize(
    ("read", "within", "error"),
    [(5.0, 5.0, httpx.ReadTimeout), (None, USER_TIMEOUT + SLACK, httpx.ReadError)],
)
def test_fr25_a_watch_whose_network_is_lost(
    read: float | None, within: float, error: type[Exception]
) -> None:
    def events(_: Request) -> Response:
        return Response(b"." * 1000, drip=1.0)

    net = cluster(1, serves=events)
    net.at(10.2, net.nodes["a"].black_hole)
    heard: list[float] = []
    with connecting(net, timeout=httpx.Timeout(5.0, read=read)) as client:
        with client.stream("GET", URL) as response:
            with pytest.raises(error, match="body under way: never repeated"):
                heard.extend(net.elapsed() for _ in response.iter_raw())
        assert net.elapsed() - heard[-1] <= within + SLACK
    assert pods_of(net)[0].counts()["requests"] == 1


@pytest.mark.incident("FR-26")
@pytest.mark.incident("FR-29")
def test_fr26_fr29_a_quiet_flow_through_a_nat_that_forgets() -> None:
    """Keepalive is shorter than its limit, so it remembers; and when it is reset all the same
    the loss is noticed."""
    net = cluster(1)
    box = net.nodes["a"].middlebox(idle=60.0)
    with connecting(net, timeout=httpx.Timeout(5.0, read=None)) as client:
        assert client.get(f"{URL}?delay=300").status_code == 200
        assert pods_of(net)[0].counts()["connections"] == 1
        net.at(net.elapsed() + 100.0, box.forget)
        begun = net.elapsed()
        with pytest.raises(httpx.ReadError, match="acknowledged by the peer's kernel"):
            client.post(f"{URL}?delay=300")
        assert net.elapsed() - begun < 100.0 + KEPT_ALIVE + SLACK


@pytest.mark.incident("FR-29")
def test_fr29_what_the_caller_sets_wins() -> None:
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, 4, 120)]
    net = cluster(1)
    with connecting(net, socket_options=options, timeout=None) as client:
        client.get(URL)
        (conn,) = net.client.kernel.connections.values()
        assert (conn.settings.keepalive, conn.settings.idle) == (True, 120)
        client.get(f"{URL}?delay=30")  # while an answer is awaited, too
        assert conn.settings.idle == 120


@pytest.mark.incident("FR-28")
def test_fr28_a_write_goes_to_where_the_name_points_now() -> None:
    """The primary loses power, and its role moves to another address."""
    net = SimNet(seed=4)
    old, new = net.node("old"), net.node("new")
    first, second = old.pod(port=80), new.pod(port=80)
    net.dns.set("db.shop.svc", [first.host], ttl=1.0)
    net.at(10.0, old.power_off)
    net.at(15.0, net.dns.set, "db.shop.svc", [second.host])
    with connecting(net) as client:
        assert client.post("http://db.shop.svc/").json()["pod"] == first.name
        net.sleep(20.0)
        answer = client.post("http://db.shop.svc/")
        assert answer.json()["pod"] == second.name
        assert net.elapsed() < 20.5
    assert "lookup" in {event.phase for event in report(answer)}


@pytest.mark.incident("FR-31")
def test_fr31_many_callers_share_a_pool_of_silent_connections() -> None:
    """Fail-over: the old address drops everything, the name gives a new one."""
    net = SimNet(seed=5)
    old, new = net.node("old"), net.node("new")
    first, second = old.pod(port=80), new.pod(port=80)
    net.dns.set("db.shop.svc", [first.host], ttl=1.0)
    url = "http://db.shop.svc/"
    limits = httpx.Limits(max_connections=10, keepalive_expiry=60.0)
    with connecting(net, limits=limits) as client:
        net.gather(*[lambda: client.get(f"{url}?delay=1")] * 10)
        old.black_hole()
        net.dns.set("db.shop.svc", [second.host])
        net.sleep(1.5)
        calls = load(net, lambda: client.get(url), until=20.0, workers=20)
        assert calls.errors == []
        assert calls.slowest < 1.0, "those who wait for a place included"
    assert second.counts()["requests"] > 500


@pytest.mark.incident("FR-32")
@pytest.mark.parametrize("answers", ["nothing", "connects", "acknowledges"])
def test_fr32_a_program_without_settings_is_bounded(answers: str) -> None:
    net = cluster(1)
    a, pod = net.nodes["a"], pods_of(net)[0]
    if answers == "nothing":
        a.power_off()
    elif answers == "acknowledges":
        pod.freeze()
    else:
        hole = lambda segment: bool(segment.data)  # noqa: E731  a rule of the link
        a.kernel.link.towards.rules.append(hole)
    with net.running(), httpx.Client(transport=outlast.Transport(network=net)) as client:
        with pytest.raises(httpx.TimeoutException):
            client.get(URL)
        assert net.elapsed() < 30.0


# -- sockets that are handed out -----------------------------------------------------------


@pytest.mark.incident("FR-18")
def test_fr18_a_writer_notices_that_nobody_acknowledges() -> None:
    """The pod is deleted, its route goes before its FIN does."""
    net = cluster(1)
    pod = pods_of(net)[0]

    def delete() -> None:
        pod.node.kernel.link.away.rules.append(lambda segment: bool(segment.flags & FIN))
        pod.node.black_hole()
        pod.kill()

    net.at(12.0, delete)
    with net.running(), handed_out(net) as sock:
        watched = outlast.watch(sock)
        for _ in range(3):
            net.sleep(5.0)
            sock.sendall(b"x")
        net.sleep(3.0)
        assert watched.verdict is outlast.Liveness.SUSPECT
        with pytest.raises(TimeoutError):
            write_on(net, sock)
        assert net.elapsed() - 15.0 < USER_TIMEOUT + 5.0 + SLACK, "and it writes each 5 s"


def write_on(net: SimNet, sock: Any) -> None:
    for _ in range(10):
        net.sleep(5.0)
        sock.sendall(b"x")


@pytest.mark.incident("FR-21")
@pytest.mark.incident("FR-23")
@pytest.mark.parametrize("acknowledged", [False, True])
@pytest.mark.parametrize("fault", ["black_hole", "power_off", "unplug"])
def test_fr21_fr23_a_read_without_a_timeout_ends(fault: str, acknowledged: bool) -> None:
    """A command to a machine that is gone, and one whose machine dies in the middle of it."""

    async def never(reader: Any, _writer: Any) -> None:
        await reader.read()

    net = cluster(1, serves=never)
    strike: Callable[[], None] = getattr(net.nodes["a"], fault)
    with net.running(), handed_out(net) as sock:
        assert sock.gettimeout() is None
        if acknowledged:
            net.at(3.0, strike)
        else:
            strike()
        sock.sendall(b"command")
        with pytest.raises(OSError, match=r"timed out|No route"):
            sock.recv(100)
        assert net.elapsed() < (3.0 if acknowledged else 0.0) + KEPT_ALIVE + SLACK


@pytest.mark.incident("FR-22")
def test_fr22_a_blocking_pop_through_a_middlebox() -> None:
    """The server's own limit is 25 s; the box forgets flows after 20 s of silence."""

    async def pop(reader: Any, writer: Any) -> None:
        while await reader.read(100):
            await anyio.sleep(25.0)
            writer.write(b"nothing")

    net = cluster(1, serves=pop)
    box = net.nodes["a"].middlebox(idle=20.0)
    with net.running(), handed_out(net, timeout=30.0) as sock:
        sock.sendall(b"pop")
        assert sock.recv(100) == b"nothing"
        begun = net.elapsed()
        sock.sendall(b"pop")
        net.at(net.elapsed() + 1.0, box.forget)
        with pytest.raises(OSError, match="timed out"):
            sock.recv(100)
        assert net.elapsed() - begun < 25.0
    with pytest.raises(ValueError, match="unknown field 'keepalives'"):
        outlast.Policy().merged({"keepalives": (5, 1, 6)})
    misspelt: Any = {"keepalives": True}
    with pytest.raises(TypeError, match="keepalives"):
        outlast.create_connection((NAME, 80), **misspelt)
