"""What is measured: cells, clients, and the numbers that the project has set itself.

A cell is one way of asking (how, by which protocol, for how much, how many at once). Values only.
Who can do what is in `CLIENTS`; what a client cannot do is not measured, and shown as "-".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

SMALL, LARGE = 2, 1 << 20  # bytes of a response's body
ASKED = (1, 100, 500)  # requests at once

H1, H2 = "http/1.1", "http/2"


@dataclass(frozen=True, slots=True)
class Cell:
    """One way of asking. `sync`: threads, else tasks. `size`: of the answer's body, in bytes.

    `idle`, `held`: connections that the pool has besides: lying idle, or waiting for an answer
    that does not come. `linger`: seconds that idle connections are kept; None for the default.
    """

    sync: bool
    protocol: str = H1
    tls: bool = False
    size: int = SMALL
    at_once: int = 1
    idle: int = 0
    held: int = 0
    linger: float | None = None

    @property
    def port(self) -> str:
        """The name of the server's port."""
        return f"{self.protocol} {'tls' if self.tls else 'plain'} {self.size}"

    @property
    def limit(self) -> int:
        """max_connections and max_keepalive_connections of both sides."""
        return self.at_once + self.idle + self.held

    @property
    def words(self) -> str:
        """The cell in words."""
        parts = [
            "sync" if self.sync else "async",
            "HTTP/1.1" if self.protocol == H1 else "HTTP/2",
            "TLS" if self.tls else "plain",
            "1 MiB" if self.size == LARGE else "small",
            f"{self.at_once} at once",
        ]
        parts += [f"{self.idle} idle"] if self.idle else []
        parts += [f"{self.held} unanswered"] if self.held else []
        return ", ".join(parts)

    def dump(self) -> dict[str, object]:
        """For another process."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class Client:
    """A library under test. `package`: what its version is asked of; `alone`: whether it needs an
    environment of its own."""

    name: str
    package: str
    sync: bool = True
    async_: bool = True
    protocols: tuple[str, ...] = (H1, H2)
    plain_h2: bool = True  # HTTP/2 without TLS, by prior knowledge
    alone: bool = False

    def does(self, cell: Cell) -> bool:
        """Whether it can do what the cell asks for."""
        if cell.protocol == H2 and not cell.tls and not self.plain_h2:
            return False
        return (self.sync if cell.sync else self.async_) and cell.protocol in self.protocols


OUTLAST, PLAIN = "outlast", "httpx"
CLIENTS = (
    Client(OUTLAST, "outlast"),
    Client("outlast.httpx2", "outlast"),
    Client("outlast+httptools", "outlast", protocols=(H1,)),
    Client(PLAIN, "httpx"),
    Client("httpx2", "httpx2"),
    Client("httpx-retries", "httpx-retries"),
    Client("aiohttp", "aiohttp", sync=False, protocols=(H1,)),
    Client("requests", "requests", async_=False, protocols=(H1,)),
    # Its HTTP/2 is an experiment that has to be switched on for the whole process.
    Client("urllib3", "urllib3", async_=False, protocols=(H1,)),
    Client("niquests", "niquests", alone=True),
)


def matrix(asked: tuple[int, ...], sizes: tuple[int, ...]) -> Iterator[Cell]:
    """All cells of the tables, in the order of the report."""
    for sync in (False, True):
        for protocol in (H1, H2):
            for tls in (False, True):
                for size in sizes:
                    for at_once in asked:
                        yield Cell(sync, protocol, tls, size, at_once)


# -- the numbers -----------------------------------------------------------------------------

CPU, RATE, KIB = "CPU per request", "throughput", "memory per idle connection"


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio with a bound: `what` of `mine` over `what` of `theirs`, in the same round.

    `most`: whether the bound is the largest that is good, or the smallest. No bound: shown only.
    """

    title: str
    what: str
    bound: float | None
    mine: tuple[str, Cell]
    theirs: tuple[str, Cell]
    most: bool = True

    def met(self, ratio: float) -> bool:
        """Whether the bound is kept."""
        if self.bound is None:
            return True
        return ratio <= self.bound if self.most else ratio >= self.bound


def _against(title: str, what: str, bound: float | None, cell: Cell, *, most: bool = True) -> Goal:
    return Goal(title, what, bound, (OUTLAST, cell), (PLAIN, cell), most)


def _crowd(
    title: str, many: Cell, few: Cell, bound: float | None = 1.25, name: str = OUTLAST
) -> Goal:
    return Goal(title, CPU, bound, (name, many), (name, few))


def goals(open_: int = 2000) -> list[Goal]:
    """What is promised of speed, and a few figures beside it. `open_`: connections of a crowd."""
    found = []
    for sync, way in ((True, "sync"), (False, "async")):
        for tls, layer in ((False, "plain"), (True, "TLS")):
            one = Cell(sync, tls=tls)
            found.append(_against(f"{way}, 1 at once, {layer}", CPU, 0.80, one))
    for tls, layer in ((False, "plain"), (True, "TLS")):
        for at_once, bound in ((100, 3.0), (500, 6.0)):
            cell = Cell(False, tls=tls, at_once=at_once)
            title = f"async, {at_once} at once, {layer}"
            found.append(_against(title, RATE, bound, cell, most=False))
    threads = Cell(True, at_once=16)
    found.append(_against("sync, 16 threads, plain", RATE, 1.3, threads, most=False))
    for sync, way in ((False, "async"), (True, "sync")):
        few = Cell(sync, at_once=10, linger=60.0)
        title = f"{way}, {open_} connections idle, against 10 in all"
        found.append(_crowd(title, dataclasses.replace(few, idle=open_ - 10), few))
    few = Cell(False, at_once=10, linger=60.0)
    waiting = dataclasses.replace(few, held=open_ - 10)
    title = f"async, {open_ - 10} requests unanswered, against 10 in all"
    # Without a bound: each of those that wait is watched (DESIGN section 6), which is work of its
    # own; and what grows with requests at once is the garbage collector's.
    found.append(_crowd(title, waiting, few, None))
    busy = dataclasses.replace(few, at_once=open_)
    for name in (OUTLAST, "aiohttp"):
        title = f"{name} async, {open_} at once, against 10 at once"
        found.append(_crowd(title, busy, few, None, name))
    return found


@dataclass(frozen=True, slots=True)
class Memory:
    """Idle connections whose memory is weighed. `traced`: by tracemalloc, else by the kernel's
    count of resident pages, which knows of TLS too."""

    sync: bool
    tls: bool
    traced: bool
    count: int = 1000

    @property
    def words(self) -> str:
        """The cell in words."""
        way, layer = "sync" if self.sync else "async", "TLS" if self.tls else "plain"
        return f"{way}, {self.count} idle, {layer}, {'tracemalloc' if self.traced else 'resident'}"

    def dump(self) -> dict[str, object]:
        """For another process."""
        return dataclasses.asdict(self)


def weighed(count: int) -> list[Memory]:
    """All that is weighed."""
    return [
        Memory(sync, tls, traced, count)
        for sync in (True, False)
        for tls in (False, True)
        for traced in (False, True)
    ]
