"""What every test of `outlast run` needs: the command, a server, and a skip that says what is
missing."""

from __future__ import annotations

import contextlib
import functools
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.shims.run.command import PATIENCE, RUN

# What is tested here loads on Linux only.
collect_ignore_glob = [] if sys.platform.startswith("linux") else ["test_*.py"]


@functools.cache
def missing() -> str:
    """Why nothing can be supervised here; "" if it can."""
    if not sys.platform.startswith("linux"):
        return "outlast run needs Linux"
    done = subprocess.run(
        [*RUN, "--", "true"], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return done.stderr.strip() if done.returncode == 125 else ""


@pytest.fixture
def supervised() -> None:
    """Skip where the kernel or a container refuses."""
    if why := missing():
        pytest.skip(why)


@pytest.fixture
def port() -> Iterator[int]:
    """A server on loopback, of both families, that answers any request and closes."""
    with socket.socket(socket.AF_INET6) as server:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("::", 0))
        server.listen(128)
        thread = threading.Thread(target=_serve, args=(server,), daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


def _serve(server: socket.socket) -> None:
    while True:
        try:
            sock, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(sock,), daemon=True).start()


def _answer(sock: socket.socket) -> None:
    with sock, contextlib.suppress(OSError):
        sock.settimeout(PATIENCE)
        if sock.recv(4096):
            sock.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")
