"""A client of plain sockets, so that the lab is judged by nothing that outlast is made of."""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Short enough for a quick test, long enough for a busy machine; a lab's round trip is 0.1 ms.
SILENCE = 0.3
PATIENCE = 10.0

GET = b"GET / HTTP/1.1\r\nhost: lab\r\n\r\n"


@contextlib.contextmanager
def connected(address: str, timeout: float = PATIENCE) -> Iterator[socket.socket]:
    """A connection to `host:port`."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout) as sock:
        yield sock


def ask(address: str, target: str = "/", timeout: float = PATIENCE) -> dict[str, Any]:
    """The pod's answer to one GET on a new connection."""
    status, _, body = request(address, "GET", target, timeout=timeout)
    assert status == 200
    return dict(json.loads(body))


def ask_on(sock: socket.socket, target: str = "/") -> dict[str, Any]:
    """The pod's answer to one GET on a connection that stands, or to an earlier one: answers that
    come together after a fault are read together."""
    sock.sendall(GET.replace(b"/", target.encode(), 1))
    body = sock.recv(65536).partition(b"\r\n\r\n")[2].decode()
    return dict(json.JSONDecoder().raw_decode(body)[0])


def request(
    address: str,
    method: str,
    target: str,
    body: bytes | None = None,
    *,
    timeout: float = PATIENCE,
    **headers: str,
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (names in lower case) and body of an answer, by the standard library."""
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, target, body, named)
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    finally:
        connection.close()


def outcome(address: str, timeout: float = SILENCE) -> str:
    """How one connect ended: `connected`, `silent`, or the name of the errno."""
    host, _, port = address.rpartition(":")
    with socket.socket() as sock:
        sock.settimeout(timeout)
        try:
            sock.connect((host, int(port)))
        except TimeoutError as error:
            return errno.errorcode[error.errno] if error.errno else "silent"
        except OSError as error:
            return errno.errorcode[error.errno or 0]
    return "connected"


def timed_outcome(address: str, timeout: float) -> tuple[str, float]:
    """The same, with the seconds it took."""
    start = time.monotonic()
    return outcome(address, timeout), time.monotonic() - start


def is_silent(sock: socket.socket) -> bool:
    """Whether nothing comes for a while, not even an end."""
    before = sock.gettimeout()
    sock.settimeout(SILENCE)
    try:
        sock.recv(1)
    except TimeoutError:
        return True
    finally:
        sock.settimeout(before)
    return False


def neighbours() -> dict[str, bool]:
    """The addresses this thread's node has asked for on its link, and whether they answered."""
    with open("/proc/thread-self/net/arp", encoding="ascii") as table:
        rows = [line.split() for line in list(table)[1:]]
    complete = 0x2  # ATF_COM, linux/if_arp.h
    return {row[0]: bool(int(row[2], 16) & complete) for row in rows}


def children(pid: int) -> set[int]:
    """The processes that a process has started."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        found |= {int(child) for child in (task / "children").read_text().split()}
    return found


def state(pid: int) -> str:
    """The letter of a process's state, proc_pid_stat(5): `T` is stopped."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
