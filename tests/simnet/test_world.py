"""The simulated world, whole: dials, bytes, Services, power."""

from __future__ import annotations

import errno

import pytest

from outlast.testing.simnet.states import CLOSED, ESTABLISHED
from tests.simnet.scene import NODELAY, Program, Scene, echo


def test_bytes_go_there_and_back() -> None:
    scene = Scene(Program(echo))
    sock = scene.connection(NODELAY)
    assert sock.send(b"hello") == 5
    scene.run(0.01)
    assert sock.recv(100) == b"hello"
    assert sock.recv(100) is None
    assert (sock.state, sock.outq, sock.tcp_info().bytes_acked) == (ESTABLISHED, 0, 6)


def test_a_round_trip_on_one_switch() -> None:
    scene = Scene(Program(echo))
    scene.connection().close()
    assert scene.when(scene.dial().writable, 1.0) == pytest.approx(0.0001)


def test_nobody_listens() -> None:
    scene = Scene()
    sock = scene.client.connect((scene.pod.host, 9), label="c")
    assert scene.end_of(sock, 1.0)[0] == errno.ECONNREFUSED


def test_no_route() -> None:
    with pytest.raises(OSError, match="unreachable") as failure:
        Scene().client.connect(("192.0.2.1", 80))
    assert failure.value.errno == errno.ENETUNREACH


def test_power_off_is_silence_and_power_on_a_reboot() -> None:
    scene = Scene(Program(echo))
    sock = scene.connection()
    scene.a.power_off()
    sock.send(b"x")
    scene.run(2.0)
    assert (sock.state, sock.tcp_info().backoff) == (ESTABLISHED, 3)
    scene.a.power_on()
    code, took = scene.end_of(sock, 10.0)
    assert code == errno.ECONNRESET
    assert took is not None
    assert scene.connection(label="new").state == ESTABLISHED


def test_a_service_draws_a_pod_for_each_connection() -> None:
    scene = Scene(Program(echo))
    pods = [scene.pod, scene.a.place(Program(echo)), scene.world.node("b").place(Program(echo))]
    orders = scene.world.service("orders.shop.svc:80", pods)
    vip = (orders.host, orders.port)
    for number in range(300):
        scene.client.connect(vip, label=f"worker {number}")
        scene.run(0.001)
    programs = [pod.program for pod in pods if isinstance(pod.program, Program)]
    drawn = [len(program.accepted) for program in programs]
    assert sum(drawn) == 300
    assert min(drawn) > 70


def test_the_draw_is_by_name_and_not_by_order() -> None:
    def pods_of(order: list[str]) -> dict[str, str]:
        scene = Scene(Program(echo))
        pods = [scene.pod, scene.world.node("b").place(Program(echo))]
        orders = scene.world.service("orders.shop.svc:80", pods)
        for label in order:
            scene.client.connect((orders.host, orders.port), label=label)
        scene.run(1.0)
        return {
            sock.label.partition(" at ")[0]: pod.name
            for pod in pods
            if isinstance(pod.program, Program)
            for sock in pod.program.accepted
        }

    names = [f"worker {number}" for number in range(20)]
    assert pods_of(names) == pods_of(names[::-1])


def test_a_service_without_endpoints_refuses_at_once() -> None:
    scene = Scene()
    orders = scene.world.service("orders.shop.svc:80")
    sock = scene.client.connect((orders.host, orders.port))
    code, took = scene.end_of(sock, 1.0)
    assert code == errno.ECONNREFUSED
    assert took is not None
    assert took < 0.001
    assert sock.state == CLOSED
