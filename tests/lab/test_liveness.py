"""Dead or slow, on the kernel, for sockets that were handed out: verdicts and how long they take.

`OUTLAST_FULL=1` (make liveness) goes on to the end of each state, pauses for a whole minute, and
loses packets; without it everything is brief, and the verdict *suspect* is the last one looked at.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import anyio
import pytest

import outlast
from outlast import Keepalive, Liveness, Policy, Watched
from outlast.testing import KernelLab
from outlast.testing.node import Node
from tests.lab import handlers
from tests.lab.wire import PATIENCE

FULL = bool(os.environ.get("OUTLAST_FULL"))
LOOK = 0.02  # seconds between two looks of the test at the verdict
SIZE = 20_000_000  # bytes; more than both kernels hold

# Seconds after the loss within which a state is suspect and dead; infinite: never.
NEVER = float("inf")
MATRIX: dict[str, tuple[float, float]] = {
    "idle": (8.5, 13.0),
    "idle, an answer awaited": (4.5, 13.0),
    "request unacknowledged": (3.0, 14.0),
    "request acknowledged": (8.5, 13.0),
    "request acknowledged, an answer awaited": (4.5, 13.0),
    "window closed, reader lives": (NEVER, NEVER),
    "program frozen": (NEVER, NEVER),
    "slow answer": (NEVER, NEVER),
}
LONGEST = 13.5 if FULL else 5.0  # states that take longer to be suspect are for the full run


def connected(node: Node, handler: Callable[..., object] = handlers.listen) -> socket.socket:
    """A socket to a new pod of that node."""
    pod = node.pod(raw=handler)
    pod.wait_ready()
    return outlast.create_connection((pod.host, pod.port), PATIENCE)


class State:
    """One row of the matrix: a socket in that state, and what was thought of its peer."""

    def __init__(self, lab: KernelLab, name: str) -> None:
        self.name = name
        self.node = lab.node(name.replace(",", "").replace(" ", "-"))
        closed = "window closed" in name
        self.sock = connected(self.node, handlers.pause if closed else handlers.listen)
        self.watched: Watched = outlast.watch(self.sock, awaiting="answer" in name)
        self.since: dict[Liveness, float] = {}
        self.lost_at = 0.0
        if closed:
            self.sock.sendall(b"600 %d\n" % SIZE)
            self.sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    self.sock.send(bytes(1 << 16))
        elif not name.startswith(("idle", "request un")):
            self.sock.sendall(bytes(1000))

    def lose(self) -> None:
        """What happens to the peer."""
        self.lost_at = time.monotonic()
        if self.name == "program frozen":
            self.node.pods[0].freeze()
        elif "lives" not in self.name and self.name != "slow answer":
            self.node.power_off()
        if self.name.startswith("request un"):
            self.sock.sendall(bytes(1000))

    def look(self) -> None:
        """Write down when a verdict came first."""
        self.since.setdefault(self.watched.verdict, time.monotonic() - self.lost_at)

    def row(self) -> str:
        """For people."""
        told = [f"{v.value} after {t:.1f} s" for v, t in self.since.items() if t > LOOK]
        return f"{self.name}: {', '.join(told) or self.watched.verdict.value}"


def test_the_matrix(lab: KernelLab, figures: Callable[[str], None]) -> None:
    with lab.running():
        states = [State(lab, name) for name in MATRIX]
        time.sleep(0.3)  # everything is acknowledged, and every window is closed that will be
        for state in states:
            state.lose()
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            for state in states:
                state.look()
            time.sleep(LOOK)
    for state in states:
        figures(state.row())
        state.watched.stop()
        state.sock.close()
    for state in states:
        suspect, dead = MATRIX[state.name]
        if suspect < LONGEST:
            assert state.since[Liveness.SUSPECT] <= suspect, state.row()
        if suspect == NEVER:
            assert not {Liveness.SUSPECT, Liveness.DEAD} & state.since.keys(), state.row()
        elif FULL:
            assert 9.0 < state.since[Liveness.DEAD] <= dead, state.row()


# --- a reader that pauses ---------------------------------------------------------------------

PAUSE = 60.0 if FULL else 6.0
POLICY = Policy() if FULL else Policy(user_timeout=3.0, keepalive=Keepalive(1, 1, 2))


def test_a_reader_that_pauses_keeps_its_connection(lab: KernelLab) -> None:
    """Twice as long as the user timeout that stands while its window is open."""
    pod = lab.node("slow").pod(raw=handlers.pause)
    received: dict[str, bytes] = {}

    def by_socket() -> None:
        with outlast.create_connection((pod.host, pod.port), PATIENCE, policy=POLICY) as sock:
            sock.settimeout(None)
            sock.sendall(b"%f %d\n" % (PAUSE, SIZE) + bytes(SIZE))
            received["socket"] = sock.recv(100)

    def by_stream(backend: str) -> None:
        async def main() -> None:
            async with await outlast.connect_tcp(pod.host, pod.port, policy=POLICY) as stream:
                await stream.send(b"%f %d\n" % (PAUSE, SIZE) + bytes(SIZE))
                received[backend] = await stream.receive()

        anyio.run(main, backend=backend)

    with lab.running():
        works = [threading.Thread(target=by_socket)]
        works += [threading.Thread(target=by_stream, args=(b,)) for b in ("asyncio", "trio")]
        for work in works:
            work.start()
        for work in works:
            work.join(PAUSE + PATIENCE)
            assert not work.is_alive()
    assert received == dict.fromkeys(("socket", "asyncio", "trio"), b"%d\n" % SIZE)


def test_without_a_watch_a_user_timeout_kills_that_reader(lab: KernelLab) -> None:
    """What the test above would meet if nobody lifted it."""
    pod = lab.node("slow").pod(raw=handlers.pause)
    with lab.running():
        sock = outlast.create_connection((pod.host, pod.port), PATIENCE, policy=Policy(watch=False))
        with sock:
            sock.setsockopt(socket.IPPROTO_TCP, 18, 1000)
            sock.settimeout(PATIENCE)
            with pytest.raises(TimeoutError) as failure:
                sock.sendall(b"%f %d\n" % (PAUSE, SIZE) + bytes(SIZE))
            assert failure.value.errno  # the kernel's, not the socket's own timeout


# --- is it me? --------------------------------------------------------------------------------


def test_behind_our_own_pulled_cable_nobody_is_suspect(lab: KernelLab) -> None:
    with lab.running():
        sock = connected(lab.node("far"), handlers.echo)
        with sock:
            watched = outlast.watch(sock, awaiting=True)
            lab.client.unplug()
            sock.sendall(b"a request")
            seen = set()
            until = time.monotonic() + 3.0  # three repeats have gone nowhere
            while time.monotonic() < until:
                seen.add(watched.check())
                time.sleep(LOOK)
            lab.client.heal()
            assert sock.recv(100) == b"a request"
            assert watched.check() is Liveness.ALIVE
    assert not {Liveness.SUSPECT, Liveness.DEAD} & seen


# --- loss -------------------------------------------------------------------------------------


@contextlib.contextmanager
def loss(node: Node, share: float) -> Iterator[None]:
    """Lose this share of the packets to the node, and of those from it."""
    rule = f"numgen random mod 1000 < {round(share * 1000)} drop"
    chains = "".join(
        f"chain {hook} {{ type filter hook {hook} priority -300; {rule}; }}\n"
        for hook in ("input", "output")
    )
    _nft(node, f"table ip weather {{\n{chains}}}\n")
    try:
        yield
    finally:
        _nft(node, "delete table ip weather\n")


def _nft(node: Node, text: str) -> None:
    with node.spawn(["nft", "-f", "-"]) as process:
        assert process.stdin is not None
        process.stdin.write(text.encode())
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


@pytest.mark.skipif(not FULL, reason="waits for a minute: make liveness")
@pytest.mark.parametrize(("share", "suspects"), [(0.0, 0.0), (0.05, 0.05)])
def test_slow_answers_over_a_lossy_network(
    lab: KernelLab, figures: Callable[[str], None], share: float, suspects: float
) -> None:
    """200 acknowledged requests, each waiting a minute; nobody is dead."""
    node = lab.node("far")
    pod = node.pod(raw=handlers.listen)
    met: dict[int, set[Liveness]] = {number: set() for number in range(200)}
    with lab.running(), contextlib.ExitStack() as stack:
        socks = [
            stack.enter_context(outlast.create_connection((pod.host, pod.port), PATIENCE))
            for _ in met
        ]
        with loss(node, share):
            watched = [outlast.watch(sock, awaiting=True) for sock in socks]
            for sock in socks:
                sock.sendall(bytes(1000))
            until = time.monotonic() + 60.0
            while time.monotonic() < until:
                for number, each in enumerate(watched):
                    met[number].add(each.verdict)
                time.sleep(LOOK)
    suspected = sum(Liveness.SUSPECT in verdicts for verdicts in met.values())
    dead = sum(Liveness.DEAD in verdicts for verdicts in met.values())
    figures(f"{share:.0%} lost each way, 200 waits of 60 s: {suspected} suspect, {dead} dead")
    assert suspected <= suspects * len(met)
    assert dead == 0
