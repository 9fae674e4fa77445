"""The seam to the network: everything this library waits by, and everything it waits for.

One implementation is the kernel (`net.kernel`), another may be a simulation with virtual time;
both pass the same conformance suite. Engine code is written once, as coroutines that await only
`Wait`. A network carries a `Wait` out for a thread (`wait`) or for a task (`wait_async`), and
that is the only place where sync and async differ.

Stream operations never block: they do what is possible now and say what is left. So nothing
needs cleaning up by awaiting, and cancellation is safe at every point.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from outlast.core.liveness import Sample
    from outlast.net.address import Address
    from outlast.net.options import Keepalive, SocketPlan

__all__ = [
    "READ",
    "WAKE",
    "WRITE",
    "Interest",
    "Lookup",
    "Network",
    "Ready",
    "Stream",
    "Wait",
    "Waiter",
]

WAKE = 0
READ = 1
WRITE = 2


class Waiter(Protocol):
    """A place to park until somebody calls `wake`; one owner, any thread may wake it."""

    def wake(self) -> None:
        """Let the owner go on, now or when it parks. Thread-safe; never blocks."""


class Stream(Protocol):
    """One TCP connection, or one being made. Nothing here blocks. One owner at a time."""

    @property
    def address(self) -> Address:
        """What was dialled."""

    @property
    def local_port(self) -> int:
        """The local port; 0 if there is none."""

    @property
    def written(self) -> int:
        """Bytes handed to the network over the connection's life."""

    @property
    def foreign(self) -> bool:
        """Whether another process made it and a fork has left a copy here: then `close` and
        `abort` let go of the copy without a word, and `shut` does nothing."""

    @property
    def notes(self) -> Sequence[str]:
        """What the platform refused of the socket plan."""

    def connected(self) -> None:
        """Called when writable: raises OSError if the dial has failed."""

    def recv(self, size: int) -> bytes | None:
        """Up to `size` bytes; b"" at the end; None if there is nothing now. Raises OSError.

        Fewer than `size`: nothing more is held back, so that a wait for READ is right.
        """

    def send(self, data: bytes | memoryview) -> int:
        """Hand over what fits; the number of bytes taken, maybe 0. Raises OSError."""

    def flush(self) -> bool:
        """Hand over what a layer has kept back; True if nothing is left. Raises OSError."""

    def quiet(self) -> bool:
        """Whether an idle connection is as it was left: open, and nothing arrived."""

    def state(self) -> Sample | None:
        """What the kernel knows of the connection now; None where it tells nothing."""

    def linked(self) -> bool:
        """Whether this machine's own link is up, so that silence tells against the peer; True
        where that cannot be told. Asked before a peer is held suspect, not more often."""

    def set_user_timeout(self, seconds: float) -> None:
        """Let the kernel give up unacknowledged data after so long; 0 switches it off."""

    @property
    def keepalive(self) -> Keepalive | None:
        """What the plan wanted of keepalive; None where it is off or the caller's own, so that
        nobody may change it."""

    def set_keepalive(self, keepalive: Keepalive) -> None:
        """Have the kernel probe so from now on. Where `keepalive.idle` seconds have passed without
        a packet already, a probe leaves at once. Nothing happens where `self.keepalive` is None,
        or where the connection is gone."""

    def close(self) -> None:
        """End in good order, without waiting. Idempotent."""

    def abort(self) -> None:
        """End at once with a reset: for a suspect peer. Idempotent."""

    def fileno(self) -> int:
        """The descriptor, for waiting; a simulated stream has a number of its own."""

    def detach(self) -> socket.socket:
        """The socket below, for whoever it is handed to. Raises TypeError if there is none."""

    def shut(self) -> None:
        """End both directions, so that an owner waiting in another thread or task wakes up."""


Interest: TypeAlias = "tuple[Stream | Waiter, int]"
Ready: TypeAlias = "Sequence[Stream | Waiter]"


class Wait:
    """The one effect of engine code: wait for any of `interests`, at most until `until`.

    An interest is a stream with READ, WRITE or both, or a waiter with WAKE. Awaiting gives what
    is ready, at least one, or nothing when the time has come. A stream that is closed is ready:
    the next operation on it says why.
    """

    __slots__ = ("interests", "until")

    def __init__(self, interests: Sequence[Interest], until: float = math.inf) -> None:
        self.interests = interests
        self.until = until

    def __await__(self) -> Generator[Wait, Ready, Ready]:
        return (yield self)


@dataclass(eq=False)
class Lookup:
    """A name look-up under way; `addresses` or `error` stands when its waiter was woken.

    Whoever drops it has stopped waiting: there is nothing else to be done.
    """

    addresses: Sequence[Address] | None = None
    error: OSError | None = None


class Network(Protocol):
    """What the library needs of the world."""

    @property
    def tells(self) -> bool:
        """Whether streams tell what their kernel knows (`Stream.state`)."""

    def now(self) -> float:
        """Seconds on a clock that only goes forward; shared by threads and event loops."""

    def wall_clock(self) -> float:
        """Unix time, for dates that servers send."""

    def wait(self, wait: Wait) -> Ready:
        """Carry `wait` out by blocking this thread."""

    async def wait_async(self, wait: Wait) -> Ready:
        """Carry `wait` out in the running event loop. A cancellation passes through."""

    def rng(self, name: str) -> Random:
        """A random generator of its own for whatever goes by `name`; a simulation seeds it."""

    def waiter(self) -> Waiter:
        """A new place to park."""

    def lookup(self, host: str, port: int, waiter: Waiter) -> Lookup:
        """Start looking `host` up; `waiter` is woken when it is done. Never blocks."""

    def dial(self, address: Address, plan: SocketPlan) -> Stream:
        """Start a connection; writable when it stands or has failed. Raises OSError."""

    def spawn(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run engine code in the background; it never keeps the process from ending."""
