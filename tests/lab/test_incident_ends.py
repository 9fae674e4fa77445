"""Incident A's other ends: nobody is left, or only slow; and what stands on the sockets meanwhile.

They wait, and measure nothing that others could disturb; the incident itself is
`test_incident_a`, which runs alone.
"""

from __future__ import annotations

import socket

import httpx
import pytest

import outlast
from outlast.testing import KernelLab

pytestmark = pytest.mark.incident("A")


def test_all_endpoints_gone_is_refused_at_once(lab: KernelLab) -> None:
    node = lab.node("a")
    service = lab.service("orders.shop.svc:8080", pods=[node.pod()])
    service.remove(node)
    with lab.running(), httpx.Client(transport=outlast.Transport()) as client:
        began = lab.elapsed()
        with pytest.raises(httpx.ConnectError, match=r"refused.*nothing was sent") as caught:
            client.get(service.url)
        assert lab.elapsed() - began < 1.0
    dials = caught.value.report.of_phase("connect")  # type: ignore[attr-defined]  # ours
    assert dials
    assert all(dial.errno for dial in dials)


def test_all_endpoints_silent_ends_at_the_deadline(lab: KernelLab) -> None:
    node = lab.node("a")
    service = lab.service("orders.shop.svc:8080", pods=[node.pod()])
    node.power_off()
    with lab.running(), httpx.Client(transport=outlast.Transport(), timeout=2.0) as client:
        began = lab.elapsed()
        with pytest.raises(httpx.ConnectTimeout, match="no answer; nothing was sent") as caught:
            client.get(service.url)
        assert 1.9 < lab.elapsed() - began < 3.0
    dials = caught.value.report.of_phase("connect")  # type: ignore[attr-defined]  # ours
    assert len({dial.local_port for dial in dials}) > 4


def test_a_reply_of_five_seconds_is_left_alone(lab: KernelLab) -> None:
    a, b = lab.node("a"), lab.node("b")
    service = lab.service("orders.shop.svc:8080", pods=[a.pod(), b.pod()])
    with lab.running(), httpx.Client(transport=outlast.Transport(), timeout=20.0) as client:
        answer = client.get(f"{service.url}/?delay=5")
    assert answer.status_code == 200
    served = sum(pod.counts()["requests"] for node in (a, b) for pod in node.pods)
    assert served == 1
    assert len(answer.extensions["outlast"].of_phase("connect")) == 1


def test_options_stand_on_the_kernel(lab: KernelLab) -> None:
    node = lab.node("a")
    service = lab.service("orders.shop.svc:8080", pods=[node.pod()])
    with lab.running():
        sock = outlast.create_connection((service.host, service.port), 5)
        with sock:
            read = [
                sock.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            ]
            assert read == [5, 1, 6]
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 11_000  # watched
