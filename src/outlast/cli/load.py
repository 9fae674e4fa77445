"""The load: plain httpx and outlast side by side, the same workers, the same questions.

Each library works in a thread and a cluster of its own, under the same schedule: on a shared client
node one library's dials would leave conntrack entries (120 s, nf_conntrack_tcp_timeout_syn_sent)
that the other's connections meet when their source port comes round again. Neither library is given
a setting, but for the clients that open a new connection for each request: both of them keep no
idle connection. A request that has no answer a second after the end of the run is called hung.

Source: httpx's defaults (5 s for connect, read, write and pool). Counts a status other than 2xx as
an error, since the pods have no reason to send one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx

import outlast
from outlast.cli.record import Series
from outlast.cli.stage import Stage

__all__ = ["PAUSE", "WORKERS", "Load"]

# The clients share two cores with the pods: this is about 40 requests a second for each of them.
WORKERS = 4
PAUSE = 0.1
_GRACE = 1.0
_ITS_OWN = httpx.Limits(max_connections=100, max_keepalive_connections=20)  # httpx's default
_NONE_IDLE = httpx.Limits(max_connections=100, max_keepalive_connections=0)


class Load:
    """One library at work on its stage. `run` blocks its thread; `stop` may be called from any."""

    def __init__(
        self, library: str, connections: Sequence[str], stage: Stage, until: float
    ) -> None:
        self.clients = tuple(Series(library, way) for way in connections)
        self._stage = stage
        self._url = stage.url
        self._clock = stage.elapsed
        self._until = until
        self._stopped = False
        self._work: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None

    def run(self) -> None:
        """Start the stage's clock, ask until the time is over, give the rest a last second."""
        self._stage.play(self._run)

    def stop(self) -> None:
        """End it early; `run` raises CancelledError then. Harmless when it has ended."""
        self._stopped = True
        if self._work is not None:
            loop, task = self._work
            try:
                loop.call_soon_threadsafe(task.cancel)
            except RuntimeError:  # the loop is closed: it has ended by itself
                pass

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._work = (asyncio.get_running_loop(), task)
        if self._stopped:  # before there was anything to stop
            task.cancel()
        clients = [(series, _client(series, self._stage)) for series in self.clients]
        workers = [
            asyncio.create_task(self._worker(client, series, number * PAUSE / WORKERS))
            for number in range(WORKERS)
            for series, client in clients
        ]
        try:
            await self._watch(workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)
            for _, client in clients:
                await client.aclose()

    async def _watch(self, workers: Sequence[asyncio.Task[None]]) -> None:
        """Wait for the end; a worker's own failure is raised at once."""
        left = self._until + _GRACE - self._clock()
        done, _ = await asyncio.wait(workers, timeout=left, return_when=asyncio.FIRST_EXCEPTION)
        for worker in done:
            worker.result()
        for series in self.clients:
            series.hang_up(self._clock())

    async def _worker(self, client: httpx.AsyncClient, series: Series, first: float) -> None:
        await asyncio.sleep(first)
        while self._clock() < self._until:
            await self._ask(client, series)
            await asyncio.sleep(PAUSE)

    async def _ask(self, client: httpx.AsyncClient, series: Series) -> None:
        number = series.begin(self._clock())
        try:
            response = await client.get(self._url)
        except httpx.TransportError as error:
            series.end(number, self._clock(), _told(error), type(error).__name__)
        else:
            failure = "" if response.is_success else f"status {response.status_code}"
            series.end(number, self._clock(), response.extensions.get("outlast", ""), failure)


def _client(series: Series, stage: Stage) -> httpx.AsyncClient:
    net = stage.simulated
    limits = _ITS_OWN if series.connections == "pooled" else _NONE_IDLE
    transport: httpx.AsyncBaseTransport
    if series.library == "outlast":
        transport = outlast.AsyncTransport(limits=limits, network=net)
    elif net is not None:
        transport = net.async_httpx_transport(limits=limits)
    else:
        transport = httpx.AsyncHTTPTransport(limits=limits)
    return httpx.AsyncClient(transport=transport)


def _told(error: httpx.TransportError) -> str:
    """All that the error says: plain httpx's own words, outlast's time line too."""
    lines = [f"httpx.{error!r}"]
    report = getattr(error, "report", None)
    return "\n".join([*lines, str(report)] if report is not None else lines)
