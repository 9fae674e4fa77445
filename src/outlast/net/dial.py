"""What to dial, what dials have taught, and how a dial ends: the words of `net.race_driver`.

One deadline bounds look-up, every address and the handshake together. What is learnt goes to
the target's `DialMemory`, which all who dial that target share.
"""

from __future__ import annotations

import errno
import math
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from outlast.core.budget import RedialBucket
from outlast.core.latency import Latency, attempt_delay, handshake_patience
from outlast.core.ports import SilentPorts
from outlast.core.refusals import Refusals
from outlast.net.address import Address
from outlast.net.dial_news import Told
from outlast.net.options import SocketPlan
from outlast.net.seam import Stream

__all__ = ["DialError", "DialMemory", "DialRequest", "DialWatcher", "Stands", "Won", "errno_of"]


def errno_of(error: BaseException | None) -> int | None:
    """The kernel's number of an error; None where there is none, or it numbers something else."""
    if isinstance(error, OSError) and not isinstance(error, (ssl.SSLError, socket.gaierror)):
        return error.errno
    return None


STALE = 300.0  # seconds; for so long a name's last answer may stand in for the next
LATELY = 60.0  # seconds; until then the control plane has taken a dead endpoint out


class DialMemory:
    """What the dials of one target have taught: latencies, silent ports, the re-dial bucket.

    Thread-safe.
    """

    def __init__(self, now: float) -> None:
        self._lock = threading.Lock()
        self._connects = Latency()
        self._handshakes = Latency()
        self._bucket = RedialBucket(now)
        self._ports = SilentPorts()
        self._refusals = Refusals()
        self._found: tuple[Sequence[Address], float] = ((), -math.inf)
        self._won_at = -math.inf

    def renew(self) -> None:
        """In the child of a fork: a lock that another thread held would never be let go."""
        self._lock = threading.Lock()

    def figures(self) -> tuple[float, float]:
        """Attempt delay and patience with a handshake, in seconds."""
        with self._lock:
            return attempt_delay(self._connects), handshake_patience(self._handshakes)

    def take(self, now: float) -> bool:
        """See `core.race.Bucket`."""
        with self._lock:
            return self._bucket.take(now)

    def won(self, taken: int, now: float) -> None:
        """See `core.race.Bucket`."""
        with self._lock:
            self._bucket.won(taken, now)
            self._won_at = now

    @property
    def known(self) -> bool:
        """Whether the name has had an address."""
        return bool(self._found[0])

    def found(self, addresses: Sequence[Address], now: float) -> None:
        """The name has been looked up."""
        if addresses:
            self._found = addresses, now

    def last_answer(self, now: float) -> Sequence[Address]:
        """What the name's addresses were, if that is not too long ago."""
        addresses, at = self._found
        return addresses if now - at <= STALE else ()

    def lately(self, now: float) -> bool:
        """Whether a dial was won within the last minute."""
        return now - self._won_at <= LATELY

    def redials_left(self, now: float) -> float:
        """Extra dials that races may still begin."""
        with self._lock:
            return self._bucket.level(now)

    def learn(self, connect: float, handshake: float | None) -> None:
        """Take the winner's own times; in seconds."""
        with self._lock:
            self._connects.add(connect)
            if handshake is not None:
                self._handshakes.add(handshake)

    def silent(self, address: Address, port: int, now: float) -> None:
        """See `core.ports.SilentPorts.silent`."""
        with self._lock:
            self._ports.silent(address, port, now)

    def refused(self, address: Address, now: float) -> None:
        """See `core.refusals.Refusals.refused`."""
        with self._lock:
            self._refusals.refused(address, now)

    def refused_lately(self, address: Address, now: float) -> bool:
        """See `core.refusals.Refusals.lately`."""
        with self._lock:
            return self._refusals.lately(address, now)

    def answered(self, address: Address, now: float) -> None:
        """See `core.ports.SilentPorts.answered`."""
        if self._ports:
            with self._lock:
                self._ports.answered(address, now)

    def leads_nowhere(self, address: Address, port: int, now: float) -> bool:
        """See `core.ports.SilentPorts.leads_nowhere`."""
        if not self._ports:  # as long as nothing is wrong
            return False
        with self._lock:
            return self._ports.leads_nowhere(address, port, now)


class DialWatcher(Protocol):
    """Whoever keeps the endpoint table: hears what dials showed, and says whom to dial first."""

    def resolved(self, addresses: Sequence[Address], now: float) -> None:
        """The name has these addresses now."""

    def arrange(self, addresses: Sequence[Address], now: float) -> Sequence[Address]:
        """The order in which to dial `addresses`."""

    def connected(self, address: Address, now: float) -> None:
        """A dial has won."""

    def silent(self, address: Address, now: float) -> None:
        """A dial was not answered while another won, or for a whole second."""

    def failed(self, address: Address, now: float) -> None:
        """A dial ended with an error of the network's: nobody was reached."""

    def refused(self, address: Address, now: float) -> None:
        """A dial ended with somebody's word: no listener, or a handshake that failed."""


@dataclass(frozen=True, slots=True)
class DialRequest:
    """What to dial and how.

    `addresses` in order of preference; or a `name` (host, port) to look up. `finish` turns a
    connected stream into a usable one (a proxy's tunnel, TLS); it raises OSError, `HandshakeError`
    among them, or anything else to end the whole race. `deadline` is a point in time. `told` hears
    of look-ups and dials that fail; None: nobody wants to.
    """

    memory: DialMemory
    deadline: float
    plan: SocketPlan
    name: tuple[str, int] | None = None
    addresses: Sequence[Address] = ()
    finish: Callable[[Stream], Coroutine[Any, Any, Stream]] | None = None
    max_open: int = 4
    attempt_delay: float | None = None
    watcher: DialWatcher | None = None
    told: Told | None = None


class HandshakeError(OSError):
    """A `finish` that failed, by one who knows more of it than an errno tells.

    Without an errno another dial to the same address would meet the same. `blame`: whether this
    tells against the address; what lies beyond a proxy says nothing of the proxy.
    """

    def __init__(self, code: int | None, message: str, *, blame: bool) -> None:
        super().__init__(code, message)
        self.message = message
        self.blame = blame

    def __str__(self) -> str:
        return self.message


class DialError(OSError):
    """No connection stands. `timed_out`: at the deadline. `cause`: the most telling error.
    `phase`: how far it came, "lookup", "connect" or "handshake"."""

    def __init__(
        self, message: str, *, timed_out: bool, cause: BaseException | None, phase: str = "connect"
    ) -> None:
        code = cause.errno if isinstance(cause, OSError) and cause.errno is not None else None
        if timed_out and code is None:
            code = errno.ETIMEDOUT
        super().__init__(code, message)
        self.message = message
        self.timed_out = timed_out
        self.cause = cause
        self.phase = phase

    def __str__(self) -> str:
        return self.message


@dataclass(slots=True)
class Stands:
    """A dial that has become usable. `rtt`: its own SYN-to-established time, `handshake`: what
    came after, None without one; in seconds."""

    stream: Stream
    rtt: float
    handshake: float | None = None


@dataclass(slots=True)
class Won(Stands):
    """The winner, and losers that had become usable too. `dials`: how many there were."""

    spare: list[Stands] = field(default_factory=list)
    dials: int = 1
