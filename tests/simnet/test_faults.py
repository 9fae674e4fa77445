"""Faults of nodes, links and the cluster, at a time or at a segment."""

from __future__ import annotations

import contextlib
import errno

import pytest

from outlast import create_connection
from outlast.testing import SimNet
from outlast.testing.simnet.packet import SYN
from outlast.testing.simnet.states import ESTABLISHED
from tests.simnet.scene import NODELAY, Program, Scene, echo, keepalive

ORDERS = "orders.shop.svc:80"


@pytest.mark.parametrize(
    ("towards", "away", "heard"), [(True, True, False), (True, False, False), (False, True, True)]
)
def test_a_black_hole_has_directions(towards: bool, away: bool, heard: bool) -> None:
    scene = Scene()
    sock = scene.connection(NODELAY)
    scene.a.black_hole(towards=towards, away=away)
    sock.send(b"hello")
    scene.run(3.0)
    assert (scene.program.heard[0] == b"hello") == heard
    assert sock.outq == 5
    scene.a.heal()
    scene.run(30.0)
    assert scene.program.heard[0] == b"hello"
    assert sock.outq == 0
    with pytest.raises(ValueError, match="no direction"):
        scene.a.black_hole(towards=False, away=False)


def test_an_unplugged_node_goes_on_where_it_was() -> None:
    scene = Scene(Program(echo))
    sock = scene.connection(NODELAY)
    scene.a.unplug()
    sock.send(b"x")
    scene.run(5.0)
    assert sock.recv(10) is None
    scene.a.heal()
    scene.run(10.0)
    assert sock.recv(10) == b"x"


def test_a_partition_is_between_two() -> None:
    scene = Scene(Program(echo))
    b = scene.world.node("b")
    other = b.place(Program(echo))
    one, two = scene.connection(label="one"), scene.dial(label="two", to=other)
    scene.run(1.0)
    scene.world.partition(scene.world.client, scene.a)
    for sock in (one, two):
        sock.send(b"x")
    scene.run(1.0)
    assert (one.recv(10), two.recv(10)) == (None, b"x")
    scene.world.join(scene.world.client, scene.a)
    scene.run(2.0)
    assert one.recv(10) == b"x"


def test_the_client_can_lose_its_own_network() -> None:
    scene = Scene(Program(echo))
    sock = scene.connection(NODELAY)
    scene.world.client.unplug()
    sock.send(b"x")
    scene.run(2.0)
    assert sock.recv(1) is None
    scene.world.client.heal()
    scene.run(2.0)
    assert sock.recv(1) == b"x"
    with pytest.raises(RuntimeError, match="unplug"):
        scene.world.client.power_off()


def test_a_slow_link() -> None:
    scene = Scene(Program(echo))
    sock = scene.connection(NODELAY)
    scene.a.delay(0.2)
    sock.send(b"x")
    assert scene.when(lambda: sock.recv(1), 1.0) == pytest.approx(0.2001)
    scene.a.delay(0)
    sock.send(b"x")
    assert scene.when(lambda: sock.recv(1), 1.0) == pytest.approx(0.0001)
    for seconds in (-1, 61, float("nan")):
        with pytest.raises(ValueError, match=r"right: node\.delay"):
            scene.a.delay(seconds)


def test_a_share_of_the_packets_is_lost() -> None:
    scene = Scene()
    sent: list[int] = []
    lost: list[int] = []
    scene.world.trace = lambda _, what: (lost if what.startswith("lost") else sent).append(1)
    scene.a.lose(0.2, away=False)
    for number in range(50):
        sock = scene.dial(NODELAY, label=f"c{number}")
        scene.run(10.0)
        sock.send(b"x")
        scene.run(10.0)
        sock.abort()
    assert len(lost) / (50 * 4) == pytest.approx(0.22, abs=0.07)
    with pytest.raises(ValueError, match=r"right: node\.lose"):
        scene.a.lose(20)
    with pytest.raises(ValueError, match=r"right: node\.overtake"):
        scene.a.overtake(0.1, by=-1)


def test_power_has_a_log() -> None:
    scene = Scene()
    scene.world.at(3.0, scene.a.power_off)
    scene.world.at(5.0, scene.a.power_on)
    scene.run(10.0)
    assert scene.world.log == [(3.0, "a: power off"), (5.0, "a: power on")]
    scene.a.power_on()
    assert scene.a.on
    with pytest.raises(ValueError, match=r"right: net\.at"):
        scene.world.at(-1, scene.a.power_off)


def test_pods_of_a_dead_node_are_dead() -> None:
    scene = Scene()
    scene.a.power_off()
    assert not scene.pod.running
    with pytest.raises(RuntimeError, match="power_on"):
        scene.a.place(Program())
    with pytest.raises(RuntimeError, match="start"):
        scene.pod.freeze()
    scene.a.power_on()
    assert scene.pod.running


def test_the_control_plane_takes_a_dead_node_out_and_back() -> None:
    scene = Scene(Program(echo))
    b = scene.world.node("b")
    orders = scene.world.service(ORDERS, [scene.pod, b.place(Program(echo))])
    scene.world.control_plane(lag=40.0, recovery=3.0)
    scene.a.power_off()
    scene.run(39.9)
    assert len(orders.pods) == 2
    scene.run(0.2)
    assert orders.pods == b.pods
    scene.a.power_on()
    scene.run(3.1)
    assert set(orders.pods) == {*b.pods, scene.pod}
    scene.a.power_off()
    scene.run(30.0)
    scene.a.power_on()
    scene.run(100.0)
    assert len(orders.pods) == 2, "back in time, so never out"


def test_a_control_plane_that_is_down_is_late() -> None:
    scene = Scene(Program(echo))
    orders = scene.world.service(ORDERS, [scene.pod])
    control = scene.world.control_plane(lag=40.0, spread=8.0)
    scene.a.power_off()
    control.down()
    scene.run(300.0)
    counts = [len(orders.pods)]
    control.up()
    counts.append(len(orders.pods))
    assert counts == [1, 0]
    with pytest.raises(ValueError, match="lag"):
        scene.world.control_plane(lag=-1)


@pytest.mark.parametrize("seed", range(3))
def test_the_lag_is_spread(seed: int) -> None:
    scene = Scene(Program(echo), seed=seed)
    orders = scene.world.service(ORDERS, [scene.pod])
    scene.world.control_plane(lag=40.0, spread=8.0)
    scene.a.power_off()
    took = scene.when(lambda: not orders.pods, 60.0)
    assert took is not None
    assert 40.0 <= took <= 48.0
    assert took != 40.0


def test_a_fault_at_the_nth_segment() -> None:
    scene = Scene(Program(echo))
    sock = scene.connection(NODELAY)
    scene.world.when(lambda segment: segment.data != b"").at_segment(3, scene.a.power_off)
    answers = []
    for _ in range(3):
        sock.send(b"x")
        scene.run(0.1)
        answers.append(sock.recv(1))
    assert answers == [b"x", None, None], "request, answer, request: the third is lost"
    assert not scene.a.on
    assert not scene.world.fabric.taps
    with pytest.raises(ValueError, match="the next one is 1"):
        scene.world.at_segment(0, scene.a.power_on)


@pytest.mark.parametrize(
    ("fault", "answered"),
    [("kill", True), ("reset", True), ("stop", True), ("freeze", True), ("power_off", False)],
)
def test_whoever_sends_a_segment_may_be_its_victim(fault: str, answered: bool) -> None:
    """What a program has handed over is its kernel's to send; what comes behind it stays behind."""
    net = SimNet()
    pod = net.node("a").pod()
    strike = getattr(pod, fault, None) or getattr(pod.node, fault)
    net.when(lambda segment: segment.src[0] == pod.host and bool(segment.data)).at_segment(
        1, strike
    )
    with net.running():
        sock = create_connection((pod.host, pod.port), network=net)
        sock.settimeout(2.0)
        sock.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi")
        if answered:
            assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        with pytest.raises(TimeoutError) if fault in ("freeze", "power_off") else ends(fault):
            assert sock.recv(1000) == b""
        sock.close()
    net.close()
    assert pod.counts()["requests"] == 1


def ends(fault: str) -> contextlib.AbstractContextManager[object]:
    """How a connection ends whose program does."""
    if fault == "reset":
        return pytest.raises(ConnectionResetError)
    return contextlib.nullcontext()


def test_a_segment_that_waits_for_its_fault_is_overtaken_by_none() -> None:
    scene = Scene(Program(echo))
    sock = scene.connection(NODELAY)
    sent: list[tuple[str, bytes]] = []

    def act() -> None:
        sent.append(("fault", b""))
        sock.send(b"3")

    scene.world.when(lambda segment: segment.data == b"1").at_segment(1, act)
    scene.world.fabric.taps.append(
        lambda segment: sent.append((segment.src[0], segment.data)) if segment.data else None
    )
    sock.send(b"1")
    sock.send(b"2")
    scene.run(1.0)
    assert [data for _, data in sent[:4]] == [b"1", b"", b"2", b"3"]
    assert sock.recv(10) == b"123"


def test_the_first_segment_is_a_syn() -> None:
    scene = Scene()
    scene.connection().close()
    scene.world.at_segment(1, scene.a.black_hole)
    sock = scene.dial(label="new")
    assert scene.when(sock.writable, 3.0) is None


def test_silent_and_unrouted_addresses() -> None:
    scene = Scene()
    silent = [scene.world.silent_address(), scene.world.silent_address(port=5432)]
    unrouted = scene.world.unrouted_address()
    assert silent == ["10.244.254.1:8080", "10.244.254.2:5432"]
    assert unrouted == "10.244.255.1:8080"
    socks = []
    for address in (*silent, unrouted):
        host, _, port = address.rpartition(":")
        socks.append(scene.client.connect((host, int(port))))
    scene.run(5.0)
    assert [sock.error for sock in socks] == [0, 0, errno.EHOSTUNREACH]
    assert scene.client.neighbours.state("10.244.254.1") == "REACHABLE"


def test_names_of_nodes_are_checked() -> None:
    scene = Scene()
    for name in ("", "a", "client"):
        with pytest.raises(ValueError, match=r"right: net\.node"):
            scene.world.node(name)
    with pytest.raises(ValueError, match="port"):
        scene.a.place(Program(), port=0)
    with pytest.raises(ValueError, match="ICMP"):
        scene.a.unreachable(errno.EIO)


def test_a_fault_after_hours_of_rest() -> None:
    scene = Scene(Program(echo))
    sock = scene.connection(NODELAY, *keepalive(5, 1, 6))
    scene.run(7200.0)
    scene.a.kernel.link.away.rules.append(lambda segment: segment.flags & SYN != 0)
    assert sock.state == ESTABLISHED
    scene.a.power_off()
    code, took = scene.end_of(sock, 60.0)
    assert code == errno.ETIMEDOUT
    assert took is not None
    assert 5.0 < took <= 11.1
