"""Incident A for many programs at once: they share the nodes, the Services and one outage.

Two nodes, a server of each needed kind on both, a Service for each kind. The programs run until all
have made their calls; then one node loses power, and its endpoints leave when the outage ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from outlast.testing import KernelLab
from outlast.testing.node import Node
from outlast.testing.pod import Pod
from outlast.testing.service import Service
from tests.lab.legacy import ways
from tests.lab.legacy.met import CUT, Met, read
from tests.lab.legacy.rows import Row
from tests.lab.legacy.servers import KINDS, Server
from tests.lab.legacy.tied import tied

__all__ = ["Outage", "Program", "await_forwarder", "folder", "forwarder", "outlive", "started"]

Address: TypeAlias = tuple[str, int]


# Seconds; a worker silent for longer at the end is hung. Nobody cuts a bare program's connections.
BARE_PATIENCE, PATIENCE = 3.5, CUT + 0.5
_START_LIMIT = 60.0  # seconds for all programs together; each takes 0.3 to 1 s of a core
_END_LIMIT = 3.0
_FORWARDED = 20000  # the first local port of the forwarders


@dataclass(frozen=True, slots=True)
class Outage:
    """The course of an outage, seconds. `watched`: from the loss to the end of the run."""

    workers: int
    pause: float
    lasts: float
    watched: float
    quiet: float = 1.0  # calls before the loss
    fault: Callable[[Node], object] = Node.power_off


class Program:
    """One program under one way, running."""

    def __init__(
        self, name: str, row: Row, argv: Sequence[str], folder: Path, pods: str = ""
    ) -> None:
        self.name = name
        self.row = row
        self.said = folder / f"{name}.said".replace("/", "-")
        self.log = self.said.with_suffix(".log")
        with self.said.open("wb") as said, self.log.open("wb") as log:
            self._process = subprocess.Popen(
                tied(*argv),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=log,
                env={**ways.environment(folder), "PODS": pods},
                cwd=folder,
                start_new_session=True,
            )

    @property
    def ended(self) -> int | None:
        """The exit code of a program that has ended by itself."""
        return self._process.poll()

    def lines(self) -> int:
        """How many calls it has told of."""
        return self.said.read_bytes().count(b"\n")

    def complaint(self) -> str:
        """The end of its standard error."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-1500:]

    def close(self) -> None:
        """End it with all that it has started."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_LIMIT)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_END_LIMIT)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder that an unprivileged server can reach, which pytest's own are not."""
    made = Path(tempfile.mkdtemp(prefix="outlast-legacy-"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def started(lab: KernelLab, kinds: set[str], where: Path) -> Iterator[dict[str, Service]]:
    """A Service of each kind, on the nodes `lost` and `other`."""
    nodes = (lab.node("lost"), lab.node("other"))
    with contextlib.ExitStack() as stack:
        pods: dict[str, list[Pod]] = {}
        for kind in sorted(kinds):
            pods[kind] = [_pod(lab, node, kind, where, stack) for node in nodes]
        yield {
            kind: lab.service(f"{kind}.shop.svc:{made[0].port}", pods=made)
            for kind, made in pods.items()
        }


def _pod(lab: KernelLab, node: Node, kind: str, where: Path, stack: contextlib.ExitStack) -> Pod:
    if kind == "http":
        return node.pod()
    server = Server(lab, node, KINDS[kind], where)
    stack.callback(server.close)
    return server


def outlive(
    lab: KernelLab, chosen: Sequence[tuple[str, Row]], outage: Outage
) -> dict[str, Met | str]:
    """Run the chosen rows, each under its way, through one outage; what each met, by name.

    Of a program that does not come to its calls: what it said instead.
    """
    with folder() as where, contextlib.ExitStack() as stack:
        services = stack.enter_context(started(lab, {row.server for _, row in chosen}, where))
        stack.enter_context(lab.running())
        programs: list[Program] = []
        found: dict[str, Met | str] = {}
        local = _forwarders(chosen, services, where, stack)
        for way, row in chosen:
            address = local.get((way, row.name)) or _address(services[row.server])
            argv = ways.command(way, row, address, outage.workers, outage.pause)
            pods = ",".join(pod.address for pod in services[row.server].pods)
            programs.append(Program(f"{way}: {row.name}", row, argv, where, pods))
            stack.callback(programs[-1].close)
        found |= _without_calls(programs, outage)
        time.sleep(outage.quiet)
        lost = next(pod.node for service in services.values() for pod in service.pods)
        outage.fault(lost)
        loss = time.time()  # what began before it may have been answered before it
        time.sleep(outage.lasts)
        for service in services.values():
            service.remove(*(pod for pod in service.pods if pod.node is lost))
        time.sleep(max(0.0, loss + outage.watched - time.time()))
        end = time.time()
        for p in programs:
            if p.name not in found:
                patience = BARE_PATIENCE if p.name.startswith("bare:") else PATIENCE
                own = p.row.keepalive and patience == PATIENCE
                found[p.name] = read(p.name, p.row.new, p.said, loss, end, patience, own)
        return found


def _address(service: Service) -> Address:
    return service.host, service.port


def _forwarders(
    chosen: Sequence[tuple[str, Row]],
    services: Mapping[str, Service],
    where: Path,
    stack: contextlib.ExitStack,
) -> dict[tuple[str, str], Address]:
    """Forwarders for the rows that need one, each its own; where they listen."""
    wanted = [row for way, row in chosen if way == "forward"]
    local = [
        forwarder(number, _address(services[row.server]), where, stack)
        for number, row in enumerate(wanted)
    ]
    return {("forward", row.name): await_forwarder(f) for row, f in zip(wanted, local, strict=True)}


def forwarder(
    number: int, target: Address, where: Path, stack: contextlib.ExitStack
) -> tuple[Program, Address]:
    """Start a forwarder on the client node."""
    local = ("127.0.0.1", _FORWARDED + number)
    row = Row("forwarder", "", "new", "")
    program = Program(f"forwarder {number}", row, ways.forwarder(local, target), where)
    stack.callback(program.close)
    return program, local


def await_forwarder(started: tuple[Program, Address]) -> Address:
    """Where it listens, once it does. RuntimeError when it ends instead."""
    program, local = started
    until = time.monotonic() + _START_LIMIT
    while True:
        try:
            socket.create_connection(local, timeout=1.0).close()
            return local
        except OSError as error:
            if program.ended is not None or time.monotonic() > until:
                raise RuntimeError(f"no forwarder: {program.complaint()}") from error
            time.sleep(0.05)


def _without_calls(programs: Sequence[Program], outage: Outage) -> dict[str, str]:
    """Wait until each program has made a few calls; what those said that do not."""
    until = time.monotonic() + _START_LIMIT
    failed: dict[str, str] = {}
    waiting = list(programs)
    while waiting:
        for program in waiting:
            if program.ended is not None or time.monotonic() > until:
                failed[program.name] = (
                    f"{program.name}: ended with {program.ended}, after {program.lines()} calls:\n"
                    f"{program.complaint()}"
                )
        waiting = [
            program
            for program in waiting
            if program.name not in failed and program.lines() < outage.workers
        ]
        time.sleep(0.05)
    return failed
