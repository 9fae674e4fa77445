"""A client that opens a connection for each call, under `install()`; run by test_install.

python -m tests.lab.install_client WAY HOST PORT SECONDS: one line of JSON for each call, with its
seconds, its error if it had one, and whether the program's own dial was overtaken. WAY says how the
program waits: with one of the system's calls, or in a loop.

`names` looks a name up that has an address for each of HOST, and tries one after the other.
"""

from __future__ import annotations

import asyncio
import json
import select
import selectors
import socket
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

WAY = sys.argv[1]
if WAY == "gevent":
    import_module("gevent.monkey").patch_all()

import outlast  # noqa: E402  after the patch, as in a real program

HOSTS, PORT, SECONDS = sys.argv[2].split(","), int(sys.argv[3]), float(sys.argv[4])
PAUSE = 0.03  # seconds between two calls
PATIENCE = 5.0  # seconds for an answer
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
raced = 0


def ask(sock: socket.socket) -> None:
    """One request and its answer, on a connection that stands."""
    global raced  # noqa: PLW0603  a small program's count
    raced += outlast.report_of(sock) is not None
    sock.settimeout(PATIENCE)
    sock.sendall(REQUEST)
    answer = sock.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 200"), answer


def polled(wait: Callable[[int], object]) -> None:
    """A non-blocking connect that `wait` waits for."""
    with socket.socket() as sock:
        sock.setblocking(False)
        sock.connect_ex((HOSTS[0], PORT))
        wait(sock.fileno())
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, "connect")
        ask(sock)


def by_poll(number: int) -> None:
    """With poll(2)."""
    poller = select.poll()
    poller.register(number, select.POLLOUT)
    assert poller.poll(PATIENCE * 1000)


def by_selectors(number: int) -> None:
    """With the selectors module, on epoll."""
    with selectors.DefaultSelector() as selector:
        selector.register(number, selectors.EVENT_WRITE)
        assert selector.select(PATIENCE)


async def by_asyncio() -> None:
    """With a loop of its own."""
    with socket.socket() as sock:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (HOSTS[0], PORT))
        ask(sock)


async def by_trio() -> None:
    """With a loop of its own."""
    trio: Any = import_module("trio")
    with trio.socket.socket() as sock:
        await sock.connect((HOSTS[0], PORT))
        ask(socket.socket(fileno=sock.detach()))


def plainly() -> None:
    """Blocking, without a timeout; under gevent in a greenlet."""
    with socket.socket() as sock:
        sock.connect((HOSTS[0], PORT))
        ask(sock)


def names() -> None:
    """Look up, and try one address after the other."""
    for family, kind, protocol, _, address in socket.getaddrinfo("orders.shop.svc", PORT, type=1):
        with socket.socket(family, kind, protocol) as sock:
            try:
                sock.connect(address)
            except OSError:
                continue
            ask(sock)
            return
    raise OSError("no address has answered")


def looked_up(host: Any, port: Any, *args: Any, **more: Any) -> Any:
    """The resolver of this client, which the patch finds in its place."""
    kind = socket.SOCK_STREAM
    return [(socket.AF_INET, kind, 6, "", (address, port)) for address in HOSTS]


WAYS: dict[str, Callable[[], object]] = {
    "poll": lambda: polled(by_poll),
    "selectors": lambda: polled(by_selectors),
    "asyncio": lambda: asyncio.run(by_asyncio()),
    "trio": lambda: import_module("trio").run(by_trio),
    "blocking": plainly,
    "gevent": plainly,
    "names": names,
}


def main() -> None:
    """Call until the time is over."""
    if WAY == "names":
        setattr(socket, "getaddrinfo", looked_up)  # noqa: B010  for the type checker
    outlast.install()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        begun, before, error = time.monotonic(), raced, ""
        try:
            WAYS[WAY]()
        except OSError as failed:
            error = repr(failed)
        told = {"took": time.monotonic() - begun, "error": error, "raced": raced > before}
        print(json.dumps(told), flush=True)  # noqa: T201  its output
        time.sleep(PAUSE)


main()
