"""The matrix of docs/liveness.md: every state of a request, in threads, on asyncio and on trio.

All states at once, each on a connection and a VIP of its own: what is told of a request whose
machine loses power, stops reading or freezes, and how many seconds after that. Nobody has a
timeout, so that only the library ends what hangs. `OUTLAST_FULL=1` (make liveness) goes on to the
end; else the last verdict looked at is *suspect*.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import pytest

import outlast
from outlast.net.kernel import kernel
from outlast.net.run import run_sync, sleep_until
from outlast.testing import KernelLab
from outlast.testing.node import Node
from outlast.testing.pod import Pod
from tests.docs.pages import page
from tests.lab import handlers
from tests.lab.wire import PATIENCE

FULL = bool(os.environ.get("OUTLAST_FULL"))
WORLDS = ("threads", "asyncio", "trio")
NEVER = float("inf")
LONGEST = 16.0 if FULL else 5.0  # seconds after the loss
IDLE = 1.2  # seconds; what was silent for more than one is probed
SETTLED = 0.5  # seconds in which a request is acknowledged, and a window closed
UPLOAD = bytes(20_000_000)  # more than both kernels hold


@dataclass(frozen=True)
class Row:
    """A state, and when there is a verdict on it, in seconds after the blow: never before `least`,
    by `most` at the latest. `pod`: what befalls its server, see `pods_on`. `early`: the request is
    sent before that. `fresh`: another one is answered just before it.
    """

    name: str
    method: str
    least: float
    most: float
    pod: str = "dies"
    query: str = ""
    early: bool = True
    fresh: bool = False
    told: str = ""  # in the report or in the error

    def given(self) -> dict[str, Any]:
        """Arguments of the request."""
        return {"content": UPLOAD} if "window" in self.name else {}


UNHEARD = "suspect: not acknowledged"
ROWS = (
    Row("idle, then a GET", "GET", 0.1, 1.0, early=False, told=UNHEARD),
    Row("idle, then a POST", "POST", 0.05, 1.0, early=False, told="not trusted"),
    Row("GET never acknowledged", "GET", 0.1, 1.0, early=False, fresh=True, told=UNHEARD),
    Row(
        "POST never acknowledged",
        "POST",
        10.5,
        12.5,
        early=False,
        fresh=True,
        told="never acknowledged",
    ),
    Row("GET acknowledged", "GET", 2.0, 4.5, query="?delay=60", told="suspect: 2 keepalive probes"),
    Row("POST acknowledged", "POST", 8.0, 12.5, query="?delay=60", told="acknowledged by the peer"),
    Row(
        "answer under way",
        "GET",
        8.0,
        12.5,
        query="?stall=1&size=100000",
        told="body under way: never repeated",
    ),
    Row(
        "window closed, then power lost",
        "POST",
        8.0,
        12.5,
        "stuffed",
        query="/600/",
        told="probes of its closed window",
    ),
    Row("window closed, the reader lives", "POST", NEVER, NEVER, "reads not", query="/600/"),
    Row("program frozen, GET", "GET", NEVER, NEVER, "freezes", query="?delay=1"),
    Row("program frozen, POST", "POST", NEVER, NEVER, "freezes", query="?delay=1"),
    Row("slow answer", "GET", NEVER, NEVER, "lives", query="?delay=30"),
)


@dataclass
class Play:
    """One row in one world. `verdict`: when there was one, on the machine's clock."""

    row: Row
    world: str
    url: str
    warm: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    lost: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    outcome: httpx.Response | Exception | None = None
    transport: Any = None
    verdict: float | None = None
    words: str = ""

    def run(self) -> None:
        """In a thread of its own."""
        if self.world == "threads":
            self.transport = outlast.Transport()
            with httpx.Client(transport=self.transport, timeout=None) as client:
                for method, url, given in self.script():
                    try:
                        self.outcome = client.request(method, url, **given)
                    except httpx.TransportError as error:
                        self.outcome = error
        else:
            anyio.run(self._in_loop, backend=self.world)
        self.judge()

    async def _in_loop(self) -> None:
        self.transport = outlast.AsyncTransport()
        async with httpx.AsyncClient(transport=self.transport, timeout=None) as client:
            for method, url, given in self.script():
                try:
                    self.outcome = await client.request(method, url, **given)
                except httpx.TransportError as error:
                    self.outcome = error

    def script(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Its requests, with waits between them: nothing else runs in this thread's loop."""
        row = self.row
        yield "GET", self.url, {}
        self.warm.set()
        assert self.go.wait(PATIENCE)
        if row.fresh:
            yield "GET", self.url, {}
        if not row.early:
            assert self.lost.wait(PATIENCE)
        yield row.method, self.url + row.query, row.given()

    def judge(self) -> None:
        """Find the verdict in what has come of the last request."""
        now, outcome = time.monotonic(), self.outcome
        report = outlast.report_of(outcome)
        assert report is not None
        for event in report:
            if event.what.startswith(("suspect", "not trusted")):
                self.verdict, self.words = report.started + event.at, event.what
                return
        if isinstance(outcome, Exception) and not self.over.is_set():
            self.verdict, self.words = now, str(outcome)


def pods_on(dies: Node, stuffed: Node, lives: Node) -> dict[str, list[Pod]]:
    """By kind: the one that a connection is made to, and the one that is there afterwards."""
    live = lives.pod()
    return {
        "dies": [dies.pod(), live],
        "stuffed": [stuffed.pod(raw=handlers.pause_uploads), live],
        "reads not": [lives.pod(port=8081, raw=handlers.pause_uploads)],
        "freezes": [lives.pod(port=8082)],
        "lives": [live],
    }


def pause(seconds: float) -> None:
    """Let so much time go by."""
    run_sync(kernel(), sleep_until(kernel().now() + seconds))


def play(lab: KernelLab) -> tuple[list[Play], float]:
    """All rows in all worlds; and when the blow fell."""
    nodes = [lab.node(name) for name in ("dies", "stuffed", "lives")]
    pods = pods_on(*nodes)
    for pod in {pod for kind in pods.values() for pod in kind}:
        pod.wait_ready()
    services = {
        (row, world): lab.service(f"s{number}{world}.shop.svc:8080", pods=pods[row.pod][:1])
        for number, row in enumerate(ROWS)
        for world in WORLDS
    }
    plays = [Play(row, world, service.url) for (row, world), service in services.items()]
    with lab.running():
        workers = [threading.Thread(target=each.run) for each in plays]
        for thread in workers:
            thread.start()
        for each in plays:
            assert each.warm.wait(PATIENCE), each.row.name
        for (row, _), service in services.items():
            if pods[row.pod][1:]:
                service.add(pods[row.pod][1])
        pause(IDLE)
        for each in plays:
            each.go.set()
        pause(SETTLED)
        lost = time.monotonic()
        for node in nodes[:2]:
            node.power_off()
        pods["freezes"][0].freeze()
        for each in plays:
            each.lost.set()
        pause(LONGEST)
        pods["freezes"][0].thaw()
        finish(plays, workers)
    return plays, lost


def finish(plays: list[Play], workers: list[threading.Thread]) -> None:
    """End what still waits: each attempt of it, one after the other."""
    until = time.monotonic() + PATIENCE
    while any(thread.is_alive() for thread in workers):
        assert time.monotonic() < until
        for each in plays:
            each.over.set()
            each.transport.drop(abort=True, reason="the test is over")
        pause(0.2)
    for thread in workers:
        thread.join()


def test_the_matrix_through_the_transports(lab: KernelLab, figures: Callable[[str], None]) -> None:
    plays, lost = play(lab)
    load = os.getloadavg()[0]
    for row in ROWS:
        mine = [each for each in plays if each.row is row]
        told = " | ".join(
            "never" if each.verdict is None else f"{each.verdict - lost:.2f}" for each in mine
        )
        figures(f"| {row.name} | {told} |")
    figures(f"(threads, asyncio, trio; seconds after the loss; load {load:.1f})")
    for each in plays:
        row = each.row
        if row.most == NEVER:
            assert each.verdict is None, (row.name, each.world, each.words)
        elif row.most <= LONGEST:
            assert each.verdict is not None, (row.name, each.world)
            assert row.least <= each.verdict - lost <= row.most, (row.name, each.world, each.words)
            assert row.told in each.words


def told(cell: str) -> float:
    """A cell of the page's table."""
    return NEVER if cell == "never" else float(cell)


def test_the_page_tells_of_every_row() -> None:
    """And nothing there contradicts what is asserted here."""
    rows = {cells[0]: cells[1:] for cells in page("docs/liveness.md").rows() if len(cells) == 4}
    assert [name for name in rows if name != "state of a request"] == [row.name for row in ROWS]
    assert rows["state of a request"] == list(WORLDS)
    for row in ROWS:
        for cell in rows[row.name]:
            assert row.least <= told(cell) <= row.most, row.name


def test_what_is_no_time_is_noticed() -> None:
    with pytest.raises(ValueError, match="soon"):
        told("soon")
