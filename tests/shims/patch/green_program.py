"""A program on gevent, run by test_gevent in a process of its own: says what it met, line by line.

Its argument says when gevent patches the standard library: before or after `install()`.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import Any

WHEN = sys.argv[1]
if WHEN == "before":
    import_module("gevent.monkey").patch_all()

from outlast.net.kernel import KernelStream  # noqa: E402  after the patch, as in a real program
from outlast.policy import Policy  # noqa: E402
from outlast.shims.patch import install  # noqa: E402
from tests.shims.patch.conftest import Silent  # noqa: E402

silent = Silent()
installed = install(only=["127.0.0.1"], policy=Policy(attempt_delay=0.05, connect_timeout=5.0))

if WHEN == "after":
    import_module("gevent.monkey").patch_all()

import outlast  # noqa: E402

gevent: Any = import_module("gevent")

TICK = 0.005  # seconds
dials: list[Any] = []
real = KernelStream.dial


def dial(*args: Any) -> KernelStream:
    """The third dial is the first that is answered, so that waits lie before it."""
    dials.append(args)
    if len(dials) == 3:
        silent.open()
    return real(*args)


setattr(KernelStream, "dial", dial)  # noqa: B010  for the type checker
gaps: list[float] = []


def tick() -> None:
    """Notes for how long other greenlets do not run."""
    last = time.monotonic()
    while True:
        gevent.sleep(TICK)
        now = time.monotonic()
        gaps.append(now - last)
        last = now


def connect() -> None:
    """What a library does."""
    import socket

    with socket.socket() as sock:
        number = sock.fileno()
        sock.connect(silent.address)
        report = str(outlast.report_of(sock))
        same = (sock.fileno() == number, sock.gettimeout() is None)
        print(type(sock).__module__, *same, "lost the race" in report)  # noqa: T201  its output
        sock.sendall(b"hello")
        print(sock.recv(16).decode())  # noqa: T201  its output


def serve() -> None:
    """The other side: first the connection of `connect`."""
    while not dials or len(dials) < 3:
        gevent.sleep(TICK)
    silent.listener.setblocking(False)
    far = None
    while far is None:
        try:
            far, _ = silent.listener.accept()
        except BlockingIOError:
            gevent.sleep(TICK)
    with far:
        far.settimeout(5.0)
        far.sendall(far.recv(16).upper())


ticking = gevent.spawn(tick)
done = gevent.joinall([gevent.spawn(connect), gevent.spawn(serve)], timeout=8.0, raise_error=True)
ticking.kill()
print(len(done), max(gaps) < 0.1, *installed.notes)  # noqa: T201  its output
