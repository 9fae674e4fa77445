"""The forwarder on the kernel: incident A through it, connections that a dead node held, and a
reader that pauses. `OUTLAST_FULL=1` gives the outage its 40 s and the pause its minute.
"""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import outlast
from outlast import Keepalive, Policy
from outlast.shims.forward import Forwarder
from outlast.testing import KernelLab
from tests.lab import handlers
from tests.lab.load import Load, Sample, threads
from tests.lab.test_incident_a import AFTER, BRIEF, FULL, LONG, LOST

PATIENCE = 20.0
CUT_WITHIN = 12.0  # seconds; the promise for established connections of a dead node
HELD = 16  # connections; that none of them has drawn the dead node happens once in 65,536 runs
SIZE = 20_000_000  # bytes; more than all buffers between hold
PAUSE = 60.0 if LONG else 6.0
POLICY = Policy() if LONG else Policy(user_timeout=3.0, keepalive=Keepalive(1, 1, 2))


@contextlib.contextmanager
def forwarding(target: str, policy: Policy | None = None) -> Iterator[Forwarder]:
    """A forwarder on the client node."""
    with Forwarder("127.0.0.1:0", target, policy=policy) as forwarder:
        yield forwarder


def connect(forwarder: Forwarder) -> socket.socket:
    """A client of it."""
    address = forwarder.address
    assert isinstance(address, tuple)
    return socket.create_connection(address, PATIENCE)


def ask(sock: socket.socket) -> None:
    """One byte there and back."""
    sock.sendall(b"?")
    assert sock.recv(1) == b"?", "the forwarder has made up an orderly end"


def alive(sock: socket.socket) -> bool:
    """Whether it still answers."""
    try:
        ask(sock)
    except OSError:
        return False
    return True


class Held:
    """Connections that stand when a node dies; half of those that it had wait for an answer."""

    def __init__(self, forwarder: Forwarder) -> None:
        self.socks = [connect(forwarder) for _ in range(HELD)]
        for sock in self.socks:
            ask(sock)
        self.cut: dict[int, float] = {}

    def watch(self, lost: float, until: float) -> None:
        """Which are reset, and how many seconds after the loss. Every second one has spoken."""
        for sock in self.socks[::2]:
            sock.sendall(b"!")
        quiet = {sock.fileno(): number for number, sock in enumerate(self.socks)}
        while quiet and time.monotonic() < until:
            for sock in select.select([self.socks[n] for n in quiet.values()], [], [], 0.1)[0]:
                number = quiet[sock.fileno()]
                try:
                    assert sock.recv(1) == b"!", "an orderly end"
                except ConnectionResetError:
                    self.cut[number] = time.monotonic() - lost
                    del quiet[sock.fileno()]


def crosses(sample: Sample, lost: float) -> bool:
    """Whether a call was under way when the node died."""
    return sample.at <= lost <= sample.at + sample.took


@pytest.mark.incident("A")
def test_incident_a(lab: KernelLab, figures: Callable[[str], None]) -> None:
    """New connections meet no error; what the dead node held is reset in time, and nothing else."""
    nodes = [lab.node("a"), lab.node("b")]
    pods = [node.pod(raw=handlers.echo) for node in nodes]
    service = lab.service("orders.shop.svc:8080", pods=pods)
    removed, lost = (FULL, LOST) if LONG else (BRIEF, 1.0)
    lab.at(lost, nodes[0].power_off)
    lab.at(removed, service.remove, nodes[0])
    found: list[Load] = []
    with lab.running(), forwarding(f"{service.host}:{service.port}") as forwarder:

        def call() -> None:
            with connect(forwarder) as sock:
                ask(sock)

        def work() -> None:
            found.append(threads(lab, "forward, new, VIP", call, removed + AFTER))

        held = Held(forwarder)
        began = time.monotonic() - lab.elapsed()
        load_ = threading.Thread(target=work)
        load_.start()
        time.sleep(max(0.0, began + lost + 0.1 - time.monotonic()))
        held.watch(began + lost, began + lost + CUT_WITHIN + 1.0)
        load_.join()
        left = [number for number, sock in enumerate(held.socks) if number not in held.cut]
        answering = [alive(held.socks[number]) for number in left]
        for sock in held.socks:
            sock.close()
    load = found[0]
    figures(load.row())
    figures(
        f"forward, held by the dead node: {len(held.cut)} of {HELD}, reset after "
        + ", ".join(f"{took:.1f} s" for took in sorted(held.cut.values()))
    )
    outside = [sample for sample in load.samples if not crosses(sample, lost)]
    assert len(outside) > 300, load.explain()
    assert not [sample for sample in outside if sample.error], load.explain()
    assert not load.hung, load.explain()
    assert max(sample.took for sample in outside) <= 1.0, load.explain()
    assert 0 < len(held.cut) < HELD
    assert all(took <= CUT_WITHIN for took in held.cut.values())
    assert all(answering)


def test_a_reader_that_pauses_keeps_its_connection(lab: KernelLab) -> None:
    """An upload through the forwarder, twice as long as the user timeout that stands while the
    window is open."""
    pod = lab.node("slow").pod(raw=handlers.pause)
    with lab.running(), forwarding(f"static://{pod.address}", POLICY) as forwarder:
        with connect(forwarder) as sock:
            sock.settimeout(PAUSE + PATIENCE)
            sock.sendall(b"%f %d\n" % (PAUSE, SIZE) + bytes(SIZE))
            assert int(sock.recv(100)) == SIZE
        assert forwarder.counts.failed == 0


CLIENT = """
import socket, sys, time
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
sock.sendall(b"?")
assert sock.recv(1) == b"?"
print("stands", flush=True)
time.sleep(600)
"""


def test_a_client_that_dies_on_another_machine_is_not_held_for_ever(
    lab: KernelLab, figures: Callable[[str], None]
) -> None:
    pod = lab.node("a").pod(raw=handlers.echo)
    node = lab.node("b")
    with lab.running(), Forwarder("0.0.0.0:0", f"static://{pod.address}") as forwarder:
        port = forwarder.address[1]
        client = node.spawn([sys.executable, "-c", CLIENT, lab.client.host, str(port)])
        assert client.stdout is not None
        assert client.stdout.readline() == b"stands\n"
        assert forwarder.counts.open == 1
        began = time.monotonic()
        node.power_off()
        while not forwarder.counts.failed and time.monotonic() < began + CUT_WITHIN:
            time.sleep(0.05)
        figures(
            f"forward, a client's machine lost power: cut after {time.monotonic() - began:.1f} s"
        )
        assert forwarder.counts.failed == 1
    client.kill()
    client.communicate()


def test_a_client_is_held_until_an_endpoint_answers(lab: KernelLab) -> None:
    """Whoever connects while the only node is down is served when it is back in time."""
    node = lab.node("a")
    pod = node.pod(raw=handlers.echo)
    pod.wait_ready()
    policy = outlast.Policy(connect_timeout=10.0)
    with lab.running(), forwarding(f"static://{pod.address}", policy) as forwarder:
        node.unplug()
        lab.at(lab.elapsed() + 1.5, node.heal)
        with connect(forwarder) as sock:
            began = time.monotonic()
            ask(sock)
            assert 1.0 < time.monotonic() - began < 8.0
