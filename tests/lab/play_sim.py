"""Plays the rows of the differential table on the simulated network."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.testing.simnet.pod import Pod
from outlast.testing.simnet.rules import SECOND, Kernel
from outlast.testing.simnet.sockets import SimSocket
from outlast.testing.simnet.timeline import Timeline
from outlast.testing.simnet.world import World
from tests.lab.rows import SAMPLES, SETTLED, Heard, Row
from tests.simnet.scene import Program, echo


class Played:
    """One row's socket, and what its program hears."""

    def __init__(self, world: World, row: Row, pod: Pod) -> None:
        self.row = row
        self._world = world
        self._pod = pod
        self._start = 0
        self._due = False
        self.heard = Heard()
        self.sock: SimSocket | None = None

    def begin(self) -> None:
        """Connect."""
        host = self._world.client.kernel
        self.sock = host.connect(self._pod.endpoint, self.row.options, label=self.row.name)

    def act(self) -> None:
        """Do what the row says, after the cut, and listen."""
        self._start = self._world.timeline.now
        if self.row.act == "connect":
            self.begin()
        assert self.sock is not None
        if self.row.act == "unacked":
            self.sock.send(b"x" * 100)
        self.sock.on_change = self._soon

    def stuff(self) -> None:
        """Send until nothing fits any more."""
        assert self.sock is not None
        while self.sock.send(bytes(65536)):
            pass

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            self._world.timeline.after(0, self._look)

    def _look(self) -> None:
        self._due = False
        assert self.sock is not None
        connected = self.row.act == "connect" and self.sock.writable()
        code = self.sock.take_error()
        if code or (connected and not self.heard.errors):
            at = (self._world.timeline.now - self._start) / SECOND
            self.heard.errors.append((at, code))

    def sample(self) -> None:
        """Note unacked, backoff, retransmits and total_retrans."""
        assert self.sock is not None
        info = self.sock.tcp_info()
        values = (info.unacked, info.backoff, info.retransmits, info.total_retrans)
        self.heard.samples.append(values)


def play(rows: Sequence[Row], limit: float, syn_linear: int) -> dict[str, Heard]:
    """What every row's program heard; `syn_linear` as on the kernel compared with."""
    timeline = Timeline()
    world = World(timeline, 1, kernel=Kernel(wheel=True, syn_linear=syn_linear))
    nodes = {name: world.node(name) for name in ("dead", "gone", "never", "live")}
    pods = {name: node.place(Program(echo)) for name, node in nodes.items()}
    nodes["never"].power_off()
    played = [Played(world, row, pods[row.node]) for row in rows]
    for each in played:
        if each.row.act != "connect":
            each.begin()
    world.client.kernel.connect(pods["dead"].endpoint, label="first").close()
    _pass(timeline, 0.02)
    pods["live"].freeze()
    for _ in range(3):
        for each in played:
            if each.row.act == "stuffed":
                each.stuff()
        _pass(timeline, SETTLED / 3)
    _pass(timeline, 0.02)  # what the lab takes for the faults
    nodes["dead"].black_hole()
    nodes["gone"].power_off()
    world.client.kernel.neighbours.flush(pods["gone"].host)
    for each in played:
        each.act()
    passed = 0.0
    for moment in (*SAMPLES, limit):
        _pass(timeline, moment - passed)
        passed = moment
        for each in played:
            each.sample()
    return {each.row.name: each.heard for each in played}


def _pass(timeline: Timeline, seconds: float) -> None:
    timeline.advance(timeline.now + round(seconds * SECOND))
