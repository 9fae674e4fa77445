"""Services: the pin of connection tracking, affinity, endpoints that go, NodePorts (facts 9)."""

from __future__ import annotations

import errno

import pytest

from outlast.testing.simnet.conntrack import Entry, Table
from outlast.testing.simnet.dns import Answer
from outlast.testing.simnet.host import Host
from outlast.testing.simnet.packet import ACK, FIN, RST, SYN, Segment
from outlast.testing.simnet.proxy import Proxy
from outlast.testing.simnet.rules import SECOND, Kernel
from outlast.testing.simnet.sockets import SimSocket
from outlast.testing.simnet.states import ESTABLISHED
from tests.simnet.scene import NODELAY, SOCKET, Program, Scene, echo, pod_of

ORDERS = "orders.shop.svc:80"
REUSE = (SOCKET, 2, 1)


class Two(Scene):
    """Two nodes with a pod each behind one Service."""

    def __init__(self, *, balance: str = "random", affinity: float = 0.0, seed: int = 1) -> None:
        super().__init__(Program(echo), seed=seed)
        self.b = self.world.node("b")
        self.other = self.b.place(Program(echo))
        self.orders = self.world.service(
            ORDERS, [self.pod, self.other], balance=balance, affinity=affinity
        )

    def dial_vip(self, label: str, port: int = 0) -> SimSocket:
        """A dial of the Service's address, maybe from a given port."""
        source = ("", port) if port else None
        vip = (self.orders.host, self.orders.port)
        return self.client.connect(vip, [REUSE, NODELAY], label=label, source=source)

    def outcome(self, sock: SimSocket, seconds: float = 6.5) -> str:
        """alive or dead, as by a program's own time-out; the socket is reset then."""
        took = self.when(sock.writable, seconds)
        result = "alive" if took is not None and not sock.error else "dead"
        sock.abort()
        return result


def test_a_new_port_draws_again() -> None:
    """Measured: with alternate choices, dead, alive, dead, alive, dead, alive."""
    two = Two(balance="round-robin")
    two.a.power_off()
    ends = [two.outcome(two.dial_vip(f"dial {number}")) for number in range(6)]
    assert ends == ["dead", "alive"] * 3


def test_the_same_port_is_pinned_to_the_dead_pod() -> None:
    two = Two(balance="round-robin")
    two.a.power_off()
    ends = [two.outcome(two.dial_vip(f"dial {number}", port=40_000)) for number in range(5)]
    assert ends == ["dead"] * 5


def test_a_connection_that_was_reset_is_no_pin() -> None:
    two = Two(balance="round-robin")
    two.a.power_off()
    ends = [two.outcome(two.dial_vip(f"d{n}", port=40_000 + n // 4)) for n in (0, 4, 5, 6, 7)]
    assert ends == ["dead", "alive", "dead", "dead", "dead"]


def test_the_pin_ends_120_s_after_the_last_syn() -> None:
    for pause, expected in ((110.0, "dead"), (121.0, "alive")):
        two = Two(balance="round-robin")
        two.a.black_hole()
        two.outcome(two.dial_vip("first", port=40_000))
        two.run(pause)
        assert two.outcome(two.dial_vip("second", port=40_000)) == expected


def test_retransmitted_syns_go_where_the_first_went() -> None:
    two = Two(balance="round-robin")
    two.a.black_hole()
    sock = two.dial_vip("dial")
    assert two.when(sock.writable, 50.0) is None
    two.a.heal()
    two.run(30.0)
    assert sock.state == ESTABLISHED
    assert pod_of(sock, two.pod, two.other) == two.pod.name


def test_an_established_connection_stays_when_its_endpoint_goes() -> None:
    two = Two(balance="round-robin")
    sock = two.dial_vip("kept")
    two.run(1.0)
    two.orders.remove(two.a)
    assert list(two.orders.pods) == [two.other]
    sock.send(b"still you?")
    two.run(1.0)
    assert sock.recv(100) == b"still you?"
    news = [two.dial_vip(f"new {number}") for number in range(10)]
    two.run(1.0)
    assert {pod_of(new, two.pod, two.other) for new in news} == {two.other.name}
    two.orders.add(two.a)
    assert list(two.orders.pods) == [two.other, two.pod]


def test_terminating_pods_serve_only_when_nobody_is_ready() -> None:
    two = Two()
    two.orders.end(two.pod)
    sock = two.dial_vip("first")
    two.run(1.0)
    assert pod_of(sock, two.pod, two.other) == two.other.name
    two.orders.end(two.b)
    socks = [two.dial_vip(f"then {number}") for number in range(20)]
    two.run(1.0)
    assert {pod_of(sock, two.pod, two.other) for sock in socks} == {"a-1", "b-1"}
    two.orders.remove(two.a, two.b)
    assert two.end_of(two.dial_vip("last"), 1.0)[0] == errno.ECONNREFUSED


@pytest.mark.parametrize("seed", range(5))
def test_affinity_keeps_a_client_at_its_pod(seed: int) -> None:
    two = Two(affinity=100.0, seed=seed)
    first = two.dial_vip("first")
    two.run(1.0)
    home = pod_of(first, two.pod, two.other)
    for number in range(10):
        two.run(90.0)  # each connection renews it
        sock = two.dial_vip(f"dial {number}")
        two.run(1.0)
        assert pod_of(sock, two.pod, two.other) == home
    two.orders.remove(two.pod if home == "a-1" else two.other)
    sock = two.dial_vip("moved")
    two.run(1.0)
    assert pod_of(sock, two.pod, two.other) not in (home, "nobody")


def test_source_hash_pins_a_client() -> None:
    two = Two(balance="source-hash")
    two.a.power_off()
    two.b.power_off()
    two.a.power_on()
    ends = {two.outcome(two.dial_vip(f"dial {number}"), 1.0) for number in range(10)}
    assert len(ends) == 1


def test_a_mistake_is_told() -> None:
    two = Two()
    with pytest.raises(ValueError, match="never was in"):
        two.orders.remove(two.world.node("c"))
    with pytest.raises(ValueError, match=r"right: orders\.add"):
        two.orders.add(two.world.node("d"))
    with pytest.raises(ValueError, match="lacks a port"):
        two.world.service("orders")
    with pytest.raises(ValueError, match="exists already"):
        two.world.service(ORDERS)
    with pytest.raises(ValueError, match="balance"):
        two.world.service("other:80", balance="fair")
    with pytest.raises(ValueError, match="affinity"):
        two.world.service("other:80", affinity=-1)


@pytest.mark.parametrize("headless", [False, True])
def test_both_families(headless: bool) -> None:
    scene = Scene(Program(echo))
    b = scene.world.node("b")
    pods = [scene.pod, b.place(Program(echo))]
    name = "both.shop.svc"
    both = scene.world.service(f"{name}:8080", pods, headless=headless, dual_stack=True)
    answers: list[Answer] = []
    scene.world.dns.lookup(name, answers.append)
    scene.run(0.1)
    addresses = answers[0].addresses
    if headless:
        assert addresses == (pods[0].host6, pods[1].host6, pods[0].host, pods[1].host)
    else:
        assert addresses == (both.host6, both.host)

    def tries() -> list[bool]:
        socks = [scene.client.connect((address, 8080), [NODELAY]) for address in addresses]
        scene.run(5.0)
        return [sock.state == ESTABLISHED for sock in socks]

    assert all(tries())
    scene.world.client.lose_ipv6()
    assert tries() == [":" not in address for address in addresses]
    scene.world.client.heal()
    assert all(tries())


def test_a_host_without_ipv6_has_no_route_to_it() -> None:
    scene = Scene()
    host = Host(scene.world.fabric, "old", "10.244.0.99", Kernel())
    with pytest.raises(OSError, match="unreachable"):
        host.connect(scene.pod.endpoint6)


# -- connection tracking -----------------------------------------------------------------------


def track(*steps: tuple[int, bool, int]) -> float:
    """Seconds that an entry lives after packets of (flags, is a reply, bytes)."""
    client, vip, pod = ("c", 1), ("v", 80), ("p", 8080)
    table = Table()
    entry = Entry(client, vip, client, pod)
    table.add(entry, 0)
    for flags, reply, size in steps:
        entry.seen(Segment(client, vip, flags, 1, data=bytes(size)), 0, reply=reply)
    assert table.find(client, vip, entry.until - 1) is entry
    assert table.find_reply(pod, client, entry.until - 1) is entry
    assert table.find(client, vip, entry.until) is None
    return entry.until / SECOND


OPEN = ((SYN, False, 0), (SYN | ACK, True, 0), (ACK, False, 0))


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        (((SYN, False, 0),), 120),
        (((SYN, False, 0), (SYN | ACK, True, 0)), 60),
        (OPEN, 432_000),
        ((*OPEN, *[(ACK, False, 10)] * 3), 432_000),
        ((*OPEN, *[(ACK, False, 10)] * 4), 300),
        ((*OPEN, *[(ACK, False, 10)] * 4, (ACK, True, 0)), 432_000),
        ((*OPEN, (FIN | ACK, False, 0)), 120),
        ((*OPEN, (FIN | ACK, False, 0), (ACK, True, 0)), 60),
        ((*OPEN, (FIN | ACK, False, 0), (ACK, True, 10)), 60),
        ((*OPEN, (FIN | ACK, False, 0), (FIN | ACK, True, 0)), 30),
        ((*OPEN, (FIN | ACK, False, 0), (FIN | ACK, True, 0), (ACK, False, 0)), 120),
        ((*OPEN, (RST, True, 0)), 10),
    ],
)
def test_lifetimes_of_entries(steps: tuple[tuple[int, bool, int], ...], seconds: float) -> None:
    assert track(*steps) == seconds


def test_tables_do_not_grow_for_ever() -> None:
    two = Two()
    for number in range(2000):
        sock = two.dial_vip(f"dial {number}")
        two.run(0.5)
        sock.abort()
    proxy = two.client.translation
    assert isinstance(proxy, Proxy)
    assert len(proxy.table) < 600
