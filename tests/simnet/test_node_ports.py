"""NodePorts: both traffic policies, nodes without a pod, the health check (facts 9.3)."""

from __future__ import annotations

import errno
import json

import pytest

from outlast.testing.simnet.service import NodePort, Service
from outlast.testing.simnet.sockets import SimSocket
from outlast.testing.simnet.states import ESTABLISHED
from tests.simnet.scene import NODELAY, Program, Scene, echo, keepalive, pod_of


class Cluster(Scene):
    """Three nodes, pods on the first two, and a client outside."""

    def __init__(self, node_port: NodePort) -> None:
        super().__init__(Program(echo))
        self.b, self.c = self.world.node("b"), self.world.node("c")
        self.other = self.b.place(Program(echo))
        self.router: Service = self.world.service(
            "router.ingress.svc:80", [self.pod, self.other], node_port=node_port
        )

    def dial_node(self, host: str, port: int = 32727, label: str = "c") -> SimSocket:
        """A dial of a node's port."""
        return self.client.connect((host, port), [NODELAY], label=label)

    def answered(self, sock: SimSocket) -> bytes | None:
        """What comes back within a second."""
        self.run(1.0)
        if sock.state == ESTABLISHED:
            sock.send(b"hello")
            self.run(1.0)
            return sock.recv(100)
        return None


def test_a_local_node_port_takes_the_nodes_own_pods() -> None:
    net = Cluster(NodePort(32727, local=True))
    for node, pod in ((net.a, net.pod), (net.b, net.other)):
        for number in range(5):
            sock = net.dial_node(node.host, label=f"{node.name} {number}")
            assert net.answered(sock) == b"hello"
            assert pod_of(sock, net.pod, net.other) == pod.name, "and it sees the client's address"
    assert net.end_of(net.dial_node(net.c.host), 10.0) == (0, None), "what comes is lost"


def test_an_idle_connection_to_a_local_node_port_rests() -> None:
    net = Cluster(NodePort(32727, local=True))
    options = [NODELAY, *keepalive(5, 1, 6)]
    sock = net.client.connect((net.a.host, 32727), options, label="c")
    net.run(100.0)
    assert len(net.world.fabric.resting) == 1
    assert net.answered(sock) == b"hello"
    net.run(100.0)
    net.a.power_off()
    assert net.end_of(sock, 20.0)[0] == errno.ETIMEDOUT


def test_a_node_without_a_pod_that_lets_connections_hang() -> None:
    """Incident B: established, and then nothing for ever."""
    net = Cluster(NodePort(32727, local=True, mute=True))
    sock = net.dial_node(net.c.host)
    assert net.answered(sock) is None
    assert (sock.state, sock.outq) == (ESTABLISHED, 0)
    net.run(3600.0)
    assert sock.state == ESTABLISHED
    net.c.power_off()
    net.c.power_on()
    sock.send(b"x")
    assert net.end_of(sock, 1.0)[0] == errno.ECONNRESET
    net.router.add(net.c.place(Program(echo)))
    assert net.answered(net.dial_node(net.c.host, label="then")) == b"hello"


def test_a_cluster_node_port_goes_anywhere_and_hides_the_client() -> None:
    net = Cluster(NodePort(32727))
    socks = [net.dial_node(net.c.host, label=f"c {number}") for number in range(20)]
    assert [net.answered(sock) for sock in socks] == [b"hello"] * 20
    programs = [pod.program for pod in (net.pod, net.other)]
    accepted = [peer for p in programs if isinstance(p, Program) for peer in p.accepted]
    assert {peer.remote[0] for peer in accepted} == {net.c.host}
    assert {peer.local[0] for peer in accepted} == {net.pod.host, net.other.host}
    sock = socks[0]
    net.c.power_off()
    sock.send(b"hello")
    net.run(5.0)
    assert sock.recv(10) is None, "the node in the middle is part of the connection"


def test_a_cluster_node_port_finds_a_pod_of_the_node_itself() -> None:
    """There too the client is hidden: the answer goes through the translation back."""
    net = Cluster(NodePort(32727))
    net.router.remove(net.b)
    sock = net.dial_node(net.a.host)
    assert net.answered(sock) == b"hello"
    assert isinstance(net.pod.program, Program)
    assert [peer.remote[0] for peer in net.pod.program.accepted] == [net.a.host]


def test_a_node_in_the_middle_passes_errors_on() -> None:
    net = Cluster(NodePort(32727))
    net.answered(net.dial_node(net.c.host, label="first"))
    for node in (net.a, net.b):
        node.unreachable()
    assert net.end_of(net.dial_node(net.c.host), 5.0)[0] == errno.EHOSTUNREACH
    net.router.remove(net.a, net.b)
    assert net.end_of(net.dial_node(net.c.host, label="then"), 5.0)[0] == errno.ECONNREFUSED


def ask_health(net: Cluster, host: str) -> tuple[int, dict[str, object]]:
    sock = net.dial_node(host, 31234, label=f"check {net.now}")
    net.run(0.1)
    sock.send(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    net.run(0.1)
    head, _, body = (sock.recv(10_000) or b"").partition(b"\r\n\r\n")
    assert sock.recv(1) == b""
    sock.close()
    return int(head.split()[1]), json.loads(body)


def test_the_health_check_node_port() -> None:
    net = Cluster(NodePort(32727, local=True, health_check=31234))
    assert ask_health(net, net.a.host) == (
        200,
        {
            "service": {"namespace": "ingress", "name": "router"},
            "localEndpoints": 1,
            "serviceProxyHealthy": True,
        },
    )
    assert ask_health(net, net.c.host)[0] == 503
    net.router.remove(net.a)
    assert ask_health(net, net.a.host)[0] == 503
    net.b.proxy_healthy = False
    assert ask_health(net, net.b.host)[0] == 503
    net.b.proxy_healthy = True
    net.b.power_off()
    net.b.power_on()
    assert ask_health(net, net.b.host)[0] == 200
    late = net.world.node("late")
    assert ask_health(net, late.host)[0] == 503


def test_a_frozen_node_does_not_tell_its_health() -> None:
    net = Cluster(NodePort(32727, local=True, health_check=31234))
    net.a.freeze()
    sock = net.dial_node(net.a.host, 31234)
    net.run(0.1)
    sock.send(b"GET / HTTP/1.1\r\n\r\n")
    net.run(10.0)
    assert (sock.outq, sock.recv(1)) == (0, None)
    net.a.thaw()
    net.run(0.1)
    assert (sock.recv(1000) or b"").startswith(b"HTTP/1.1 200")


def test_node_ports_are_checked() -> None:
    with pytest.raises(ValueError, match="30000"):
        NodePort(80)
    with pytest.raises(ValueError, match="health_check"):
        NodePort(32727, local=True, health_check=80)
    with pytest.raises(ValueError, match="local=True"):
        NodePort(32727, mute=True)
    net = Cluster(NodePort(32727))
    with pytest.raises(ValueError, match="taken by"):
        net.world.service("again:80", node_port=NodePort(32727))
