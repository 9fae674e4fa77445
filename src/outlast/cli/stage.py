"""Where the demo takes place: a Service of two pods, and what befalls one of them.

On the kernel: a `KernelLab`, which is incident A itself. Where no lab is possible: a `SimNet`,
which has all of it in virtual time. `loopback` has the nearest thing that a kernel without a lab
can show. All say what happened when. Each library gets a stage of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol, TypeAlias

from outlast.cli.record import Happening
from outlast.testing import KernelLab, SimNet, privileges

__all__ = ["LEAVES", "POWER_OFF", "KernelStage", "SimStage", "Stage", "enter_namespace", "in_real"]

POWER_OFF = 3.0
# The control plane's lag: 40 s from power loss to the end of the endpoint (node-monitor-grace-
# period of Kubernetes up to 1.31; 50 s since).
LEAVES = POWER_OFF + 40.0
_SEED = 1  # of both libraries' simulations, so that chance is the same for both


Main: TypeAlias = "Callable[[], Coroutine[Any, Any, None]]"


class Stage(Protocol):
    """A place for the demo. A context manager; closing it ends everything that it started."""

    url: str
    where: str  # one line for people
    connections: tuple[str, ...]  # the ways to use connections that can be shown here
    happenings: list[Happening]
    simulated: SimNet | None  # the network that clients are to use; None: the machine's own

    def play(self, main: Main) -> None:
        """Start the clock and the events, and run `main()` on asyncio in this thread."""

    def elapsed(self) -> float:
        """Seconds since the start."""

    def __enter__(self) -> Stage:
        """Build it."""

    def __exit__(self, *exc: object) -> None:
        """Take it down."""


class KernelStage:
    """Two nodes with a pod each, on this machine's kernel."""

    where = "this machine's kernel: nodes are network namespaces, a Service is NAT by nftables"
    connections: tuple[str, ...] = ("pooled", "new")
    simulated: SimNet | None = None

    def __init__(
        self, number: int, *, power_off: float = POWER_OFF, leaves: float = LEAVES
    ) -> None:
        self.happenings: list[Happening] = []
        with ExitStack() as stack:
            self.lab = net = stack.enter_context(KernelLab())
            # The kernel counts source ports on by destination, in all namespaces together: only
            # with a VIP of its own is a stage's port reused no sooner than its own dials ask for.
            for spare in range(number):
                net.service(f"spare-{spare}.shop.svc:8080")
            lost, other = net.node("b"), net.node("a")
            service = net.service("orders.shop.svc:8080", pods=[lost.pod(), other.pod()])
            self.url = service.url
            self.endpoints = tuple(pod.address for pod in (*lost.pods, *other.pods))
            net.at(power_off, self._do, "node b loses power", lost.power_off)
            net.at(leaves, self._do, "endpoint leaves", service.remove, lost)
            self._closing = stack.pop_all()

    def running(self) -> AbstractContextManager[object]:
        """Be on the client node, and let things happen."""
        return self.lab.running()

    def play(self, main: Main) -> None:
        """The same, around an event loop."""
        in_real(self.running(), main)

    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.lab.elapsed()

    def _do(self, what: str, fault: Callable[..., object], *args: object) -> None:
        self.happenings.append(Happening(self.elapsed(), what))
        fault(*args)

    def __enter__(self) -> KernelStage:
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing.close()


class SimStage:
    """Two nodes with a pod each, in virtual time: a run takes as long as it takes to compute."""

    where = "a simulated network in virtual time, with a model of Linux's TCP"
    connections: tuple[str, ...] = ("pooled", "new")

    def __init__(self, _number: int) -> None:
        self.happenings: list[Happening] = []
        self.simulated: SimNet | None = SimNet(seed=_SEED)
        self._net = net = self.simulated
        lost, other = net.node("b"), net.node("a")
        service = net.service("orders.shop.svc:8080", pods=[lost.pod(), other.pod()])
        self.url = service.url
        net.at(POWER_OFF, self._do, "node b loses power", lost.power_off)
        net.at(LEAVES, self._do, "endpoint leaves", service.remove, lost)

    def play(self, main: Main) -> None:
        """In an event loop in virtual time."""
        self._net.run(main)

    def elapsed(self) -> float:
        """Virtual seconds since the start."""
        return self._net.elapsed()

    def _do(self, what: str, fault: Callable[..., object], *args: object) -> None:
        self.happenings.append(Happening(self.elapsed(), what))
        fault(*args)

    def __enter__(self) -> SimStage:
        return self

    def __exit__(self, *exc: object) -> None:
        self._net.close()


def in_real(running: AbstractContextManager[object], main: Main) -> None:
    """Run `main()` while a stage on the real kernel runs."""
    with running:
        asyncio.run(main())


def enter_namespace() -> None:
    """Start this process's command line anew where labs are possible, if that is what it takes.

    Returns when it is not: labs are possible here, or not possible at all.
    """
    if KernelLab.missing() is None:
        return
    command = [sys.executable, *sys.orig_argv[1:]]
    wrapped = privileges.wrapped(command)
    if wrapped != command:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execvp(wrapped[0], wrapped)
