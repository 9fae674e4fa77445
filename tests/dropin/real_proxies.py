"""Real proxies before a raw origin: tinyproxy and proxy.py for HTTP, microsocks for SOCKS5.

Each is begun when it is first needed, at an address of the loopback that nobody else uses, once
for everybody and once for who knows the password; all end with the tests.
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.dropin.stage import BOUND, Handler, Stage

__all__ = ["KINDS", "RealProxyStage", "stop"]

USER, PASSWORD = "user", "word"
PLACES = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"


def tinyproxy(host: str, port: int, *, closed: bool) -> list[str]:
    told = [f"Port {port}", f"Listen {host}", "DisableViaHeader Yes", "LogLevel Critical"]
    told += [f"BasicAuth {USER} {PASSWORD}"] if closed else []
    conf = _file("\n".join([*told, ""]))
    return ["tinyproxy", "-d", "-c", str(conf)]


def microsocks(host: str, port: int, *, closed: bool) -> list[str]:
    return ["microsocks", "-i", host, "-p", str(port), *(["-u", USER, "-P", PASSWORD] * closed)]


def proxy_py(host: str, port: int, *, closed: bool) -> list[str]:
    place = ["--hostname", host, "--port", str(port), "--log-level", "CRITICAL"]
    few = ["--num-workers", "1", "--num-acceptors", "1", "--threadless"]
    known = ["--basic-auth", f"{USER}:{PASSWORD}"] * closed
    return [sys.executable, "-m", "proxy", *place, *few, *known]


# What begins a proxy, and the scheme of its URL.
KINDS: dict[str, tuple[Callable[..., list[str]], str]] = {
    "tinyproxy": (tinyproxy, "http"),
    "proxy_py": (proxy_py, "http"),
    "microsocks": (microsocks, "socks5"),
}
_files: list[Path] = []
_running: list[subprocess.Popen[bytes]] = []


def _file(text: str) -> Path:
    with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as made:
        made.write(text)
    _files.append(Path(made.name))
    return Path(made.name)


@functools.cache
def _begun(kind: str, *, closed: bool) -> str:
    """The authority of a proxy that runs. `closed`: to strangers."""
    host = f"127.77.{os.getpid() % 251 + 1}.{len(_running) + 1}"
    with socket.socket() as free:
        free.bind((host, 0))
        port: int = free.getsockname()[1]
    command = KINDS[kind][0](host, port, closed=closed)
    program = shutil.which(command[0], path=PLACES)
    if program is None:
        pytest.skip(f"{kind} is not installed (Debian's package: {kind})")
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", program, *command[1:]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _running.append(process)
    until = time.monotonic() + BOUND
    while not _listens(host, port):
        assert process.poll() is None, f"{kind} does not run: {command}"
        assert time.monotonic() < until, f"{kind} does not listen"
    return f"{host}:{port}"


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 1.0).close()
    except OSError:
        return False
    return True


class RealProxyStage(Stage):
    """An origin, and the proxy's URL. `user`: "name:password", or empty."""

    def __init__(
        self,
        kind: str,
        *handlers: Handler,
        user: str = "",
        closed: bool = False,
        context: ssl.SSLContext | None = None,
    ) -> None:
        authority = _begun(kind, closed=closed)
        super().__init__(*handlers, context=context)
        self.proxy = f"{KINDS[kind][1]}://{user}{'@' * bool(user)}{authority}"


def stop() -> None:
    """End them all."""
    for process in _running:
        process.terminate()
    for process in _running:
        process.wait(BOUND)
    for path in _files:
        path.unlink()
    _running.clear()
    _files.clear()
    _begun.cache_clear()
