"""What only the kernel's own streams do."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from outlast.net.kernel import KernelNetwork, KernelStream, kernel
from outlast.net.options import SocketPlan
from outlast.net.run import run_sync
from outlast.net.seam import WRITE
from tests.net.far_side import PATIENCE, arrival
from tests.net.kernel_world import KernelWorld
from tests.net.scripted import at


@pytest.fixture
def world() -> Iterator[KernelWorld]:
    """The kernel network and a far side on loopback."""
    made = KernelWorld()
    yield made
    made.close()


def test_there_is_one_kernel() -> None:
    found: list[KernelNetwork] = []
    start = threading.Barrier(8)

    def look() -> None:
        start.wait(PATIENCE)
        found.append(kernel())

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert set(found) == {kernel()}


def test_the_wall_clock_is_the_worlds(world: KernelWorld) -> None:
    assert abs(world.network.wall_clock() - time.time()) < PATIENCE


def test_a_dial_that_met_itself_is_refused(world: KernelWorld) -> None:
    """A dial to a free local port may be answered by its own socket (simultaneous open)."""
    address = world.refusing()
    for sock in world._kept:
        sock.close()
    stream = world.network.dial(address, SocketPlan(source=("127.0.0.1", address.port)))
    run_sync(world.network, arrival(world.network, stream, WRITE))
    sock = stream.detach()
    assert sock.getsockname() == sock.getpeername()
    with pytest.raises(ConnectionRefusedError) as failure:
        stream.connected()
    assert failure.value.errno == errno.ECONNREFUSED
    stream.abort()


@pytest.mark.parametrize("when", ["at once", "later"])
def test_an_error_of_the_dial_names_the_address(world: KernelWorld, when: str) -> None:
    address = at("255.255.255.255", 9) if when == "at once" else world.refusing()
    with pytest.raises(OSError) as failure:
        _connect(world, address)
    assert failure.value.errno in (errno.ENETUNREACH, errno.EACCES, errno.ECONNREFUSED)
    assert str(address) in str(failure.value)
    assert os.strerror(failure.value.errno or 0) in str(failure.value)


def _connect(world: KernelWorld, address: Any) -> None:
    stream = world.network.dial(address, SocketPlan())
    try:
        run_sync(world.network, arrival(world.network, stream, WRITE))
        stream.connected()
    finally:
        stream.close()


def test_a_family_that_the_machine_lacks(
    world: KernelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr(socket, "socket", lacking)
    with pytest.raises(OSError) as failure:
        world.network.dial(at("fd00::1"), SocketPlan())
    assert failure.value.errno == errno.EAFNOSUPPORT


class SlowSocket:
    """Stands in a shutdown until it is let go."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go = threading.Event()
        self.trail: list[str] = []

    def shutdown(self, how: int) -> None:
        self.reached.set()
        assert self.go.wait(PATIENCE)
        self.trail.append("shut")

    def close(self) -> None:
        self.trail.append("closed")


def test_a_descriptor_is_not_closed_under_a_thread_that_shuts_it() -> None:
    """Its number may by then be a connection of somebody else's, which would be shut instead."""
    sock: Any = SlowSocket()
    stream = KernelStream(sock, at("10.0.0.1"), SocketPlan())
    shutter = threading.Thread(target=stream.shut)
    closer = threading.Thread(target=stream.close)
    shutter.start()
    assert sock.reached.wait(PATIENCE)
    closer.start()
    sock.go.set()
    for thread in (shutter, closer):
        thread.join(PATIENCE)
    assert sock.trail == ["shut", "closed"]


def test_what_is_closed_is_not_shut() -> None:
    for end in ("close", "abort"):
        sock: Any = SlowSocket()
        sock.setsockopt = lambda *option: None
        stream = KernelStream(sock, at("10.0.0.1"), SocketPlan())
        getattr(stream, end)()
        stream.shut()
        assert sock.trail == ["closed"]
