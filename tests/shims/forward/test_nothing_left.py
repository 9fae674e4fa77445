"""Whatever way connections end, in whatever order: no descriptor, pipe or entry is left of them."""

from __future__ import annotations

import contextlib
import os
import random
import socket
from typing import Any

import pytest

from outlast.net.moving import abort
from outlast.shims.forward import Forwarder
from tests.shims.forward.ends import accepted, connect, read, target_of, until, upstream

CONNECTIONS = 150


def feed(sock: socket.socket, size: int) -> None:
    """Send what is taken at once."""
    sock.setblocking(False)
    with contextlib.suppress(OSError):
        sock.send(bytes(size))


def drain(sock: socket.socket) -> None:
    """Read what is there."""
    sock.setblocking(False)
    with contextlib.suppress(OSError):
        sock.recv(1 << 20)


def half(sock: socket.socket) -> None:
    """Close the half that is ours."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)


def live(rng: random.Random, client: socket.socket, far: socket.socket) -> None:
    """A few things happen to a connection, and then each end is closed in one of two ways."""
    ends = [client, far]
    for _ in range(rng.randrange(6)):
        sock, what = rng.choice(ends), rng.randrange(5)
        if what == 0:
            drain(sock)
        elif what == 1:
            half(sock)
        else:
            feed(sock, (1, 5000, 3_000_000)[what - 2])
    rng.shuffle(ends)
    for sock in ends:
        if rng.random() < 0.5:
            abort(sock)
        sock.close()


def inside(forwarder: Forwarder) -> tuple[int, ...]:
    """Passages, pipes that are lent, and descriptors that are looked at."""
    engine: Any = forwarder._engine
    return len(engine._passages), engine._pipes._lent, len(engine._ready._masks)


@pytest.mark.parametrize("seed", [random.randrange(10**6)])
def test_nothing_is_left(seed: int) -> None:
    rng = random.Random(seed)
    with upstream() as server, Forwarder("127.0.0.1:0", target_of(server)) as forwarder:
        until(lambda: inside(forwarder)[2] == 1)
        before = inside(forwarder)
        open_before = len(os.listdir("/proc/self/fd"))
        waiting: list[tuple[socket.socket, socket.socket]] = []
        for _ in range(CONNECTIONS):
            client, far = connect(forwarder), accepted(server)
            client.sendall(b"x")
            assert read(far, 1) == b"x"
            waiting.append((client, far))
            if len(waiting) > 10:
                live(rng, *waiting.pop(rng.randrange(len(waiting))))
        for pair in waiting:
            live(rng, *pair)
        until(lambda: forwarder.counts.open == 0)
        until(lambda: inside(forwarder) == before)
        kept = 2 * len(forwarder._engine._pipes._free)  # type: ignore[union-attr]  # it runs
        background = 2  # the pair by which the background thread is woken
        assert len(os.listdir("/proc/self/fd")) <= open_before + kept + background
        counts = forwarder.counts
        assert counts.accepted == CONNECTIONS
        assert counts.closed + counts.failed == CONNECTIONS
