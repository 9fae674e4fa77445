"""Faults drawn at random: values that can be replayed, and a world that stands them."""

from __future__ import annotations

import errno
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.testing.simnet.faults import KINDS, Fault, draw_faults, schedule
from outlast.testing.simnet.sockets import SimSocket
from outlast.testing.simnet.states import CLOSED, ESTABLISHED
from tests.simnet.scene import NODELAY, Program, Scene, echo, keepalive, user_timeout


def test_a_draw_is_its_generator() -> None:
    drawn = [draw_faults(Random("7"), ["a", "b"], until=30.0, most=9) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert drawn[0] == sorted(drawn[0], key=lambda fault: fault.at)
    assert draw_faults(Random("7"), [], until=30.0) == []
    only = [draw_faults(Random(str(n)), ["a"], until=1.0, kinds=["loss"]) for n in range(20)]
    assert {fault.kind for faults in only for fault in faults} == {"loss"}
    with pytest.raises(ValueError, match="is none of power"):
        draw_faults(Random("7"), ["a"], until=1.0, kinds=["fire"])


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault(3, 4, "power", "a"), "net.at(3, a.power_off); net.at(7, a.power_on)"),
        (Fault(3, 4, "loss", "b", 0.25), "net.at(3, b.lose, 0.25); net.at(7, b.heal)"),
        (Fault(3, 4, "kill", "a"), "net.at(3, a.pods[0].kill); net.at(7, a.pods[0].start)"),
        (
            Fault(1, 1, "hole-away", "a"),
            "net.at(1, lambda: a.black_hole(towards=False)); net.at(2, a.heal)",
        ),
    ],
)
def test_a_fault_is_a_line_of_a_script(fault: Fault, text: str) -> None:
    assert str(fault) == text


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_line_is_what_is_done(kind: str) -> None:
    """The script and the strategy have the same log."""
    fault = Fault(1.0, 2.0, kind, "a", 0.1)
    logs = []
    for scripted in (False, True):
        scene = Scene(Program(echo))
        if scripted:
            for line in str(fault).split("; "):
                exec(line, {"net": scene.world, "a": scene.a})
        else:
            schedule(scene.world, [fault])
        scene.run(60.0)
        logs.append(scene.world.log)
    assert len(logs[0]) >= 2
    assert logs[0] == logs[1]


def test_an_unknown_node_is_told() -> None:
    with pytest.raises(ValueError, match="no node 'z'; there are a"):
        schedule(Scene().world, [Fault(1, 1, "power", "z")])


class Worker:
    """Keeps one connection to the Service and asks on it, dialling again when it ends."""

    def __init__(self, scene: Scene, vip: tuple[str, int], number: int) -> None:
        self.scene, self.vip, self.number = scene, vip, number
        self.dials = self.answers = 0
        self.sock: SimSocket | None = None
        self._ask()

    def _ask(self) -> None:
        sock = self.sock
        if sock is None or sock.error or sock.state == CLOSED:
            if sock is not None:
                sock.close()
            self.dials += 1
            options = [NODELAY, *keepalive(1, 1, 3), user_timeout(3000)]
            label = f"worker {self.number}/dial {self.dials}"
            self.sock = self.scene.client.connect(self.vip, options, label=label)
        elif sock.state == ESTABLISHED:
            self._exchange(sock)
        self.scene.timeline.after(400_000, self._ask)

    def _exchange(self, sock: SimSocket) -> None:
        try:
            data = sock.recv(1000)
            sock.send(b"x")
        except OSError as error:
            if error.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT):
                raise
            data = b""
        if data == b"":
            sock.abort()
            self.sock = None
        elif data:
            self.answers += 1


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_a_world_stands_its_faults(seed: int) -> None:
    """Whatever happens: no event fails, and afterwards connections work again, and then end."""
    scene = Scene(Program(echo), seed=seed)
    b = scene.world.node("b")
    orders = scene.world.service("orders.shop.svc:80", [scene.pod, b.place(Program(echo))])
    workers = [Worker(scene, (orders.host, orders.port), number) for number in range(2)]
    faults = draw_faults(Random(f"{seed}"), ["a", "b"], until=20.0)
    schedule(scene.world, faults)
    scene.run(60.0)
    before = [worker.answers for worker in workers]
    scene.run(70.0)
    assert all(w.answers > n for w, n in zip(workers, before, strict=True)), [*map(str, faults)]
    assert len(scene.client.connections) < 10
