"""Real servers in the place of pods: Redis, PostgreSQL, MariaDB, gRPC, each a process on its node.

A server listens at its node's own address, so that power off takes it away as it takes a pod. Each
has a folder of its own, runs as an unprivileged user and writes nothing to stay: no fsync, no log
that outlives the test. Both of a Service have the same data and know nothing of each other.

Refuses what is not installed: `missing` says the Debian package or the Python package that lacks.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from outlast.testing import KernelLab
from outlast.testing.namespaces import search_path
from outlast.testing.node import Node
from outlast.testing.pod import Pod
from tests.lab.legacy.tied import NOBODY, machine_root, tied

__all__ = ["KINDS", "Kind", "Server"]

ANSWER = 7  # what every server says when it is asked for the stock
_START_LIMIT = 20.0  # seconds; the slowest, PostgreSQL, takes 0.3 s on an idle machine
_END_LIMIT = 5.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of server. `start` prepares a folder and returns the command line for a host."""

    name: str
    port: int
    missing: Callable[[], str | None]
    start: Callable[[Path, str], list[str]]
    ending: int = signal.SIGTERM
    greet: bytes = b""  # sent once to each, for the data
    user: str | None = NOBODY


class Server(Pod):
    """One server on one node; a Service takes it as a pod."""

    def __init__(self, lab: KernelLab, node: Node, kind: Kind, folder: Path) -> None:
        super().__init__(node, f"{node.name}-{kind.name}", node.host, kind.port, None, None)
        self._lab = lab
        self._kind = kind
        self._log = folder / f"{self.name}.log"
        own = folder / self.name
        own.mkdir()
        _give_away(own)
        command = kind.start(own, node.host)
        self._log.touch()
        _give_away(self._log)
        self._program = node.spawn(tied(*command, log=self._log, user=kind.user))

    @property
    def running(self) -> bool:
        """Whether the server's process lives."""
        return self._program.poll() is None

    def wait_ready(self) -> None:
        """Wait until it accepts connections. RuntimeError, with its log, when it does not."""
        until = time.monotonic() + _START_LIMIT
        where = (self.host, self.port)
        while not self._lab.hand.do(self.node.space, _answers, where, self._kind.greet):
            if time.monotonic() > until or not self.running:
                told = self._log.read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"{self.name} did not start:\n{told[-2000:]}")
            time.sleep(0.02)

    def close(self) -> None:
        """End it: asked first, then for good."""
        program = self._program
        if program.poll() is None:
            program.send_signal(self._kind.ending)
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(_END_LIMIT)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait(_END_LIMIT)
        for pipe in (program.stdin, program.stdout):
            if pipe is not None:
                pipe.close()


def _answers(where: tuple[str, int], greet: bytes) -> bool:
    try:
        with socket.create_connection(where, timeout=0.2) as sock:
            if greet:
                sock.sendall(greet)
                return sock.recv(100).startswith(b"+")
            return True
    except OSError:
        return False


def _give_away(path: Path) -> None:
    """To the unprivileged user; in a user namespace the folder is that user's already."""
    if machine_root():
        who = pwd.getpwnam(NOBODY)
        os.chown(path, who.pw_uid, who.pw_gid)


def _program(name: str, folders: Sequence[str] = ()) -> str | None:
    return shutil.which(name, path=":".join([*folders, search_path()]))


def _needs(package: str, *programs: str, folders: Sequence[str] = ()) -> str | None:
    for name in programs:
        if _program(name, folders) is None:
            return f"the program {name} is missing (Debian: {package})"
    return None


# -- Redis -----------------------------------------------------------------------------------


def _redis(folder: Path, host: str) -> list[str]:
    options = {
        "bind": host,
        "port": "6379",
        "dir": str(folder),
        "save": "",
        "appendonly": "no",
        "protected-mode": "no",
        "databases": "1",
        "daemonize": "no",
    }
    said = [word for name, value in options.items() for word in (f"--{name}", value)]
    return [_program("redis-server") or "redis-server", *said]


# -- PostgreSQL ------------------------------------------------------------------------------


def _postgres_folders() -> list[str]:
    """Where Debian puts the server's programs, the newest version first."""
    found = Path("/usr/lib/postgresql").glob("*/bin")
    return [str(path) for path in sorted(found, key=lambda p: float(p.parent.name), reverse=True)]


def _postgres(folder: Path, host: str) -> list[str]:
    data = folder / "data"
    shutil.copytree(_cluster(folder.parent), data)
    for path in (data, *data.rglob("*")):
        _give_away(path)
    data.chmod(0o700)
    options = {
        "listen_addresses": host,
        "port": "5432",
        "unix_socket_directories": "",
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "max_connections": "200",
        "shared_buffers": "8MB",
        "autovacuum": "off",
    }
    said = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    return [_program("postgres", _postgres_folders()) or "postgres", "-D", str(data), *said]


def _cluster(folder: Path) -> Path:
    """The data of both: made once a test, copied."""
    made = folder / "cluster"
    if made.exists():
        return made
    made.mkdir()
    _give_away(made)
    _as_nobody(
        *("initdb", "-D", str(made), "-U", "postgres", "-A", "trust", "--no-sync"),
        *("--locale=C", "-E", "UTF8", "--no-instructions"),
    )
    with (made / "pg_hba.conf").open("a", encoding="ascii") as rules:
        rules.write("host all all 10.244.0.0/16 trust\n")
    _as_nobody(
        *("postgres", "--single", "-D", str(made), "-c", "fsync=off", "postgres"),
        said=f"create table stock (id int primary key, count int)\n{_INSERT}\n",
    )
    return made


_INSERT = f"insert into stock values (1, {ANSWER})"


def _as_nobody(program: str, *rest: str, said: str = "") -> None:
    path = _program(program, _postgres_folders()) or program
    done = subprocess.run(
        tied(path, *rest, user=NOBODY),
        input=said,
        capture_output=True,
        text=True,
        timeout=60.0,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{program} ended with {done.returncode}: {done.stderr[-2000:]}")


# -- MariaDB ---------------------------------------------------------------------------------


def _mariadb(folder: Path, host: str) -> list[str]:
    """Without InnoDB and without accounts an empty folder is a server's whole data."""
    return [
        _program("mariadbd") or "mariadbd",
        "--no-defaults",
        f"--datadir={folder}",
        f"--aria-log-dir-path={folder}",
        f"--bind-address={host}",
        "--port=3306",
        f"--socket={folder}/socket",
        f"--pid-file={folder}/pid",
        *("--skip-grant-tables", "--skip-networking=0", "--skip-name-resolve", "--skip-log-bin"),
        *("--innodb=OFF", "--default-storage-engine=MyISAM", "--performance-schema=off"),
    ]


# -- gRPC ------------------------------------------------------------------------------------


def _grpc_missing() -> str | None:
    if importlib.util.find_spec("grpc") is None:
        return "the Python package grpcio is not installed"
    return None


def _grpc(_folder: Path, host: str) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("grpc_server.py")), f"{host}:50051"]


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "redis",
            6379,
            functools.partial(_needs, "redis-server", "redis-server"),
            _redis,
            greet=f"SET stock {ANSWER}\r\n".encode(),
        ),
        Kind(
            "postgres",
            5432,
            lambda: _needs("postgresql", "initdb", "postgres", folders=_postgres_folders()),
            _postgres,
            ending=signal.SIGQUIT,  # "immediate shutdown"
        ),
        Kind(
            "mariadb", 3306, functools.partial(_needs, "mariadb-server-core", "mariadbd"), _mariadb
        ),
        Kind("grpc", 50051, _grpc_missing, _grpc, user=None),
    )
}
