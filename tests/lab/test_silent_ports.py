"""Connection tracking remembers who was not answered: what that means for a client of a VIP.

The client node is given few local ports, so that they come round within seconds instead of the
minute that it takes a busy client.
"""

from __future__ import annotations

import contextlib
import socket
import struct

import pytest

from outlast.net.dial import DialMemory
from outlast.net.kernel import kernel
from outlast.testing import KernelLab
from outlast.testing.namespaces import set_sysctl
from outlast.testing.node import Node
from outlast.testing.service import Service
from tests.net.drivers import Driver
from tests.net.racing import race, request
from tests.net.scripted import at

FEW = "40000 40511"  # every second one is drawn for an outgoing connection


def half_dead(lab: KernelLab) -> tuple[Service, Node]:
    """A Service of two pods, and the node of the one that is silent."""
    a, b = lab.node("a"), lab.node("b")
    service = lab.service("orders.shop.svc:8080", pods=[a.pod(), b.pod()])
    a.black_hole()
    return service, a


def vanish(sock: socket.socket) -> None:
    """Close with RST, so that the port does not stay in TIME_WAIT."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def answered(service: Service, port: int) -> bool:
    """Whether a dial from this local port is answered within 50 ms."""
    with contextlib.closing(socket.socket()) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.settimeout(0.05)
        sock.bind(("", port))
        try:
            sock.connect((service.host, service.port))
        except TimeoutError:
            return False
        vanish(sock)
        return True


def test_a_port_that_led_nowhere_does_so_again_even_when_the_endpoint_is_gone(
    lab: KernelLab,
) -> None:
    service, dead = half_dead(lab)
    ports = range(50_000, 50_032, 2)
    with lab.running():
        silent = [port for port in ports if not answered(service, port)]
        assert silent  # all of 16 are answered once in 65,536 runs
        assert not any(answered(service, port) for port in silent)
        service.remove(dead)
        assert not any(answered(service, port) for port in silent)
        assert answered(service, 50_040)


def test_no_dial_waits_on_a_port_that_led_nowhere(lab: KernelLab) -> None:
    service, _ = half_dead(lab)
    if not lab.hand.do(lab.client.space, set_sysctl, "net.ipv4.ip_local_port_range", FEW):
        pytest.skip("this machine's /proc/sys cannot be written")
    network = kernel()
    memory = DialMemory(network.now())
    address = at(service.host, service.port)
    silent: set[int] = set()  # ports whose silence has been waited for
    again: list[str] = []
    passed = 0
    with lab.running():
        for number in range(400):  # which ports are drawn is luck
            if number >= 100 and passed + len(again) > 20:
                break
            wanted = request(network, addresses=[address], memory=memory, delay=0.02)
            outcome = race(Driver("sync", network), wanted)
            vanish(outcome.stream.detach())
            for event in outcome.report.of_phase("connect"):
                passed += event.what.startswith("passed over")
                if event.what.startswith(("gave way", "lost")):
                    again += [str(event)] if event.local_port in silent else []
                    silent.add(event.local_port)
    assert passed + len(again) > 20, "the ports have not come round"
    assert len(again) <= passed / 10, again
