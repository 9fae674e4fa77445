"""A real server: nginx on loopback, told what to do by `nginx_conf`, and what it has logged.

The listeners are made here and handed down, so that no port is taken meanwhile and no connection
comes too early. Its journal is whole once it holds no connection but the one that asks for their
number. It does not outlive the tests, whatever becomes of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.dropin.authority import authority, server_pem
from tests.dropin.nginx_conf import SERVERS, nginx_conf
from tests.dropin.stage import BOUND, Handler, Line, Stage

__all__ = ["MISSING", "Nginx", "NginxStage", "its_own", "shared", "the_shared"]

PLACES = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"
PROGRAM = shutil.which("nginx", path=PLACES)
MISSING = "" if PROGRAM else "nginx is not installed (Debian's package: nginx)"
HELLO = b"hello\n"


class Nginx:
    """nginx at work. `urls`: of its servers, by their names in `SERVERS`."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="nginx-"))
        listeners = {name: _listener() for name in SERVERS}
        ports = {name: sock.getsockname()[1] for name, sock in listeners.items()}
        self.urls = {
            name: f"{'https' if kind else 'http'}://127.0.0.1:{ports[name]}"
            for name, kind in SERVERS.items()
        }
        self._furnish()
        (self.home / "nginx.conf").write_text(nginx_conf(self.home, ports), encoding="utf-8")
        self._read = 0
        self._lost = 0  # connections that nginx counts for ever: their worker was killed
        self._process = self._start(listeners)

    def _furnish(self) -> None:
        files = self.home / "files"
        files.mkdir()
        (files / "hello.txt").write_bytes(HELLO)
        (files / "empty.txt").write_bytes(b"")
        (files / "large.txt").write_bytes(bytes(range(256)) * 4096 * 3)
        (files / "folder").mkdir()
        for path in files.iterdir():
            os.utime(path, (1_000_000_000, 1_000_000_000))
        (self.home / "server.pem").write_bytes(server_pem())
        authority().cert_pem.write_to_path(self.home / "authority.pem")

    def _start(self, listeners: dict[str, socket.socket]) -> subprocess.Popen[bytes]:
        """nginx takes over listeners that its environment tells of, as at its own upgrade."""
        numbers = [sock.fileno() for sock in listeners.values()]
        environment = {"NGINX": "".join(f"{number};" for number in numbers)}
        command = [str(PROGRAM), "-p", str(self.home), "-c", str(self.home / "nginx.conf")]
        with (self.home / "start.log").open("wb") as told:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *command],
                env={"PATH": PLACES, **environment},
                pass_fds=numbers,
                stderr=told,
            )
        for sock in listeners.values():
            sock.close()
        self.until(lambda: process.poll() is not None or (self.home / "control.sock").exists())
        assert process.poll() is None, (self.home / "start.log").read_text()
        return process

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(BOUND)
        shutil.rmtree(self.home)

    # -- what it says ----------------------------------------------------------------------

    def ask(self, path: str) -> str:
        """What it says of itself."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(BOUND)
            sock.connect(str(self.home / "control.sock"))
            sock.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            answer = b"".join(iter(lambda: sock.recv(65_536), b""))
        return answer.partition(b"\r\n\r\n")[2].decode()

    def worker(self) -> int:
        """The worker's process; 0 if it is just ending."""
        try:
            return int(self.ask("/worker") or 0)
        except ConnectionError:
            return 0

    def until_alone(self) -> None:
        """Wait until no client has a connection any more."""
        self.until(lambda: self._open() == 1 + self._lost)

    def _open(self) -> int:
        """How many connections there are, this one among them."""
        return int(self.ask("/open").partition("\n")[0].rpartition(": ")[2])

    def until(self, there: Callable[[], bool]) -> None:
        """Ask again and again, for a bounded time."""
        until = time.monotonic() + BOUND
        while not there():
            assert time.monotonic() < until, "nginx does not do what it is waited for"

    def reload(self) -> int:
        """A new worker takes over; the old one, returned, finishes what it has begun."""
        old = self.worker()
        self._process.send_signal(signal.SIGHUP)
        self.until(lambda: self.worker() not in (0, old))
        return old

    def until_gone(self, worker: int) -> None:
        """Wait for the end of an old worker."""
        self.until(lambda: not Path(f"/proc/{worker}").exists())

    def kill_worker(self) -> None:
        """The worker dies at once; another one takes over."""
        old = self.worker()
        self._lost = self._open() - 1
        os.kill(old, signal.SIGKILL)
        self.until(lambda: self.worker() not in (0, old))

    def lines(self) -> list[Line]:
        """What it has logged since it was asked last: a line for each connection."""
        self.until_alone()
        found: dict[str, Line] = {}
        with (self.home / "access.log").open("rb") as log:
            log.seek(self._read)
            for each in log:
                connection, request, length, *told = json.loads(each)
                line = found.setdefault(connection, Line())
                line.requests.append(request.rpartition(" ")[0])
                line.raw += length.encode()
                line.said.append(f"{request} {told}")
            self._read = log.tell()
        return [found[connection] for connection in sorted(found, key=int)]


class NginxStage(Stage):
    """A server of an nginx before a raw one: `handlers` are what nginx has upstream."""

    def __init__(self, nginx: Nginx, server: str, *handlers: Handler) -> None:
        super().__init__(*handlers, host=str(nginx.home / "upstream.sock"))
        self.nginx = nginx
        self.url = nginx.urls[server]
        self.authority = self.url.partition("://")[2]

    def end(self) -> list[Line]:
        """See `Stage.end`; what nginx was asked, then what it has asked its upstream."""
        self.act.gate.set()
        lines = self.nginx.lines()
        return [*lines, *super().end()]


def _listener() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    return listener


_shared: list[Nginx] = []


def the_shared() -> Nginx:
    """The nginx that most cases share; skips the test where there is none."""
    if MISSING:
        pytest.skip(MISSING)
    return _shared[0]


@contextlib.contextmanager
def its_own(server: str, *handlers: Handler) -> Iterator[NginxStage]:
    """A stage with an nginx of its own, to be reloaded and broken."""
    if MISSING:
        pytest.skip(MISSING)
    nginx = Nginx()
    try:
        stage = NginxStage(nginx, server, *handlers)
        with stage:
            yield stage
    finally:
        nginx.stop()


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """The nginx that most cases share, for the time of a test session."""
    if not MISSING:
        _shared.append(Nginx())
    try:
        yield
    finally:
        if _shared:
            _shared.pop().stop()
