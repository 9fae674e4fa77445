"""A network in virtual time with scripted peers, so that tests of calls can name exact instants.

A `Line` says what one connection meets: how its dial ends, when the peer's kernel acknowledges,
how much it takes, and a script that is run when bytes arrive. An address has a list of lines, one
for each dial; the last stays. Time jumps to the next thing that happens, and everything that the
library does is written down with its instant.
"""

from __future__ import annotations

import heapq
import itertools
import math
import os
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import anyio.lowlevel

from outlast.core.liveness import Sample
from outlast.net.address import Address, literal
from outlast.net.options import Keepalive, SocketPlan
from outlast.net.seam import READ, WRITE, Lookup, Ready, Stream, Wait, Waiter
from tests.http.fake_jobs import Jobs

CONNECT = 0.001  # seconds that a dial takes, unless a line says otherwise
ROOMY = 1 << 40


def seconds(value: float) -> float:
    """An instant, without the rounding of floats."""
    return round(value, 6)


@dataclass(frozen=True)
class Line:
    """One connection. `connect`: seconds until it stands, or fails with errno `code`.

    `acked`: seconds until the peer's kernel acknowledges what it was sent; infinite for never.
    `room`: bytes that it takes before its window closes. `script(stream)` is run at once when
    bytes have been sent; it says what follows, by the stream's `says`, `ends`, `breaks`, `opens`.
    """

    script: Callable[[FakeStream], None]
    connect: float = CONNECT
    code: int = 0
    acked: float = CONNECT
    room: int = ROOMY


def answer(body: bytes = b"ok", status: int = 200, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 %d X" % status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join([*lines, b"", body])


def answers(after: float = 0.01, data: bytes | None = None) -> Callable[[FakeStream], None]:
    """Every whole request is answered so many seconds later."""

    def script(stream: FakeStream) -> None:
        if stream.request() is not None:
            stream.says(after, answer() if data is None else data)

    return script


def silent(stream: FakeStream) -> None:
    """Takes requests and says nothing."""
    stream.request()


class FakeWaiter:
    """See `Waiter`."""

    def __init__(self) -> None:
        self.woken = False

    def wake(self) -> None:
        self.woken = True


@dataclass(eq=False)
class FakeStream:
    """See `Stream`. `requests`: those that arrived whole; `end`: how it was ended, and when."""

    network: FakeNetwork
    address: Address
    line: Line
    local_port: int
    stands_at: float
    user_timeouts: list[tuple[float, float]]
    written: int = 0
    acknowledged: int = 0
    heard: float = 0.0
    foreign: bool = False
    notes: Sequence[str] = ()
    inbox: bytes = b""
    requests: list[bytes] = field(default_factory=list)
    keepalive: Keepalive | None = None
    keepalives: list[tuple[float, Keepalive]] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)
    end: tuple[str, float] | None = None
    broken: OSError | None = None  # the next send says so
    room: int = ROOMY
    kept: bytes = b""
    incoming: deque[bytes | OSError] = field(default_factory=deque)

    # -- for scripts -----------------------------------------------------------------------

    def request(self) -> bytes | None:
        """Take a whole request out of what has arrived, and write it down."""
        head, found, rest = self.inbox.partition(b"\r\n\r\n")
        if not found:
            return None
        lines = [line.partition(b":") for line in head.lower().split(b"\r\n")]
        size = next((int(value) for name, _, value in lines if name == b"content-length"), 0)
        if b"chunked" in head:
            whole, found, left = rest.partition(b"0\r\n\r\n")
            size = len(whole) if found else size
            rest = whole + left if found else b""
            if not found:
                return None
        if len(rest) < size:
            return None
        self.inbox = rest[size:]
        whole = head + b"\r\n\r\n" + rest[:size]
        self.requests.append(whole)
        self.network.note(f"{self.address.host} has {head.split()[0].decode()}")
        return whole

    def says(self, after: float, data: bytes) -> None:
        """The peer's bytes arrive."""
        self.network.later(after, lambda: self.incoming.append(data))

    def ends(self, after: float) -> None:
        """The peer closes."""
        self.says(after, b"")

    def breaks(self, after: float) -> None:
        """A reset arrives: reads and writes fail."""

        def reset() -> None:
            self.broken = ConnectionResetError(104, "Connection reset by peer")
            self.incoming.append(self.broken)

        self.network.later(after, reset)

    def opens(self, after: float, room: int = ROOMY) -> None:
        """The peer takes more again."""

        def open_up() -> None:
            self.room = room

        self.network.later(after, open_up)

    # -- the seam --------------------------------------------------------------------------

    def ready(self, mask: int) -> bool:
        assert self.end is None, "a wait on a stream that was ended"
        if self.network.time < self.stands_at:
            return False
        return bool(
            (mask & READ and self.incoming)
            or (mask & WRITE and (self.room > 0 or self.broken is not None))
        )

    def connected(self) -> None:
        assert self.network.time >= self.stands_at
        if self.line.code:
            raise OSError(self.line.code, os.strerror(self.line.code))
        self.room = self.line.room

    def recv(self, size: int) -> bytes | None:
        """What does not fit is kept back, and no wait tells of it: as a layer above may do."""
        if self.kept:
            data, self.kept = self.kept[:size], self.kept[size:]
            return data
        if not self.incoming:
            return None
        item = self.incoming[0]
        if isinstance(item, OSError):
            self.incoming.popleft()
            raise item
        if item:  # an end stays an end
            self.incoming.popleft()
            self.kept = item[size:]
        return item[:size]

    def send(self, data: bytes | memoryview) -> int:
        if self.broken is not None:
            raise self.broken
        taken = bytes(data[: self.room])
        if not taken:
            return 0
        self.room -= len(taken)
        self.written += len(taken)
        self.inbox += taken
        if self.line.acked < math.inf:
            self.network.later(self.line.acked, lambda: self._acknowledge(len(taken)))
        self.line.script(self)
        return len(taken)

    def _acknowledge(self, size: int) -> None:
        self.acknowledged += size
        self.heard = self.network.time

    def flush(self) -> bool:
        return True

    def quiet(self) -> bool:
        return not self.incoming

    def state(self) -> Sample | None:
        now = self.network.time
        if now > self.stands_at:
            self.looks.append(seconds(now))
        return Sample(
            unacked=int(self.written > self.acknowledged),
            acked=self.acknowledged,
            window=65_535 if self.room > 0 else 0,
            rtt=self.line.connect,
            backoff=0,
            heard=0.0 if self.room <= 0 else self._silence(now),  # a closed window answers probes
        )

    def _silence(self, now: float) -> float:
        """A living peer answers keepalive probes at once."""
        held = self.keepalives[-1][1] if self.keepalives else self.keepalive
        if held is None or self.line.acked == math.inf:
            return now - self.heard
        return (now - self.heard) % held.idle

    def linked(self) -> bool:
        return True

    def set_keepalive(self, keepalive: Keepalive) -> None:
        self.keepalives.append((seconds(self.network.time), keepalive))

    def set_user_timeout(self, seconds_: float) -> None:
        self.user_timeouts.append((seconds(self.network.time), seconds_))

    def close(self) -> None:
        self._ended("closed")

    def abort(self) -> None:
        self._ended("aborted")

    def shut(self) -> None:
        self.incoming.append(b"")

    def _ended(self, how: str) -> None:
        if self.end is None:
            self.end = how, seconds(self.network.time)
            self.network.note(f"{how} {self.address.host}")

    def fileno(self) -> int:
        return self.local_port

    def detach(self) -> socket.socket:
        raise TypeError("no socket below")


class FakeNetwork:
    """See `Network`. `lines`: host to what its dials meet, in order; the last stays."""

    tells = True

    def __init__(self, **lines: Line | Sequence[Line]) -> None:
        """Hosts are written as `a`, `b`: 10.0.0.1, 10.0.0.2 and so on."""
        self.time = 0.0
        self.log: list[tuple[float, str]] = []
        self.streams: list[FakeStream] = []
        self.waits = 0
        self.wall = 1_800_000_000.0
        self._lines = {host_of(name): line for name, line in lines.items()}
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._jobs = Jobs(_all_ready)

    def note(self, what: str) -> None:
        self.log.append((seconds(self.time), what))

    def said(self, *words: str) -> list[tuple[float, str]]:
        """The lines of the log that begin with one of `words`."""
        return [line for line in self.log if line[1].startswith(words)]

    @property
    def open(self) -> list[FakeStream]:
        return [stream for stream in self.streams if stream.end is None]

    @property
    def requests(self) -> list[bytes]:
        return [request for stream in self.streams for request in stream.requests]

    def later(self, after: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.time + after, next(self._order), action))

    # -- the seam --------------------------------------------------------------------------

    def now(self) -> float:
        return self.time

    def wall_clock(self) -> float:
        return self.wall + self.time

    def wait(self, wait: Wait) -> Ready:
        self.waits += 1
        assert self.waits < 20_000, "waits without end"
        while True:
            self._jobs.step(self.time)
            ready = _all_ready(wait)
            if ready or self.time >= wait.until:
                return ready
            soon = self._queue[0][0] if self._queue else math.inf
            moment = min(wait.until, soon, self._jobs.until)
            assert moment < math.inf, "a wait that nothing will ever end"
            self.time = max(self.time, moment)
            while self._queue and self._queue[0][0] <= self.time:
                heapq.heappop(self._queue)[2]()

    async def wait_async(self, wait: Wait) -> Ready:
        await anyio.lowlevel.checkpoint()
        return self.wait(wait)

    def waiter(self) -> Waiter:
        return FakeWaiter()

    def lookup(self, host: str, port: int, waiter: Waiter) -> Lookup:
        """Any name has all hosts for its addresses, a millisecond later."""
        lookup = Lookup()

        def answered() -> None:
            lookup.addresses = [address_of(each, port) for each in self._lines]
            waiter.wake()

        self.later(CONNECT, answered)
        return lookup

    def dial(self, address: Address, plan: SocketPlan) -> Stream:
        lines = self._lines[address.host]
        earlier = sum(stream.address.host == address.host for stream in self.streams)
        line = lines if isinstance(lines, Line) else lines[min(earlier, len(lines) - 1)]
        self.note(f"dial {address.host}")
        stream = FakeStream(
            self,
            address,
            line,
            40_000 + len(self.streams),
            self.time + line.connect,
            [(seconds(self.time), plan.user_timeout)],
            keepalive=plan.keepalive,
        )
        self.streams.append(stream)
        if line.connect < math.inf:
            self.later(line.connect, lambda: None)
        return stream

    def rng(self, name: str) -> Random:
        return Random(name)

    def spawn(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._jobs.start(job)


def _all_ready(wait: Wait) -> Ready:
    return [source for source, mask in wait.interests if _ready(source, mask)]


def _ready(source: Stream | Waiter, mask: int) -> bool:
    if isinstance(source, FakeWaiter):
        return source.woken
    assert isinstance(source, FakeStream)
    return source.ready(mask)


def host_of(name: str) -> str:
    return f"10.0.0.{'abcdefgh'.index(name) + 1}"


def address_of(host: str, port: int = 80) -> Address:
    address = literal(host, port)
    assert address is not None
    return address


def target(*names: str) -> str:
    """A static:// target of these hosts."""
    return "static://" + ",".join(f"{host_of(name)}:80" for name in names)
