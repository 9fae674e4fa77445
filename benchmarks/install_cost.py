"""What `outlast.install()` adds to one connect on loopback: python -m benchmarks.install_cost

Each way of connecting is measured in turns of a hundred connects, plain and patched one after the
other in one process, so that what slows the machine down slows both. Told are the medians, the
median of the paired ratios and of the paired differences, and the difference of the two quickest
turns, which a busy machine blurs least. The bound is 20 microseconds.

It is the processor's time of the whole process, background thread and kernel included: on loopback
nobody waits for anything else, and what others do on the machine counts for less.

`out of scope`: the patch is there and the destination none of its business. The far side accepts
and closes in the same thread, which is in every figure. Numbers of a busy machine are too high.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from benchmarks.machine import commit, machine
from outlast.shims.patch import install, uninstall

Connect: TypeAlias = Callable[[socket.socket], object]

TURN = 100  # connects
TURNS = 60
WARM = 40  # connects before each turn: the first to a target are all measured
BOUND = 20.0  # microseconds
SCOPES = {"patched": ["127.0.0.1", "localhost"], "out of scope": ["10.0.0.0/8"]}


def blocking(listener: socket.socket) -> None:
    """As http.client's sockets without a time-out."""
    with socket.socket() as sock:
        sock.connect(listener.getsockname())


def with_timeout(listener: socket.socket) -> None:
    """As most libraries have one."""
    with socket.socket() as sock:
        sock.settimeout(5.0)
        sock.connect(listener.getsockname())


def by_function(listener: socket.socket) -> None:
    """`socket.create_connection` to an address."""
    socket.create_connection(listener.getsockname()).close()


def by_name(listener: socket.socket) -> None:
    """The same to a name in /etc/hosts."""
    socket.create_connection(("localhost", listener.getsockname()[1])).close()


def polling(listener: socket.socket) -> None:
    """A non-blocking socket, and poll."""
    with socket.socket() as sock:
        sock.setblocking(False)
        sock.connect_ex(listener.getsockname())
        poller = select.poll()
        poller.register(sock, select.POLLOUT)
        poller.poll()
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def in_a_loop(listener: socket.socket) -> None:
    """asyncio's `sock_connect`; the loop is there already."""

    async def main() -> None:
        with socket.socket() as sock:
            sock.setblocking(False)
            await _loop.sock_connect(sock, listener.getsockname())

    _loop.run_until_complete(main())


_loop = asyncio.new_event_loop()
WAYS: dict[str, Connect] = {
    "connect, blocking": blocking,
    "connect, with a time-out": with_timeout,
    "create_connection, address": by_function,
    "create_connection, name": by_name,
    "connect_ex and poll": polling,
    "asyncio sock_connect": in_a_loop,
}


def turn(connect: Connect, listener: socket.socket) -> float:
    """Microseconds for one connect and its close, on either side."""
    begun = 0.0
    for number in range(WARM + TURN):
        if number == WARM:
            begun = time.process_time()
        connect(listener)
        listener.accept()[0].close()
    return (time.process_time() - begun) / TURN * 1e6


@contextlib.contextmanager
def put(only: list[str]) -> Iterator[None]:
    """The patch."""
    with install(only=only):
        yield


def measure(connect: Connect, only: list[str], listener: socket.socket) -> dict[str, float]:
    """Medians, and those of the pairs."""
    pairs = []
    turn(connect, listener)
    for number in range(TURNS):
        if number % 2:
            plain = turn(connect, listener)
        with put(only):
            patched = turn(connect, listener)
        if not number % 2:
            plain = turn(connect, listener)
        pairs.append((plain, patched))
    return {
        "plain": statistics.median(plain for plain, _ in pairs),
        "patched": statistics.median(patched for _, patched in pairs),
        "ratio": statistics.median(patched / plain for plain, patched in pairs),
        "added": statistics.median(patched - plain for plain, patched in pairs),
        "least": min(patched for _, patched in pairs) - min(plain for plain, _ in pairs),
    }


def main(argv: list[str]) -> int:
    """Print a table; 1 if the bound does not hold."""
    if argv:
        sys.stderr.write("usage: python -m benchmarks.install_cost\n")
        return 2
    print(machine(), commit())
    head = ("plain us", "patched us", "ratio", "added us", "of least")
    print(f"{'':40}" + "".join(f"{word:>12}" for word in head))
    broken: list[Any] = []
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        for scope, only in SCOPES.items():
            for name, connect in WAYS.items():
                found = measure(connect, only, listener)
                figures = "".join(f"{value:12.2f}" for value in found.values())
                print(f"{name + ', ' + scope:40}{figures}", flush=True)
                if found["added"] > BOUND:
                    broken.append(name)
    uninstall()
    _loop.close()
    print(f"bound of {BOUND:g} us: " + ("held" if not broken else f"broken by {broken}"))
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
