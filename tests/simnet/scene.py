"""A small simulated world for tests: programs are callbacks, and a test lets time pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from outlast.testing.simnet.host import Host, Option
from outlast.testing.simnet.node import Node
from outlast.testing.simnet.pod import Pod
from outlast.testing.simnet.rules import SECOND, Kernel
from outlast.testing.simnet.sockets import Listener, SimSocket
from outlast.testing.simnet.timeline import Timeline
from outlast.testing.simnet.world import World

TCP, SOCKET, IP = 6, 1, 0
NODELAY: Option = (TCP, 1, 1)


def about(value: Any, tolerance: float) -> Any:
    """What is within a tolerance; in tuples too."""
    return pytest.approx(value, abs=tolerance)


def keepalive(idle: int, interval: int, count: int) -> list[Option]:
    """The options of keepalive in seconds."""
    return [(SOCKET, 9, 1), (TCP, 4, idle), (TCP, 5, interval), (TCP, 6, count)]


def user_timeout(milliseconds: int) -> Option:
    """TCP_USER_TIMEOUT."""
    return (TCP, 18, milliseconds)


class Program:
    """A program of callbacks: `serve` is called with each connection that has something to read.

    Without `serve` it accepts and keeps everything it reads in `heard`, by connection.
    """

    def __init__(self, serve: Callable[[SimSocket], None] | None = None) -> None:
        self.accepted: list[SimSocket] = []
        self.heard: list[bytearray] = []
        self.reads = True
        self._serve = serve
        self._pod: Pod | None = None

    def started(self, pod: Pod, listener: Listener) -> None:
        """See `Program`."""
        self._pod = pod
        listener.on_change = lambda: self._soon(pod, lambda: self._accept(pod, listener))

    def stopping(self, pod: Pod) -> None:
        """See `Program`: what is under way takes a second."""
        pod.node.kernel.timeline.after(SECOND, pod.exit)

    def ended(self, pod: Pod) -> None:
        """See `Program`."""

    def frozen(self, pod: Pod) -> None:
        """See `Program`."""

    def thawed(self, pod: Pod) -> None:
        """See `Program`."""
        for number in range(len(self.accepted)):
            self._look(pod, number)

    def _soon(self, pod: Pod, action: Callable[[], None]) -> None:
        pod.node.kernel.timeline.after(0, action)

    def _accept(self, pod: Pod, listener: Listener) -> None:
        while (sock := listener.accept()) is not None:
            number = len(self.accepted)
            self.accepted.append(sock)
            self.heard.append(bytearray())
            sock.on_change = lambda n=number: self._soon(pod, lambda: self._look(pod, n))
            self._look(pod, number)

    def _look(self, pod: Pod, number: int) -> None:
        sock = self.accepted[number]
        if sock.closed or pod.frozen or not pod.running or not sock.readable() or not self.reads:
            return
        try:
            if self._serve is not None:
                self._serve(sock)
                return
            while data := sock.recv(1 << 20):
                self.heard[number] += data
        except OSError:  # the client has gone
            sock.close()


def echo(sock: SimSocket) -> None:
    """Send back what came; close at the end."""
    data = sock.recv(1 << 20)
    if data:
        sock.send(data)
    elif data == b"":
        sock.close()


def pod_of(sock: SimSocket, *pods: Pod) -> str:
    """The pod that has the far end."""
    for pod in pods:
        program = pod.program
        assert isinstance(program, Program)
        if any(peer.remote == sock.local for peer in program.accepted):
            return pod.name
    return "nobody"


class Scene:
    """A world with a client node and node `a` whose only pod runs `program`."""

    def __init__(
        self,
        program: Program | None = None,
        *,
        seed: int | str = 1,
        kernel: Kernel | None = None,
        traced: bool = False,
    ) -> None:
        self.timeline = Timeline()
        self.world = World(self.timeline, seed, kernel=kernel)
        self.lines: list[str] = []
        if traced:
            self.world.trace = self._line
        self.program = program or Program()
        self.a: Node = self.world.node("a")
        self.pod = self.a.place(self.program)

    @property
    def client(self) -> Host:
        """The kernel of the client's node."""
        return self.world.client.kernel

    @property
    def now(self) -> float:
        """Seconds of virtual time."""
        return self.timeline.now / SECOND

    def _line(self, subject: str, what: str) -> None:
        self.lines.append(f"{self.timeline.now:>12} {subject}: {what}")

    def dial(self, *options: Option, label: str = "c", to: Pod | None = None) -> SimSocket:
        """Begin a connection to a pod."""
        return self.client.connect((to or self.pod).endpoint, options, label=label)

    def connection(self, *options: Option, label: str = "c") -> SimSocket:
        """A connection that stands."""
        sock = self.dial(*options, label=label)
        self.run(1.0)
        assert sock.writable()
        assert not sock.error
        return sock

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.timeline.advance(self.timeline.now + round(seconds * SECOND))

    def when(self, happened: Callable[[], object], within: float) -> float | None:
        """Seconds from now until something is so; None if it is not within that time."""
        start = self.timeline.now
        end = start + round(within * SECOND)
        while not happened():
            due = self.timeline.next_at()
            if due is None or due > end:
                self.timeline.advance(end)
                return None
            self.timeline.run_next()
        return (self.timeline.now - start) / SECOND

    def end_of(self, sock: SimSocket, within: float) -> tuple[int, float | None]:
        """With which errno a socket ends, and after how many seconds."""
        took = self.when(lambda: sock.error or sock.state == 7, within)
        return sock.error, took
