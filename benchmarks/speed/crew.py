"""The processes of a run: one server, and one process for each client, which stays warm.

Server and clients have a core each where the machine lets processes be pinned and has two; only
one client works at a time. A client that does not answer in time is ended and started anew, and
what it was measuring counts as failed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.speed.plan import Cell, Client, Memory

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 180.0  # seconds for one job


class JobFailed(Exception):
    """A client could not do what it was told; the text says why."""


def cores() -> tuple[str, str]:
    """The server's core and the clients'; empty where nothing can be pinned."""
    if not hasattr(os, "sched_getaffinity"):
        return "", ""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return "", ""
    return str(allowed[0]), str(allowed[-1])


class Talker:
    """A process of this package that reads and writes lines of JSON."""

    def __init__(self, python: str, module: str, *arguments: str) -> None:
        command = [python, "-m", f"benchmarks.speed.{module}", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment
        )
        self._rest = b""

    def ask(self, what: object, patience: float = PATIENCE) -> dict[str, Any]:
        """Say a line, and give back the answer. Raises JobFailed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise JobFailed(f"the process has gone: {error}") from error
        return self.hear(patience)

    def hear(self, patience: float = PATIENCE) -> dict[str, Any]:
        """The next line. Raises JobFailed."""
        assert self._process.stdout is not None
        while b"\n" not in self._rest:
            number = self._process.stdout.fileno()
            if not select.select([number], [], [], patience)[0]:
                raise JobFailed(f"no answer within {patience:g} s")
            data = os.read(number, 65_536)
            if not data:
                raise JobFailed("the process has ended")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def close(self) -> None:
        """End the process: it leaves when its input ends, or is killed."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass(frozen=True, slots=True)
class Found:
    """What one round has found. `answers` in `seconds` for `cpu` seconds of the client's CPU and
    `served` of the server's, which has accepted `opened` connections meanwhile."""

    answers: int
    seconds: float
    cpu: float
    served: float = 0.0
    opened: int = 0

    @classmethod
    def all_of(cls, windows: Iterable[Found]) -> Found:
        """Several windows as one."""
        return cls(*map(sum, zip(*map(dataclasses.astuple, windows), strict=True)))

    @property
    def cost(self) -> float:
        """CPU seconds for each answer."""
        return self.cpu / self.answers

    @property
    def rate(self) -> float:
        """Answers in a second."""
        return self.answers / self.seconds


class Crew:
    """All processes of a run; a context manager. `alone`: the Python of clients that need an
    environment of their own."""

    def __init__(self, certificate: Path, authority: Path, *, alone: str, pin: bool) -> None:
        self._authority = str(authority)
        self._alone = alone
        self._server_core, self._client_core = cores() if pin else ("", "")
        self._server = Talker(sys.executable, "server", str(certificate), self._server_core)
        self._ports: Mapping[str, int] = self._server.hear()
        self._workers: dict[str, Talker] = {}

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for talker in (*self._workers.values(), self._server):
            talker.close()

    @property
    def pinned(self) -> bool:
        """Whether server and clients have a core each."""
        return bool(self._client_core)

    def measure(self, client: Client, cell: Cell, seconds: float, least: int) -> Found:
        """One round. Raises JobFailed."""
        job = {"cell": cell.dump(), "seconds": seconds, "least": least, **self._where(cell)}
        before = self._server.ask({})
        found = self._do(self._worker(client), client, job)
        after = self._server.ask({})
        return Found(
            int(found["answers"]),
            found["seconds"],
            found["cpu"],
            after["cpu"] - before["cpu"],
            after["accepted"] - before["accepted"],
        )

    def weigh(self, client: Client, memory: Memory) -> float:
        """Bytes for each idle connection, in a process of its own. Raises JobFailed."""
        with self._fresh(client) as worker:
            where = self._where(Cell(memory.sync, tls=memory.tls))
            job = {"memory": memory.dump(), **where}
            return float(self._do(worker, client, job)["bytes"])

    def _where(self, cell: Cell) -> dict[str, str]:
        scheme = "https" if cell.tls else "http"
        url = f"{scheme}://localhost:{self._ports[cell.port]}/"
        return {"url": url, "authority": self._authority}

    def _worker(self, client: Client) -> Talker:
        worker = self._workers.get(client.name)
        if worker is None:
            worker = self._workers[client.name] = self._start(client)
        return worker

    def _start(self, client: Client) -> Talker:
        python = self._alone if client.alone else sys.executable
        return Talker(python, "worker", client.name, self._client_core)

    @contextlib.contextmanager
    def _fresh(self, client: Client) -> Iterator[Talker]:
        worker = self._start(client)
        try:
            yield worker
        finally:
            worker.close()

    def _do(self, worker: Talker, client: Client, job: object) -> dict[str, Any]:
        try:
            found = worker.ask(job)
        except JobFailed:
            worker.close()
            self._workers.pop(client.name, None)
            raise
        if "error" in found:
            raise JobFailed(found["error"])
        return found
