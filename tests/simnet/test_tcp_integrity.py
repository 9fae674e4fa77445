"""Whatever is lost or overtaken on the way: bytes arrive in order, once, and in the end all do,
unless a sender has met with silence for so long that its kernel ends the connection."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from functools import partial

from hypothesis import example, given, settings
from hypothesis import strategies as st

from outlast.testing.simnet.host import Option
from outlast.testing.simnet.rules import Kernel
from outlast.testing.simnet.sockets import SimSocket
from outlast.testing.simnet.states import CLOSED, ESTABLISHED
from tests.simnet.scene import NODELAY, Program, Scene

LEAST_PATIENCE = 924.6 - 1.0  # seconds; fifteen repeats (linux-tcp facts), but for a round trip
SEND_BUFFER: tuple[int, int] = (1, 7)
RECEIVE_BUFFER: tuple[int, int] = (1, 8)


@dataclass
class Way:
    """What a link does to packets of one direction."""

    loss: float
    late: float
    late_by: int

    @property
    def fails(self) -> float:
        """The share of packets that do not come, or not soon."""
        return 1 - (1 - self.loss) * (1 - self.late)


ways = st.builds(
    Way,
    loss=st.sampled_from([0.0, 0.0, 0.02, 0.1, 0.29]),
    late=st.sampled_from([0.0, 0.0, 0.1, 0.5]),
    late_by=st.sampled_from([60, 400, 30_000, 300_000]),
)
writes = st.lists(
    st.tuples(st.sampled_from([0, 10, 5_000, 300_000]), st.integers(1, 200_000)), max_size=8
)


def pattern(start: int, size: int) -> bytes:
    """Bytes that tell where in a stream they belong."""
    whole = bytes(range(251)) * (size // 251 + 2)
    return whole[start % 251 :][:size]


class End:
    """One end that writes a plan and checks what it reads."""

    def __init__(self, scene: Scene, plan: list[tuple[int, int]]) -> None:
        self.scene = scene
        self.plan = plan
        self.sock: SimSocket | None = None
        self.sent = self.read = 0
        self._owed = 0

    def begin(self, sock: SimSocket) -> None:
        self.sock = sock
        sock.on_change = lambda: self._soon(0)
        at = 0
        for gap, size in self.plan:
            at += gap
            self.scene.timeline.after(at, partial(self._more, size))
        self._soon(0)

    def _more(self, size: int) -> None:
        self._owed += size
        self.act()

    def _soon(self, delay: int) -> None:
        self.scene.timeline.after(delay, self.act)

    def act(self) -> None:
        """Read all there is, write what fits."""
        sock = self.sock
        if sock is None or sock.state != ESTABLISHED:
            return
        while data := sock.recv(30_000):
            assert data == pattern(self.read, len(data)), "out of order, lost or twice"
            self.read += len(data)
        while self._owed and (count := sock.send(pattern(self.sent, self._owed))):
            self.sent += count
            self._owed -= count


@settings(max_examples=150, deadline=None)
@example(  # one end gives up: what it sent or was answered was lost for a quarter of an hour
    there=Way(0.29, 0.1, 300_000),
    back=Way(0.29, 0.1, 300_000),
    up=[(0, 51_005), (0, 196_578), (0, 185_569)],
    down=[(300_000, 1), (0, 1_447), (0, 3_068), (0, 2_655), (0, 15_452), (0, 196_258)],
    seed=135_172,
    buffers=2_304,
    wheel=True,
    nodelay=False,
)
@given(
    there=ways,
    back=ways,
    up=writes,
    down=writes,
    seed=st.integers(0, 2**32),
    buffers=st.sampled_from([2_304, 20_000, 200_000]),
    wheel=st.booleans(),
    nodelay=st.booleans(),
)
def test_bytes_arrive_in_order_and_once(
    there: Way,
    back: Way,
    up: list[tuple[int, int]],
    down: list[tuple[int, int]],
    seed: int,
    buffers: int,
    wheel: bool,
    nodelay: bool,
) -> None:
    ends: list[End] = []
    up = [(0, 1), *up]  # a client that says nothing is forgotten when its handshake's end is lost

    def served(sock: SimSocket) -> None:
        if ends[1].sock is None:
            ends[1].begin(sock)
        ends[1].act()

    scene = Scene(Program(served), seed=seed, kernel=Kernel(wheel=wheel, receive_buffer=buffers))
    ends += [End(scene, up), End(scene, down)]
    link = scene.a.kernel.link
    for direction, way in ((link.towards, there), (link.away, back)):
        direction.loss, direction.late, direction.late_by = way.loss, way.late, way.late_by
    options: list[Option] = [NODELAY] if nodelay else []
    sock = scene.client.connect(scene.pod.endpoint, [*options, (*RECEIVE_BUFFER, buffers // 2)])
    ends[0].begin(sock)
    ends[0].sock = sock
    totals = [sum(size for _, size in plan) for plan in (up, down)]

    def done() -> bool:
        ends[0].act()
        if totals[1] and ends[1].sock is None and scene.program.accepted:
            ends[1].begin(scene.program.accepted[0])
        return ends[1].read == totals[0] and ends[0].read == totals[1]

    def given_up() -> bool:
        return any(end.sock is not None and end.sock.error == errno.ETIMEDOUT for end in ends)

    took = scene.when(lambda: done() or given_up(), 3600.0 * 4)
    if given_up():  # as any kernel does (tcp_retries2), where nearly half of all tries fail
        assert 1 - (1 - there.fails) * (1 - back.fails) >= 0.3
        assert took is not None
        assert took >= LEAST_PATIENCE
        return
    assert took is not None, (ends[0].read, ends[1].read, totals)
    assert sock.state != CLOSED
    assert [end.sent for end in ends] == totals


@settings(max_examples=100, deadline=None)
@given(loss=st.floats(0, 0.29), seed=st.integers(0, 2**32), size=st.integers(1, 3000))
def test_a_living_peer_is_reached_in_the_end(loss: float, seed: int, size: int) -> None:
    scene = Scene(seed=seed)
    scene.a.lose(loss)
    sock = scene.dial(NODELAY)
    assert scene.when(sock.writable, 300.0) is not None
    assert not sock.error
    sock.send(bytes(size))
    assert scene.when(lambda: sock.outq == 0, 900.0) is not None
    heard = scene.program.heard
    assert scene.when(lambda: heard and len(heard[0]) == size, 900.0) is not None


def test_a_lost_segment_among_many_is_repaired_by_those_behind_it() -> None:
    """No time-out is needed where SACK tells of a hole."""
    scene = Scene()
    sock = scene.connection(NODELAY)
    lost: list[int] = []

    def lose_the_second(segment: object) -> bool:
        lost.append(1)
        return len(lost) == 2

    scene.a.kernel.link.towards.rules.append(lose_the_second)
    for _ in range(6):
        sock.send(bytes(2000))
        scene.run(0.0001)
    took = scene.when(lambda: len(scene.program.heard[0]) == 12_000, 5.0)
    assert took is not None
    assert took < 0.01
    assert sock.tcp_info().total_retrans == 1
