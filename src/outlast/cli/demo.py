"""`outlast demo`: incident A, live, from the choice of a place to the picture.

Plain httpx and outlast work under the same load, in this process, while one of two nodes loses
power; 40 s later its endpoint leaves. Every request is recorded. Where no lab can be had it all
happens in virtual time, and says so. Refuses to pass off one for the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from outlast.cli import picture, screen
from outlast.cli.load import PAUSE, WORKERS, Load
from outlast.cli.loopback import LoopbackStage, rehearse
from outlast.cli.record import Run
from outlast.cli.stage import (
    LEAVES,
    POWER_OFF,
    KernelStage,
    SimStage,
    Stage,
    enter_namespace,
)
from outlast.testing import KernelLab

__all__ = ["CannotRun", "DemoSettings", "run_demo"]

_VIRTUAL = """\
This runs on a simulated network instead, in virtual time: nothing is sent, the clients are the real
ones, and the run takes a few seconds. Its TCP is a model, held against the kernel row by row."""

_NEAREST = """\
This runs on loopback, with the nearest fault there: two listeners share one port as pods share a
Service, and one of them stops accepting. A new connection that falls to it is never answered, as
with a dead node. What loopback cannot show is a dead node on a connection that stands: its kernel
acknowledges everything (a frozen program does the same), so pooled connections are left out."""


class CannotRun(Exception):
    """The demo is not possible here as asked; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What the user asked for."""

    seconds: int
    connections: str  # "both", "pooled" or "new"
    network: str  # "auto", "kernel", "simulated" or "loopback"
    output: Path


def run_demo(settings: DemoSettings, console: Console) -> None:
    """Run it, show it, draw it. Raises CannotRun."""
    with ExitStack() as stack:
        make = _stage_maker(settings, console)
        try:
            stages = {
                library: stack.enter_context(make(number))
                for number, library in enumerate(("httpx", "outlast"))
            }
        except RuntimeError as error:
            raise CannotRun(str(error)) from error
        run = _run(settings, stages, console)
    screen.account(console, run)
    settings.output.write_text(picture.draw(run), encoding="utf-8")
    console.print()
    console.print(Text(f"every request's latency over time: {settings.output}"), soft_wrap=True)


def _stage_maker(settings: DemoSettings, console: Console) -> Callable[[int], Stage]:
    """The kernel where possible, else a simulation; the words that go with it are printed."""
    if settings.network == "loopback":
        return _loopback(settings, console)
    if settings.network != "simulated":
        enter_namespace()
        reason = KernelLab.missing()
        if reason is None:
            return KernelStage
        if settings.network == "kernel":
            raise CannotRun(f"no kernel lab is possible here: {reason}")
        console.print(Text(f"No kernel lab is possible here: {reason}."), soft_wrap=True)
    console.print(Text(_VIRTUAL), soft_wrap=True)
    console.print()
    return SimStage


def _loopback(settings: DemoSettings, console: Console) -> Callable[[int], Stage]:
    """The nearest fault on this machine's kernel without a lab."""
    if settings.connections == "pooled":
        raise CannotRun(
            "pooled connections cannot be shown on loopback, whose kernel acknowledges everything;"
            " right: --connections new, or another network"
        )
    try:
        rehearse()
    except RuntimeError as error:
        raise CannotRun(str(error)) from error
    console.print(Text(_NEAREST), soft_wrap=True)
    console.print()
    return LoopbackStage


def _run(settings: DemoSettings, stages: Mapping[str, Stage], console: Console) -> Run:
    first = stages["httpx"]
    ways = [way for way in first.connections if settings.connections in ("both", way)]
    loads = [Load(library, ways, stage, settings.seconds) for library, stage in stages.items()]
    clients = [load.clients[row] for row in range(len(ways)) for load in loads]
    words = (
        f"httpx and outlast without any setting, {WORKERS} workers for each client,"
        f" GET, {PAUSE * 1e3:.0f} ms pause; two pods for each library"
    )
    _introduce(console, settings, first.where, words)
    with ThreadPoolExecutor(len(loads), thread_name_prefix="outlast-demo-load") as threads:
        work = [threads.submit(load.run) for load in loads]
        progress = screen.Progress(console, clients, first.happenings, settings.seconds)
        try:
            progress.follow(work, first.elapsed)
        finally:
            for load in loads:
                load.stop()
    # A load that failed has had the other one stopped: its own failure comes first.
    for done in sorted(work, key=lambda one: isinstance(one.exception(), asyncio.CancelledError)):
        done.result()
    return Run(settings.seconds, tuple(clients), tuple(first.happenings), first.where, words)


def _introduce(console: Console, settings: DemoSettings, where: str, load: str) -> None:
    seconds = settings.seconds
    leaves = f"at {LEAVES:.0f} s the control plane takes the endpoint out; "
    what = (
        f"at {POWER_OFF:.0f} s one of two pods falls silent, and nobody is told; "
        f"{leaves if seconds > LEAVES else ''}the run ends at {seconds} s"
    )
    grid = Table.grid(padding=(0, 2))
    for label, text in (("where", where), ("load", load), ("what", what)):
        grid.add_row(Text(label, style="dim"), Text(text))
    console.print(Text("A node dies behind a Service, live", style="bold"))
    console.print(grid)
    console.print()
