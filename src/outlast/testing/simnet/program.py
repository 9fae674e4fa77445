"""What runs in a simulated pod: the lab's own server, an application, or a raw handler.

The server is the kernel lab's (`pod_http`, `pod_exchange`), on an event loop in virtual time; each
life of the pod is a process with a loop and a tally of its own. Counts add up over all lives.

Source: `outlast.testing.pod_server`. Refuses HTTP/2, which the lab's server does not
speak.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import traceback
from typing import Any

from outlast.testing.pod import total
from outlast.testing.pod_http import AsgiApp, PodProtocol, Tally
from outlast.testing.pod_lifespan import Lifespan
from outlast.testing.pod_process import Counts
from outlast.testing.simnet.pod import Pod
from outlast.testing.simnet.pod_loop import PodLoop
from outlast.testing.simnet.pod_transport import PodTransport
from outlast.testing.simnet.simulation import Simulation
from outlast.testing.simnet.sockets import Listener
from outlast.testing.simnet.transcript import APPLIES

__all__ = ["ServerProgram"]


class TellingTally(Tally):
    """A tally that has the trace told of each request."""

    def __init__(self, pod: Pod) -> None:
        super().__init__(pod.name)
        self._fabric = pod.node.kernel.fabric

    def apply(self, method: str, request_id: str | None) -> int:
        """See `Tally.apply`."""
        number = super().apply(method, request_id)
        if self._fabric.trace is not None:
            named = "" if request_id is None else f" ({request_id})"
            self._fabric.trace(self.pod, f"{APPLIES} {method} #{number}{named}")
        return number


class ServerProgram:
    """See `Program`. Serves `app`, or `raw`, or the built-in answers; below TLS, where given."""

    def __init__(
        self,
        simulation: Simulation,
        app: AsgiApp | None = None,
        raw: Any = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._simulation = simulation
        self._app = app
        self._raw = raw
        self._tls = tls
        self._tallies: list[Tally] = []
        self._loop: PodLoop | None = None
        self._noted = False
        self._lifespan: Lifespan | None = None
        self._ready = True  # its application has started
        self._open: dict[PodTransport, asyncio.BaseProtocol] = {}
        self._leaving: Pod | None = None  # asked to end in good order

    def counts(self) -> Counts:
        """What has been applied so far, over all lives."""
        parts: list[Any] = [tally.as_dict() for tally in self._tallies]
        dead = parts if self._loop is None else parts[:-1]
        return total([{**part, "open": 0} for part in dead] + parts[len(dead) :])

    # -- its life --------------------------------------------------------------------------

    def started(self, pod: Pod, listener: Listener) -> None:
        """See `Program.started`."""
        self._tallies.append(TellingTally(pod))
        foreign = (self._app or self._raw) is not None
        loop = self._loop = PodLoop(self._simulation, pod.name, foreign=foreign)
        self._noted = False
        if self._app is not None:
            self._lifespan, self._ready = Lifespan(self._app), False
            loop.deliver(lambda: loop.create_task(self._begin(pod, loop, listener)))

        def note() -> None:
            if not self._noted:
                self._noted = True
                loop.deliver(lambda: self._accept(loop, listener))

        listener.on_change = note

    async def _begin(self, pod: Pod, loop: PodLoop, listener: Listener) -> None:
        """Have the application start; then take those who have connected meanwhile."""
        assert self._lifespan is not None
        try:
            await self._lifespan.start()
        except RuntimeError:
            traceback.print_exc(file=sys.stderr)
            self._simulation.timeline.after(0, pod.exit, pod.name)
            return
        self._ready = True
        self._accept(loop, listener)

    def stopping(self, pod: Pod) -> None:
        """See `Program.stopping`."""
        self._leaving = pod
        if self._loop is not None:
            self._loop.deliver(self._stop)

    def _stop(self) -> None:
        for protocol in tuple(self._open.values()):
            if isinstance(protocol, PodProtocol):
                protocol.stop()
        self._leave_if_done()

    def _gone(self, transport: PodTransport) -> None:
        self._open.pop(transport, None)
        self._leave_if_done()

    def _leave_if_done(self) -> None:
        pod, loop = self._leaving, self._loop
        if pod is not None and loop is not None and not self._open:
            self._leaving = None
            loop.deliver(lambda: loop.create_task(self._leave(pod)))

    async def _leave(self, pod: Pod) -> None:
        if self._lifespan is not None and self._ready:
            await self._lifespan.stop()
        self._simulation.timeline.after(0, pod.exit, pod.name)

    def ended(self, _pod: Pod) -> None:
        """See `Program.ended`."""
        self._leaving = None
        loop, self._loop = self._loop, None
        left, self._open = self._open, {}

        def vanish() -> None:
            for transport in left:
                transport.vanish()

        if loop is not None:
            loop.end(vanish)

    def frozen(self, _pod: Pod) -> None:
        """See `Program.frozen`."""
        if self._loop is not None:
            self._loop.freeze()

    def thawed(self, _pod: Pod) -> None:
        """See `Program.thawed`."""
        if self._loop is not None:
            self._loop.thaw()

    # -- connections -----------------------------------------------------------------------

    def _accept(self, loop: PodLoop, listener: Listener) -> None:
        self._noted = False
        if loop is not self._loop:  # a process that was killed while it was frozen accepts nobody
            return
        while self._ready and (sock := listener.accept()) is not None:
            protocol = self._protocol(loop)
            transport = PodTransport(loop, sock, self._secured(loop, protocol), self._gone)
            self._open[transport] = protocol
            transport.begin()

    def _secured(self, loop: PodLoop, protocol: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
        if self._tls is None:
            return protocol
        from asyncio.sslproto import SSLProtocol

        layer: Any = SSLProtocol
        secured: asyncio.BaseProtocol = layer(loop, protocol, self._tls, None, server_side=True)
        return secured

    def _protocol(self, loop: PodLoop) -> asyncio.BaseProtocol:
        tally = self._tallies[-1]
        if self._raw is None:
            app = None if self._lifespan is None else self._lifespan.application
            return PodProtocol(tally, app)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tally.connections += 1
            tally.open += 1
            try:
                await self._raw(reader, writer)
            except ConnectionError:
                pass  # the client went away: the handler's end, not its fault
            finally:
                tally.open -= 1
                writer.close()

        return asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), serve, loop=loop)
