"""Further dials for a connect of the program's, by the one race of this library.

They look like the program's own socket: same family (IPv4 is mapped for an IPv6 socket), same
options, same bound address. Learns nothing and decides nothing: that is `core.race`'s and the
service table's.
"""

from __future__ import annotations

import dataclasses
import errno
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from outlast.core.report import Report
from outlast.net.address import Address
from outlast.net.carry import carried
from outlast.net.dial import DialError, DialMemory, Won
from outlast.net.options import LocalRefusal, SocketPlan
from outlast.net.run import run_async
from outlast.net.seam import Lookup, Network, Ready, Stream, Wait, Waiter
from outlast.policy import Policy
from outlast.service.reach import dial_request, reach
from outlast.shims.run.sockaddr import fitted
from outlast.target import Target

__all__ = ["Aim", "Loan", "alike_plan", "race"]


@dataclass(frozen=True, slots=True)
class Aim:
    """What to race for. `seconds`: until its end. `family`: of the program's socket."""

    target: Target
    policy: Policy
    seconds: float
    family: int
    plan: SocketPlan


def alike_plan(sock: socket.socket, source: tuple[str, int] | None) -> SocketPlan:
    """The options of a socket that is to stand in for `sock`. Raises OSError if it is closed."""
    return SocketPlan(keepalive=None, nodelay=False, extra=carried(sock), source=source)


async def race(world: Network, aim: Aim, loan: Loan, report: Report) -> Won | DialError:
    """Run it to its end; see `service.reach.reach`. A cancellation ends every dial at once; then
    `loan` says what is to be given back."""
    request = dial_request(world, aim.target, aim.policy, limit=aim.seconds, plan=aim.plan)
    request = dataclasses.replace(request, memory=cast("DialMemory", loan))
    network = _Fitting(world, aim.family)
    return await run_async(world, reach(network, request, report))


class Loan:
    """A target's memory, as one race sees it; what the race has taken from the re-dial bucket is
    counted. One owner.

    A race that wins gives all of it back. One that is called off because the program's own dial
    was answered after all has won as well: without this a busy machine, where answers are late,
    would use the bucket up.
    """

    def __init__(self, memory: DialMemory) -> None:
        self._memory = memory
        self._taken = 0
        self._settled = False

    def take(self, now: float) -> bool:
        """See `core.race.Bucket`."""
        granted = self._memory.take(now)
        self._taken += granted
        return granted

    def won(self, taken: int, now: float) -> None:
        """See `core.race.Bucket`."""
        self._settled = True
        self._memory.won(taken, now)

    def give_back(self, now: float) -> None:
        """The own dial has won, unless the race has."""
        if not self._settled:
            self.won(self._taken, now)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)


class _Fitting:
    """A network whose dials are made by sockets of one family."""

    def __init__(self, network: Network, family: int) -> None:
        self._network = network
        self._family = family
        self.wait: Callable[[Wait], Ready] = network.wait
        self.wait_async: Callable[[Wait], Coroutine[Any, Any, Ready]] = network.wait_async
        self.now: Callable[[], float] = network.now
        self.waiter: Callable[[], Waiter] = network.waiter

    @property
    def tells(self) -> bool:
        """See `Network.tells`."""
        return self._network.tells

    def wall_clock(self) -> float:
        """See `Network.wall_clock`."""
        return self._network.wall_clock()

    def rng(self, name: str) -> Random:
        """See `Network.rng`."""
        return self._network.rng(name)

    def lookup(self, host: str, port: int, waiter: Waiter) -> Lookup:
        """See `Network.lookup`."""
        return self._network.lookup(host, port, waiter)

    def dial(self, address: Address, plan: SocketPlan) -> Stream:
        """See `Network.dial`: LocalRefusal for an address that such a socket cannot dial."""
        fit = fitted(address, self._family)
        if fit is None:
            text = f"the program's socket cannot dial {address}: it is of the other family"
            raise LocalRefusal(errno.EAFNOSUPPORT, text)
        return self._network.dial(fit, plan)

    def spawn(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """See `Network.spawn`."""
        self._network.spawn(job)
