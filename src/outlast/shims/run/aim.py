"""What a connect is for, and what all of them work with: values that `connects` is given."""

from __future__ import annotations

import asyncio
import errno
import socket
from dataclasses import dataclass

from outlast.core.report import Report
from outlast.net.address import Address
from outlast.net.kernel import KernelNetwork
from outlast.net.tcpinfo import read_sample
from outlast.policy import Policy
from outlast.service.service import Service
from outlast.shims.run.alike import Likeness
from outlast.shims.run.explain import Explainer, dials
from outlast.shims.run.notices import Listener
from outlast.shims.run.placing import Placer
from outlast.shims.run.processes import Task
from outlast.shims.run.sockaddr import fitted
from outlast.shims.run.watching import Watching
from outlast.target import Target

__all__ = ["Aimed", "Place", "Tools"]


@dataclass(frozen=True, slots=True)
class Tools:
    """What every connect works with."""

    listener: Listener
    world: KernelNetwork
    loop: asyncio.AbstractEventLoop
    policy: Policy
    placer: Placer
    watching: Watching
    likeness: Likeness
    explainer: Explainer


@dataclass(frozen=True, slots=True)
class Place:
    """Where a connect was begun: the thread, its descriptor, and the file below it."""

    task: Task
    number: int
    cookie: int
    inode: int


@dataclass(frozen=True, slots=True)
class Aimed:
    """Where a connect leads. `words`: what the program asked for. `address`, `raw`: what its own
    socket dials; None where no endpoint of the target is known yet."""

    words: str
    target: Target
    service: Service
    address: Address | None
    raw: bytes | None

    def learn(self, sock: socket.socket, now: float, started: float) -> None:
        """The own dial was answered."""
        if self.address is None:
            return
        sample = read_sample(sock)
        took = now - started
        memory = self.service.memory
        memory.learn(min(sample.rtt, took) if sample is not None and sample.rtt else took, None)
        memory.answered(self.address, now)
        self.service.connected(self.address, now)

    def blame(self, family: int, winner: Address, port: int, error: int, now: float) -> None:
        """Another dial has won, to `winner`; the own one, from `port`, was silent, or has met
        `error`. Silence tells against an endpoint only where another one has answered."""
        if self.address is None:
            return
        if error == errno.ECONNREFUSED:
            self.service.refused(self.address, now)
        elif error:
            self.service.failed(self.address, now)
        elif fitted(self.address, family) != winner:
            self.service.silent(self.address, now)
        if port and not error:
            self.service.memory.silent(self.address, port, now)

    def explain(self, explainer: Explainer, place: Place, what: str, report: Report) -> None:
        """Tell how it has gone."""
        if not explainer.wanted:
            return
        more = "; ".join(part for part in (dials(report), *report.notes) if part)
        mapped = (
            ""
            if self.address is None or str(self.address) == self.words
            else (f" -> {self.address}")
        )
        told = f"{what} [{more}]" if more else what
        explainer.connect(place.task.process, place.number, self.words + mapped, told)
