"""The demo without a lab: two pods on one loopback address, and one of them stops accepting.

Two listeners share a port (SO_REUSEPORT), and the kernel picks one for each connection by a hash
of its addresses and ports, as a VIP does. The fault: one of them stops accepting and its queue is
filled, so that the kernel drops every further SYN that belongs to it; a repeated SYN has the same
ports and goes the same way, for ever. That is incident A for new connections. When the endpoint
leaves, the listener is closed and the kernel picks the other one only.

What cannot be had: silence on an established connection. The loopback's kernel acknowledges all
that is sent, as in incident B; so pooled connections are refused here, and those that the pod has
accepted are served to their end.

Source: socket(7) SO_REUSEPORT, listen(2), net.ipv4.tcp_abort_on_overflow=0. Needs Linux: elsewhere
such listeners do not share out connections. RuntimeError where the kernel goes on answering.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future

from outlast.cli.record import Happening
from outlast.cli.stage import LEAVES, POWER_OFF, Main, in_real
from outlast.testing import SimNet
from outlast.testing.pod_http import PodProtocol, Tally
from outlast.testing.schedule import Schedule

__all__ = ["LoopbackStage", "rehearse"]

_LIMIT = 10.0  # seconds for anything asked of the pods' thread; each takes milliseconds
# A SYN is answered at once on loopback, or never. Half of the dials go to the other pod, so that
# 64 in a row reach the queue's two places for certain.
_UNANSWERED = 0.05
_DIALS = 64


class LoopbackStage:
    """Two pods in a thread of this process, on a port of their own whatever the stage's number."""

    where = "loopback: two listeners share a port, one of them stops accepting"
    connections: tuple[str, ...] = ("new",)

    def __init__(self, number: int) -> None:
        if not sys.platform.startswith("linux"):
            raise RuntimeError("the demo needs Linux: no other kernel shares out connections so")
        self.happenings: list[Happening] = []
        self._schedule = Schedule()
        self._pods = [_Pod("b", 0)]
        self._pods.append(_Pod("a", self._pods[0].port))
        self._loop = asyncio.new_event_loop()
        name = f"outlast-demo-pods-{number}"
        self._thread = threading.Thread(target=self._loop.run_forever, name=name)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._pods[0].port}"
        for pod in self._pods:
            self._do(pod.start)

    simulated: SimNet | None = None

    def play(self, main: Main) -> None:
        """Let things happen, in real time."""
        in_real(self.running(), main)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Start the clock, and let things happen."""
        self._schedule.at(POWER_OFF, self.lose)
        self._schedule.at(LEAVES, self.leave)
        self._schedule.start()
        try:
            yield
        finally:
            failure = self._schedule.stop()
        if failure is not None:
            raise failure

    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._schedule.elapsed()

    def lose(self) -> None:
        """Let new connections to one pod go unanswered. RuntimeError where they do not."""
        self.happenings.append(Happening(self.elapsed(), "pod b stops accepting"))
        self._do(self._pods[0].stop)

    def leave(self) -> None:
        """Take that pod out: the other one gets every new connection."""
        self.happenings.append(Happening(self.elapsed(), "endpoint leaves"))
        self._do(self._pods[0].leave)

    def _do(self, what: Callable[[], Awaitable[None]]) -> None:
        """Have the pods' thread do something, and wait for it."""

        async def done() -> None:
            await what()

        future: Future[None] = asyncio.run_coroutine_threadsafe(done(), self._loop)
        future.result(_LIMIT)

    def __enter__(self) -> LoopbackStage:
        return self

    def __exit__(self, *exc: object) -> None:
        for pod in self._pods:
            self._do(pod.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def rehearse() -> None:
    """Try the fault once, before anybody waits for it. RuntimeError where it does not bite."""
    with LoopbackStage(0) as stage:
        stage.lose()


class _Pod:
    """One listener of the port, and the connections it has accepted. Lives on the pods' loop."""

    def __init__(self, name: str, port: int) -> None:
        self._tally = Tally(name)
        self._open: list[asyncio.Transport] = []
        self._queued: list[socket.socket] = []
        self._task: asyncio.Task[None] | None = None
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._listener.bind(("127.0.0.1", port))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._listener.listen()

    async def start(self) -> None:
        """Begin to accept."""
        self._task = asyncio.create_task(self._accept())

    async def stop(self) -> None:
        """Accept no more, and fill the queue until the kernel leaves a SYN unanswered."""
        await self._end_accepting()
        self._listener.listen(1)  # on a listening socket this shortens the queue
        loop = asyncio.get_running_loop()
        for _ in range(_DIALS):
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sock.setblocking(False)
            self._queued.append(sock)
            try:
                dial = loop.sock_connect(sock, ("127.0.0.1", self.port))
                await asyncio.wait_for(dial, _UNANSWERED)
            except asyncio.TimeoutError:
                return
        raise RuntimeError("this kernel answers for a listener whose queue is full: no fault here")

    async def leave(self) -> None:
        """Give up the port: the kernel picks among the others from now on."""
        self._listener.close()

    async def close(self) -> None:
        """End everything."""
        await self._end_accepting()
        self._listener.close()
        for sock in self._queued:
            sock.close()
        for transport in self._open:
            transport.abort()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            sock, _ = await loop.sock_accept(self._listener)
            transport, _ = await loop.connect_accepted_socket(
                lambda: PodProtocol(self._tally, None), sock
            )
            self._open = [one for one in self._open if not one.is_closing()] + [transport]

    async def _end_accepting(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
