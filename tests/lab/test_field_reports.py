"""Field reports of groups A, B, C and J that need a real kernel, one test each.

Those whose network must be scripted second by second (FR-04, FR-05, FR-06, FR-10, FR-11, FR-12,
FR-14) stand beside the dialler's tests; FR-01 and FR-13 are incident A itself.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

import outlast
from outlast.testing import KernelLab
from tests.guards import working_threads
from tests.lab.load import threads
from tests.lab.test_incident_a import held


def in_order(*addresses: str) -> outlast.Target:
    """A target whose first address is dialled first."""
    return outlast.Target(f"static://{','.join(addresses)}", balance=outlast.PickFirst())


def dialled(error: BaseException) -> list[outlast.Event]:
    """The dials in an error's report."""
    report: outlast.Report = vars(error)["report"]
    return report.of_phase("connect")


def test_fr02_one_silent_endpoint_of_three(lab: KernelLab, figures: Callable[[str], None]) -> None:
    """Each draw has one chance in three of the hole; no error, p99 below a few attempt delays."""
    nodes = [lab.node(name) for name in "abc"]
    service = lab.service("orders.shop.svc:8080", pods=[node.pod() for node in nodes])
    lab.at(1.0, nodes[0].black_hole)
    with lab.running():

        def call() -> None:
            outlast.create_connection((service.host, service.port)).close()

        load = threads(lab, "FR-02, create_connection, 1 of 3 silent", call, 7.0)
    figures(load.row())
    held(load, p99=0.15, slowest=0.5)


def test_fr03_the_first_port_is_a_hole_for_ever(lab: KernelLab) -> None:
    """A connection tracked to nowhere stays there; a new socket to the same address wins."""
    hole, live = lab.node("hole"), lab.node("live")
    silent, pod = hole.pod(), live.pod()
    hole.black_hole()
    service = lab.service("orders.shop.svc:8080", pods=[silent])
    lab.at(0.1, service.add, pod)
    lab.at(0.1, service.remove, silent)
    with lab.running():
        began = time.monotonic()
        sock = outlast.create_connection((service.host, service.port), 5)
        took = time.monotonic() - began
        sock.close()
    assert took < 0.9  # below the kernel's first repeated SYN, which would not have helped


def test_fr07_refused_and_silent_are_told_apart(lab: KernelLab) -> None:
    """Both end inside the same bound, and the error says which of the two it was."""
    node = lab.node("a")
    pod = node.pod()
    service = lab.service("orders.shop.svc:8080", pods=[pod])
    pod.kill()
    with lab.running():
        began = time.monotonic()
        with pytest.raises(ConnectionRefusedError, match="refused") as refused:
            outlast.create_connection((service.host, service.port), 1.0)
        node.black_hole()
        with pytest.raises(TimeoutError, match="no answer") as silent:
            outlast.create_connection((service.host, service.port), 1.0)
        assert time.monotonic() - began < 3.0
    assert {dial.errno for dial in dialled(refused.value)} == {errno.ECONNREFUSED}
    assert {dial.errno for dial in dialled(silent.value)} == {None}


def test_fr08_a_limit_of_one_second_is_one_second_every_time(lab: KernelLab) -> None:
    """A database client's host is unplugged: each connect ends at the limit it was given."""
    node = lab.node("db")
    address = (node.pod().host, 8080)
    with lab.running():
        outlast.create_connection(address, 1.0).close()
        node.unplug()
        for _ in range(3):
            began = time.monotonic()
            with pytest.raises(TimeoutError, match="no answer"):
                outlast.create_connection(address, 1.0)
            assert 0.95 < time.monotonic() - began < 1.8


def test_fr09_host_unreachable_is_nothing_sent(lab: KernelLab) -> None:
    """One of two endpoints answers "host unreachable": POST and GET go elsewhere, at once."""
    lost, live = lab.node("lost"), lab.node("live")
    gone, pod = lost.pod(), live.pod()
    service = lab.service("orders.shop.svc:8080", pods=[gone, pod])
    lost.unreachable()
    with lab.running():
        for target in (service.url, None):
            targets = {"http://orders": f"static://{gone.address},{pod.address}"}
            for _ in range(10):
                with httpx.Client(transport=outlast.Transport(targets=targets)) as client:
                    url = target or "http://orders"
                    began = time.monotonic()
                    assert client.post(url, content=b"pay").status_code == 200
                    assert client.get(url).status_code == 200
                    assert time.monotonic() - began < 1.0
    assert pod.counts()["methods"] == {"POST": 20, "GET": 20}


def test_fr09_late_host_unreachable(lab: KernelLab) -> None:
    """The link's own error comes after 3 s; by then another address has long answered, and
    alone it ends the connect as what it is."""
    live = lab.node("live").pod()
    away = lab.unrouted_address()
    with lab.running():
        targets = {"http://orders": f"static://{away},{live.address}"}
        with httpx.Client(transport=outlast.Transport(targets=targets)) as client:
            began = time.monotonic()
            assert client.post("http://orders", content=b"pay").status_code == 200
            assert time.monotonic() - began < 1.0
        host, port = away.rsplit(":", 1)
        with pytest.raises(OSError) as caught:
            outlast.create_connection((host, int(port)), 4.5)
    assert errno.EHOSTUNREACH in {dial.errno for dial in dialled(caught.value)}


def test_fr16_restart_and_power_loss(lab: KernelLab) -> None:
    """A rebooted node answers old connections with a reset: one GET later all is well."""
    node = lab.node("a")
    service = lab.service("orders.shop.svc:8080", pods=[node.pod()])
    with lab.running(), httpx.Client(transport=outlast.Transport(), timeout=5.0) as client:
        assert client.get(service.url).status_code == 200
        node.power_off()
        node.power_on()
        began = time.monotonic()
        assert client.get(service.url).status_code == 200
        assert time.monotonic() - began < 1.5


@pytest.mark.parametrize("through", ["directly", "proxy"])
@pytest.mark.parametrize("world", ["threads", "asyncio", "trio"])
def test_fr30_keepalive_stands_on_every_socket(lab: KernelLab, world: str, through: str) -> None:
    """As the kernel reads it back, in threads and in loops, directly and through a proxy."""
    pod = lab.node("a").pod()  # it answers to a proxy's kind of request, too
    pod.wait_ready()
    options: dict[str, Any] = {"policy": outlast.Policy(keepalive=(7, 2, 4))}
    url = pod.url if through == "directly" else "http://orders.test/"
    if through == "proxy":
        options["proxy"] = pod.url
    sockets = []

    async def in_loop() -> None:
        async with httpx.AsyncClient(transport=outlast.AsyncTransport(**options)) as client:
            sockets.append(standing(await client.get(url)))

    def standing(answer: httpx.Response) -> tuple[int, ...]:
        assert answer.status_code == 200
        sock = answer.extensions["network_stream"].get_extra_info("socket")
        names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
        values = [sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names]
        return (sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), *values)

    with lab.running():
        if world == "threads":
            with httpx.Client(transport=outlast.Transport(**options)) as client:
                sockets.append(standing(client.get(url)))
        else:
            anyio.run(in_loop, backend=world)
    assert sockets == [(1, 7, 2, 4)]


def test_fr61_a_race_really_starts(lab: KernelLab) -> None:
    """First address silent: count the dials, each from a port of its own."""
    silent, live = lab.silent_address(), lab.node("a").pod()
    targets = {"http://orders": in_order(silent, live.address)}
    with lab.running():
        met = set()
        for _ in range(4):
            with httpx.Client(transport=outlast.Transport(targets=targets)) as client:
                report = client.get("http://orders").extensions["outlast"]
            dials = report.of_phase("connect")
            assert len({dial.local_port for dial in dials}) == len(dials)
            met |= {dial.address for dial in dials}
        assert met == {silent, live.address}
    assert live.counts()["connections"] == 4


def test_fr62_same_family_is_raced_in_sync_code(lab: KernelLab) -> None:
    """Two silent IPv4 addresses before a live one: about two delays, without a thread."""
    first, second = lab.silent_address(), lab.silent_address(8081)
    live = lab.node("a").pod()
    policy = outlast.Policy(attempt_delay=0.25)
    targets = {"http://orders": in_order(first, second, live.address)}
    with lab.running():
        slowest = 0.0
        for _ in range(3):  # the first time, both silent ones come first
            before = working_threads()
            with httpx.Client(
                transport=outlast.Transport(policy=policy, targets=targets)
            ) as client:
                began = time.monotonic()
                assert client.get("http://orders").status_code == 200
                slowest = max(slowest, time.monotonic() - began)
                assert working_threads() == before
    assert 0.4 < slowest < 1.4


def test_a_path_that_needs_three_seconds_still_connects(lab: KernelLab) -> None:
    """The first dial stays open: when the hole is mended after 2.5 s the kernel's own repeated
    SYN, or a later dial, gets through; as with plain httpx, no error."""
    node = lab.node("a")
    service = lab.service("orders.shop.svc:8080", pods=[node.pod()])
    node.black_hole()
    lab.at(2.5, node.heal)
    with lab.running():
        began = time.monotonic()
        outlast.create_connection((service.host, service.port), 6.0).close()
        assert 2.4 < time.monotonic() - began < 4.5
