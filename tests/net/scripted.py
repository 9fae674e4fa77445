"""A network that follows a script, in virtual time, so that tests can name exact instants.

A `Path` says how one dial of an address ends; a list of them, one for each dial (the last stays).
A `Told` says what one look-up gives. Everything that is done is written down.
"""

from __future__ import annotations

import errno
import math
import os
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import anyio

from outlast.core.liveness import Sample
from outlast.net.address import Address, literal
from outlast.net.options import Keepalive, SocketPlan
from outlast.net.seam import READ, WRITE, Lookup, Ready, Stream, Wait, Waiter

PORT = 80


def at(host: str, port: int = PORT) -> Address:
    """The address that `host` spells out."""
    address = literal(host, port)
    assert address is not None
    return address


@dataclass(frozen=True, slots=True)
class Path:
    """A dial is answered `after` seconds, or fails then with errno `code`; `at_once`: in `dial`.

    Its handshake takes `handshake` seconds more and ends with `broken`, if that is given.
    """

    after: float = 0.001
    code: int = 0
    at_once: bool = False
    handshake: float = 0.0
    broken: Exception | None = None


SILENT = Path(math.inf)
MUTE = Path(handshake=math.inf)


def refused(after: float = 0.001) -> Path:
    """RST to the SYN."""
    return Path(after, errno.ECONNREFUSED)


@dataclass(frozen=True, slots=True)
class Told:
    """A look-up gives `answer` after so many seconds; never, if that is infinite."""

    answer: Sequence[str] | OSError = ()
    after: float = 0.0


class ScriptedWaiter:
    """See `Waiter`."""

    def __init__(self) -> None:
        self.woken = False

    def wake(self) -> None:
        """See `Waiter.wake`."""
        self.woken = True


class ScriptedStream:
    """See `Stream`. `end` says how it was ended, and when."""

    def __init__(self, network: Scripted, address: Address, path: Path, port: int) -> None:
        self.network = network
        self.address = address
        self.path = path
        self.local_port = port
        self.written = 0
        self.notes: Sequence[str] = ()
        self.foreign = False
        self.stands_at = network.time + path.after
        self.shaken_at = self.stands_at + path.handshake
        self.end: tuple[str, float] | None = None

    def ready_at(self, mask: int) -> float:
        """When something of `mask` is possible."""
        return min(
            self.stands_at if mask & WRITE else math.inf,
            self.shaken_at if mask & READ else math.inf,
        )

    def connected(self) -> None:
        """See `Stream.connected`."""
        assert self.network.time >= self.stands_at
        if self.path.code:
            raise OSError(self.path.code, os.strerror(self.path.code))

    def recv(self, size: int) -> bytes | None:
        """See `Stream.recv`: the handshake's one byte."""
        return b"!" if self.network.time >= self.shaken_at else None

    def send(self, data: bytes | memoryview) -> int:
        """See `Stream.send`."""
        self.written += len(data)
        return len(data)

    def flush(self) -> bool:
        """See `Stream.flush`."""
        return True

    def quiet(self) -> bool:
        """See `Stream.quiet`."""
        return self.end is None

    def state(self) -> Sample | None:
        """See `Stream.state`."""
        return None

    def linked(self) -> bool:
        """See `Stream.linked`."""
        return True

    keepalive: Keepalive | None = None

    def set_keepalive(self, keepalive: Keepalive) -> None:
        """See `Stream.set_keepalive`."""

    def set_user_timeout(self, seconds: float) -> None:
        """See `Stream.set_user_timeout`."""

    def close(self) -> None:
        """See `Stream.close`."""
        self._ended("closed")

    def abort(self) -> None:
        """See `Stream.abort`."""
        self._ended("aborted")

    def shut(self) -> None:
        """See `Stream.shut`."""

    def _ended(self, how: str) -> None:
        if self.end is None:
            self.end = how, self.network.time
            self.network.open.discard(self)

    def fileno(self) -> int:
        """See `Stream.fileno`."""
        return self.local_port

    def detach(self) -> socket.socket:
        """See `Stream.detach`."""
        raise TypeError("no socket below")


async def shake(stream: Stream) -> Stream:
    """A handshake as the stream's path has it."""
    assert isinstance(stream, ScriptedStream)
    await Wait(((stream, READ),))
    if stream.path.broken is not None:
        raise stream.path.broken
    return stream


@dataclass(eq=False)
class Scripted:
    """See `Network`. `paths`: host to how its dials end. `told`: look-ups, one after the other."""

    paths: Mapping[str, Path | Sequence[Path]] = field(default_factory=dict)
    told: Sequence[Told] = ()
    time: float = 0.0
    streams: list[ScriptedStream] = field(default_factory=list)
    open: set[ScriptedStream] = field(default_factory=set)
    dials: list[tuple[float, str]] = field(default_factory=list)
    lookups: list[float] = field(default_factory=list)
    waits: int = 0
    tells: bool = True
    most_open: int = 0
    _due: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def now(self) -> float:
        """See `Network.now`."""
        return self.time

    def wall_clock(self) -> float:
        """See `Network.wall_clock`."""
        return self.time

    # -- waiting ---------------------------------------------------------------------------

    def wait(self, wait: Wait) -> Ready:
        """See `Network.wait`: time jumps to whatever comes first."""
        self.waits += 1
        while True:
            ready = [source for source, mask in wait.interests if self._ready(source, mask)]
            if ready or self.time >= wait.until:
                return list(dict.fromkeys(ready))
            self._advance(min(wait.until, *self._instants(wait)))

    async def wait_async(self, wait: Wait) -> Ready:
        """See `Network.wait_async`."""
        await anyio.lowlevel.checkpoint()
        return self.wait(wait)

    def _ready(self, source: Stream | Waiter, mask: int) -> bool:
        if isinstance(source, ScriptedWaiter):
            return source.woken
        assert isinstance(source, ScriptedStream)
        assert source.end is None, "a wait on a stream that was closed"
        return source.ready_at(mask) <= self.time

    def _instants(self, wait: Wait) -> list[float]:
        streams = [pair for pair in wait.interests if isinstance(pair[0], ScriptedStream)]
        found = [source.ready_at(mask) for source, mask in streams]  # type: ignore[union-attr]  # filtered above
        return [math.inf, *found, *(moment for moment, _ in self._due)]

    def _advance(self, moment: float) -> None:
        assert moment < math.inf, "a wait that nothing will ever end"
        self.time = max(self.time, moment)
        due = [entry for entry in self._due if entry[0] <= self.time]
        self._due = [entry for entry in self._due if entry[0] > self.time]
        for _, action in due:
            action()

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Have `action` happen so many seconds from now."""
        self._due.append((self.time + seconds, action))

    # -- names and dials -------------------------------------------------------------------

    def waiter(self) -> Waiter:
        """See `Network.waiter`."""
        return ScriptedWaiter()

    def lookup(self, host: str, port: int, waiter: Waiter) -> Lookup:
        """See `Network.lookup`."""
        told = self.told[min(len(self.lookups), len(self.told) - 1)]
        self.lookups.append(self.time)
        lookup = Lookup()

        def answered() -> None:
            if isinstance(told.answer, OSError):
                lookup.error = told.answer
            else:
                lookup.addresses = [at(each, port) for each in told.answer]
            waiter.wake()

        if told.after:
            self.later(told.after, answered)
        else:
            answered()
        return lookup

    def dial(self, address: Address, plan: SocketPlan) -> Stream:
        """See `Network.dial`."""
        paths = self.paths[address.host]
        earlier = sum(host == address.host for _, host in self.dials)
        self.dials.append((self.time, address.host))
        path = paths if isinstance(paths, Path) else paths[min(earlier, len(paths) - 1)]
        if path.at_once:
            raise OSError(path.code, os.strerror(path.code))
        stream = ScriptedStream(self, address, path, 40_000 + len(self.dials))
        self.streams.append(stream)
        self.open.add(stream)
        self.most_open = max(self.most_open, len(self.open))
        return stream

    def rng(self, name: str) -> Random:
        """See `Network.rng`."""
        return Random(name)

    def spawn(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """See `Network.spawn`."""
        raise AssertionError("nothing here runs in the background")
