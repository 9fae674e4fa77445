"""The program's own socket as the first dial of a race that began before anybody raced.

A program has begun to connect; where no answer comes in time, `core.race` is to decide when further
dials join, as if it had made the first one itself. `adopting` gives a network on which a race's
first dial is that socket, and on which no time has passed since then until the race has taken it
up, so that the next dial is due when it would have been.

Refuses to end what belongs to the program: a race that gives its first dial up leaves it as it is.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from outlast.core.liveness import CLOSED
from outlast.net.address import Address
from outlast.net.kernel import KernelStream
from outlast.net.options import TCP, SocketPlan, user_timeout_option
from outlast.net.seam import Lookup, Network, Ready, Stream, Wait, Waiter

__all__ = ["AdoptedStream", "Overheard", "PolledStream", "adopting"]

SYN_SENT = 2  # of a Sample's state (linux-tcp facts 2.3)

_NOTHING = SocketPlan(keepalive=None, nodelay=False)  # its options are the program's business


class AdoptedStream(KernelStream):
    """A socket of the program's that has begun to connect to `address`; see `Stream`.

    started: when it did, on the network's clock. error: what its connect has failed with already.
    One owner at a time. Raises OSError if the socket is closed.
    """

    __slots__ = ("error", "given_up", "started")

    def __init__(
        self,
        sock: socket.socket,
        address: Address,
        started: float,
        *,
        error: OSError | None = None,
    ) -> None:
        super().__init__(sock, address, _NOTHING)
        self.started = started
        self.error = error
        self.given_up = False
        self.local_port = sock.getsockname()[1]

    def connected(self) -> None:
        """See `Stream.connected`."""
        if self.error is not None:
            raise self.error
        super().connected()

    def close(self) -> None:
        """See `Stream.close`: it is the program's to close."""
        self.given_up = True

    def abort(self) -> None:
        """See `Stream.abort`: it is the program's to close."""
        self.given_up = True

    def shut(self) -> None:
        """See `Stream.shut`: nothing; nobody but the race waits for it."""


class Overheard(Exception):
    """The program's own dial has ended, and the program has been told."""


class PolledStream(AdoptedStream):
    """An adopted socket that its program polls itself, and whose error is the program's to read.

    Takes a copy of it (another descriptor of the same socket), which is closed by whoever made it.
    """

    __slots__ = ()

    def connected(self) -> None:
        """See `Stream.connected`. Raises Overheard, which ends the race, if it has failed."""
        if not self.standing:
            raise Overheard

    @property
    def standing(self) -> bool:
        """Whether it is connected. Reads no error."""
        sample = self.state()
        return sample is not None and sample.state not in (SYN_SENT, CLOSED)

    @property
    def silent(self) -> bool:
        """Whether it waits for an answer. Reads no error."""
        sample = self.state()
        return sample is not None and sample.state == SYN_SENT

    def expire(self, seconds: float) -> bool:
        """Have its connect end by itself after so long in all, unless the program has said when.
        Whether that stands now: it has to be lifted if it connects."""
        option, value = user_timeout_option(seconds)
        try:
            if option is None or self._sock.getsockopt(TCP, option):
                return False
            self._sock.setsockopt(TCP, option, value)
        except OSError:
            return False
        return True


class _Adopting:
    """See `adopting`."""

    def __init__(self, network: Network, stream: AdoptedStream) -> None:
        self._network = network
        self._stream: AdoptedStream | None = stream  # until a dial was made
        self.wait: Callable[[Wait], Ready] = network.wait
        self.wait_async: Callable[[Wait], Coroutine[Any, Any, Ready]] = network.wait_async

    @property
    def tells(self) -> bool:
        """See `Network.tells`."""
        return self._network.tells

    def now(self) -> float:
        """See `Network.now`: when the program began, as long as nobody has dialled."""
        stream = self._stream
        return self._network.now() if stream is None else stream.started

    def wall_clock(self) -> float:
        """See `Network.wall_clock`."""
        return self._network.wall_clock()

    def rng(self, name: str) -> Random:
        """See `Network.rng`."""
        return self._network.rng(name)

    def waiter(self) -> Waiter:
        """See `Network.waiter`."""
        return self._network.waiter()

    def lookup(self, host: str, port: int, waiter: Waiter) -> Lookup:
        """See `Network.lookup`."""
        return self._network.lookup(host, port, waiter)

    def dial(self, address: Address, plan: SocketPlan) -> Stream:
        """See `Network.dial`: the first one is the program's, if it is to that address."""
        stream, self._stream = self._stream, None
        if stream is not None and stream.address == address:
            return stream
        return self._network.dial(address, plan)

    def spawn(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """See `Network.spawn`."""
        self._network.spawn(job)


def adopting(network: Network, stream: AdoptedStream) -> Network:
    """`network`, for one race whose request names `stream.address` first: it is its first dial.

    The race stands where it would stand if it had begun at `stream.started`. If the stream wins,
    it is `Won.stream`; else it is left open, `given_up`, and the winner is another socket.
    """
    return _Adopting(network, stream)
