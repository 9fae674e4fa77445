"""Plays an incident: its workers as threads, asyncio's tasks or trio's, and what became of them.

What a call came to is told in words that are the same on every backend, its report included.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx

import outlast
from outlast import Report
from outlast.testing import SimStalled
from tests.fire.cluster import Cluster, trusting
from tests.fire.incident import Ask, Incident

__all__ = ["AFTER", "Played", "Told", "play"]

AFTER = 900.0  # seconds after the last call until everybody's kernel has forgotten it
SETTLE = 1.0  # seconds that a background look at idle connections may take
PIECES = 3  # of a streamed body


@dataclass(slots=True)
class Told:
    """One call and its end. `result`: a status, the name of an exception, or "cancelled"."""

    worker: str
    name: str
    ask: Ask
    begun: float
    ended: float = 0.0
    result: int | str = ""
    said: str = ""  # the exception's words
    body: dict[str, Any] | None = None  # the answer's, if it is one that can be read
    report: Report | None = None

    def has(self, elapsed: float) -> bool:
        """Whether it was under way then."""
        return self.begun <= elapsed <= self.ended

    def decisions(self) -> tuple[Any, ...]:
        """What was decided and when, to the microsecond."""
        events = [] if self.report is None else self.report.events
        told = tuple((round(event.at, 6), *event[1:]) for event in events)
        return self.name, round(self.begun, 6), round(self.ended, 6), self.result, told

    def __str__(self) -> str:
        lines = [f"{self.name} at {self.begun:.6f}: {self.ask}"]
        lines.append(f"  ended at {self.ended:.6f}: {self.result} {self.said}")
        if self.report is not None:
            lines += [f"  {line}" for line in str(self.report).splitlines()]
        return "\n".join(lines)


@dataclass
class Played:
    """An incident that has been played, and what is there to judge."""

    incident: Incident
    cluster: Cluster
    calls: list[Told] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # what had not been given back
    crashed: list[str] = field(default_factory=list)  # errors that no caller expects


class _Listener(logging.Handler):
    """Hears of background jobs that fail."""

    def __init__(self, played: Played) -> None:
        super().__init__(logging.ERROR)
        self._played = played

    def emit(self, record: logging.LogRecord) -> None:
        """See logging."""
        self._played.crashed.append(f"logged: {record.getMessage()} {record.exc_info!r}")


def play(incident: Incident, *, traced: bool = False) -> Played:
    """Play it. Whatever goes wrong stands in what is returned."""
    cluster = Cluster(incident, traced=traced)
    played = Played(incident, cluster)
    listener = _Listener(played)
    log = logging.getLogger("outlast")
    log.addHandler(listener)
    try:
        with cluster.net:
            if incident.backend == "sync":
                with cluster.net.running():
                    _Threads(played).run()
            else:
                cluster.net.run(_Tasks(played).run, backend=incident.backend)
    except (Exception, SimStalled) as error:  # noqa: BLE001  judged like anything else
        played.crashed.append(f"{type(error).__name__}: {error}")
    finally:
        log.removeHandler(listener)
    return played


class _Player:
    """What threads and tasks have in common."""

    def __init__(self, played: Played) -> None:
        self.played = played
        self.cluster = played.cluster
        self.net = played.cluster.net
        self.names = [f"w{number + 1}" for number in range(len(played.incident.asks))]
        place = played.incident.place
        self.arguments: dict[str, Any] = {
            "network": self.net,
            "targets": self.cluster.targets,
            "limits": httpx.Limits(max_connections=place.connections, keepalive_expiry=60.0),
            "http1": place.serves != "h2",
            "http2": place.serves == "h2",
        }
        if place.serves == "tls":
            self.arguments["verify"] = trusting()

    def begin(self, worker: str, number: int, ask: Ask) -> Told:
        """A call begins."""
        told = Told(worker, f"{worker}-{number}", ask, self.net.elapsed())
        self.played.calls.append(told)
        return told

    def request(self, told: Told) -> dict[str, Any]:
        """The arguments of httpx that do not differ between the two worlds."""
        ask = told.ask
        headers = {"x-request-id": told.name}
        if ask.key:
            headers["idempotency-key"] = told.name
        if ask.body == "stream":
            headers["content-length"] = str(ask.size // PIECES * PIECES)
        names = ("attempts", "deadline", "first_byte")
        given, usual = ({name: getattr(one, name) for name in names} for one in (ask, Ask()))
        return {
            "method": ask.method,
            "url": f"{self.cluster.origin}/?{ask.query}",
            "headers": headers,
            "timeout": httpx.Timeout(
                connect=ask.connect, read=ask.read, write=ask.write, pool=ask.pool
            ),
            "extensions": {} if given == usual else {"outlast": given},
        }

    def answered(self, told: Told, response: httpx.Response, *, whole: bool) -> None:
        """There is an answer, read to its end if it is `whole`."""
        told.result = response.status_code
        told.report = response.extensions["outlast"]
        if (
            whole
            and response.headers.get("content-type") == "application/json"
            and response.content
        ):
            told.body = response.json()

    def failed(self, told: Told, error: Exception) -> None:
        """There is none."""
        told.result, told.said = type(error).__name__, str(error)
        told.report = outlast.report_of(error)
        if not isinstance(error, httpx.TransportError) or told.report is None:
            self.played.crashed.append(f"{told.name}: {error!r}")

    def over(self, told: Told) -> None:
        """The call has ended, in whatever way."""
        told.ended = self.net.elapsed()

    def check(self, engine: Any, *, closed: bool) -> None:
        """Nobody is under way: what is still taken has leaked."""
        counts = engine.pool.counts()
        if counts["busy"] or counts["waiting"] or counts["places"] != counts["idle"]:
            self.played.left.append(f"places in the pool: {counts}")
        sockets = [
            conn.label for conn in self.net.client.kernel.connections.values() if not conn.orphan
        ]
        if len(sockets) > (0 if closed else counts["idle"]):  # the peer may have ended some
            self.played.left.append(f"sockets: {sockets}, of which idle {counts['idle']}")
        held = {n: getattr(engine.pool, n) for n in ("_expecting", "_bells", "_queue")}
        held.update(busy=engine.pool.in_use.busy, places_held=engine.pool.in_use._held)
        self.played.left += [f"the pool's {name}: {what}" for name, what in held.items() if what]
        waits = [attention.who for attention in self.net.simulation.clock.waits]
        self.played.left += [f"a wait of {who}" for who in waits]

    def check_ports(self) -> None:
        """Long after the end: the kernels have forgotten everything."""
        known = self.net.client.kernel.connections.values()
        self.played.left += [f"a connection of the client's kernel: {c.label}" for c in known]


class _Threads(_Player):
    def run(self) -> None:
        """All workers, in simulated threads, with one client."""
        transport = outlast.Transport(**self.arguments)
        self.cluster.drop = transport.drop
        with httpx.Client(transport=transport) as client:
            works = [
                lambda name=name, asks=asks: self._work(client, name, asks)
                for name, asks in zip(self.names, self.played.incident.asks, strict=True)
            ]
            self.net.gather(*works, names=self.names)
            self.net.sleep(SETTLE)
            self.check(transport._engine, closed=False)
        self.net.sleep(SETTLE)
        self.check(transport._engine, closed=True)
        self.net.sleep(AFTER)
        self.check_ports()

    def _work(self, client: httpx.Client, name: str, asks: tuple[Ask, ...]) -> None:
        for number, ask in enumerate(asks):
            self.net.sleep(ask.pause)
            told = self.begin(name, number, ask)
            try:
                self._call(client, told)
            except Exception as error:  # noqa: BLE001  judged there
                self.failed(told, error)
            self.over(told)

    def _call(self, client: httpx.Client, told: Told) -> None:
        content: Any = None
        if told.ask.body:
            content = bytes(told.ask.size) if told.ask.body == "bytes" else self._pieces(told.ask)
        given = self.request(told)
        if told.ask.whole:
            self.answered(told, client.request(content=content, **given), whole=True)
            return
        with client.stream(content=content, **given) as response:
            self.answered(told, response, whole=False)
            for _ in response.iter_raw():
                break

    def _pieces(self, ask: Ask) -> Iterator[bytes]:
        for _ in range(PIECES):
            self.net.sleep(ask.gap)
            yield bytes(ask.size // PIECES)


class _Tasks(_Player):
    async def run(self) -> None:
        """The same in an event loop."""
        transport = outlast.AsyncTransport(**self.arguments)
        self.cluster.drop = transport.drop
        before = _tasks()
        async with httpx.AsyncClient(transport=transport) as client:
            async with anyio.create_task_group() as group:
                for name, asks in zip(self.names, self.played.incident.asks, strict=True):
                    group.start_soon(self._work, client, name, asks, name=name)
            await anyio.sleep(SETTLE)
            self.check(transport._engine, closed=False)
        await anyio.sleep(SETTLE)
        self.check(transport._engine, closed=True)
        self.played.left += [f"a task: {task!r}" for task in _tasks() - before]
        await anyio.sleep(AFTER)
        self.check_ports()

    async def _work(self, client: httpx.AsyncClient, name: str, asks: tuple[Ask, ...]) -> None:
        for number, ask in enumerate(asks):
            await anyio.sleep(ask.pause)
            told = self.begin(name, number, ask)
            with anyio.move_on_after(ask.cancel) as scope:
                try:
                    await self._call(client, told)
                except Exception as error:  # noqa: BLE001  judged there
                    self.failed(told, error)
            if scope.cancelled_caught:
                told.result = "cancelled"
            self.over(told)

    async def _call(self, client: httpx.AsyncClient, told: Told) -> None:
        content: Any = None
        if told.ask.body:
            content = bytes(told.ask.size) if told.ask.body == "bytes" else self._pieces(told.ask)
        given = self.request(told)
        if told.ask.whole:
            self.answered(told, await client.request(content=content, **given), whole=True)
            return
        async with client.stream(content=content, **given) as response:
            self.answered(told, response, whole=False)
            pieces: Any = response.aiter_raw()
            async with contextlib.aclosing(pieces):
                await anext(pieces, None)

    async def _pieces(self, ask: Ask) -> AsyncIterator[bytes]:
        for _ in range(PIECES):
            await anyio.sleep(ask.gap)
            yield bytes(ask.size // PIECES)


def _tasks() -> set[Any]:
    """asyncio's tasks; none in trio, which cannot leak one."""
    try:
        return set(asyncio.all_tasks())
    except RuntimeError:
        return set()
