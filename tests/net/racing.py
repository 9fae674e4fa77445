"""Runs one race of the dialler and says what came of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from outlast.core.report import Report
from outlast.net.address import Address
from outlast.net.dial import DialError, DialMemory, DialRequest, Won
from outlast.net.options import SocketPlan
from outlast.net.race_driver import dial
from outlast.net.seam import Network, Stream
from tests.net.drivers import Driver
from tests.net.scripted import PORT, Scripted, ScriptedStream, at


def near(seconds: float) -> Any:
    """That instant, but for the rounding of floats."""
    return pytest.approx(seconds)


Finish = Callable[[Stream], Coroutine[Any, Any, Stream]]


@dataclass
class Watcher:
    """Notes what a dialler tells whoever keeps the endpoint table (`DialWatcher`)."""

    trail: list[str] = field(default_factory=list)
    first: str = ""  # the host to dial first

    def resolved(self, addresses: Sequence[Address], now: float) -> None:
        """See `DialWatcher.resolved`."""
        self.trail.append(f"resolved {' '.join(address.host for address in addresses)}")

    def arrange(self, addresses: Sequence[Address], now: float) -> Sequence[Address]:
        """See `DialWatcher.arrange`."""
        return sorted(addresses, key=lambda address: address.host != self.first)

    def connected(self, address: Address, now: float) -> None:
        """See `DialWatcher.answered`."""
        self.trail.append(f"connected {address.host}")

    def silent(self, address: Address, now: float) -> None:
        """See `DialWatcher.silent`."""
        self.trail.append(f"silent {address.host}")

    def failed(self, address: Address, now: float) -> None:
        """See `DialWatcher.failed`."""
        self.trail.append(f"failed {address.host}")

    def refused(self, address: Address, now: float) -> None:
        """See `DialWatcher.refused`."""
        self.trail.append(f"refused {address.host}")


@dataclass
class Outcome:
    """How a race ended, and when, in seconds since it began."""

    report: Report
    took: float
    late: float  # after the deadline
    won: Won | None = None
    error: DialError | None = None

    @property
    def stream(self) -> Stream:
        """The winner."""
        assert self.won is not None, str(self.error)
        return self.won.stream

    @property
    def winner(self) -> str:
        """The winner's host."""
        return self.stream.address.host

    @property
    def lost(self) -> DialError:
        """The error."""
        assert self.error is not None, self.won
        return self.error


def request(
    network: Network,
    hosts: Sequence[str] = (),
    *,
    timeout: float = 5.0,
    name: str | None = None,
    addresses: Sequence[Address] = (),
    delay: float | None = 0.25,
    memory: DialMemory | None = None,
    **more: Any,
) -> DialRequest:
    """What to dial: `hosts` or `addresses` as listed, or a `name`."""
    return DialRequest(
        memory=DialMemory(network.now()) if memory is None else memory,
        deadline=network.now() + timeout,
        plan=more.pop("plan", SocketPlan()),
        name=None if name is None else (name, PORT),
        addresses=addresses or [at(host) for host in hosts],
        attempt_delay=delay,
        **more,
    )


def race(drive: Driver, wanted: DialRequest) -> Outcome:
    """Run one race to its end."""
    network = drive.network
    report = Report(network.now())

    async def engine() -> Outcome:
        begun = network.now()
        won = failure = None
        try:
            won = await dial(network, wanted, report)
        except DialError as error:
            failure = error
        now = network.now()
        return Outcome(report, now - begun, now - wanted.deadline, won, failure)

    return drive(engine)


def play(
    network: Scripted, hosts: Sequence[str] = (), *, world: str = "sync", **more: Any
) -> Outcome:
    """A race on a scripted network; nothing may stay open but the winner and its spares."""
    outcome = race(Driver(world, network), request(network, hosts, **more))
    kept: set[ScriptedStream] = set()
    for stream in (
        () if outcome.won is None else (won.stream for won in (outcome.won, *outcome.won.spare))
    ):
        assert isinstance(stream, ScriptedStream)
        kept.add(stream)
    assert network.open == kept
    return outcome
